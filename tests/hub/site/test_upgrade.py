"""An upgrade of the Hub and its service under people who work: from the version before the first
release to this one, on to a later one, and back, which is refused."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import checkout
import pytest
from hub_client import wait_until
from installed_hub import (
    Away,
    InstalledHub,
    next_version,
    source_of,
    without_own_hub,
)
from jobs import nothing_left
from machine import patience
from people_at_work import POINT, Work
from played_points import played_python

from portal.store import HEAD

BEFORE = "fbe39a41"  # the commit before version 0.1.0
# Seconds without pages. The goal is 10, measured with the machine to itself (the test prints them):
# a Hub that starts beside other tests takes as long as they let it.
HUNG = 30.0
# Columns that change by themselves at each start of a Hub, or while it runs. All of a table: it
# counts or measures, and only the presence of its rows is compared.
ALL = {"*"}
MOVING = {
    "hub.api_tokens": {"last_activity"},
    "hub.oauth_clients": {"secret"},  # of services: new at each start
    "hub.servers": {"port"},  # of those without a page: the service's
    "hub.services": {"command", "environment", "_server_id"},
    "hub.spawners": {"last_activity", "state"},
    "hub.users": {"last_activity"},
    "portal.environment_tests": ALL,  # they go on
    "portal.history": ALL,
    "portal.history_series": ALL,
    "portal.portal_version": ALL,
    "portal.run_points": {"use"},
    "portal.runs": {"job_id"},  # written when Slurm's answer is known
    "portal.sessions": {"node", "nodes"},
    "portal.session_reports": ALL,  # of what runs meanwhile
    "portal.usage_days": ALL,
    "portal.usage_jobs": ALL,
}


@pytest.fixture(scope="module")
def sources() -> Iterator[dict[str, Path]]:
    """The source of each version, where the Hub's account can read it."""
    place = Path("/var/tmp") / f"pt-{secrets.token_hex(4)}"
    place.mkdir(mode=0o755)
    try:
        yield {
            BEFORE: source_of(BEFORE, place),
            "0.1.0": checkout.ROOT,
            "next": next_version(place, HEAD),
        }
    finally:
        shutil.rmtree(place)


def test_people_work_on_while_the_hub_is_upgraded(
    demo: Any, sources: dict[str, Path], tmp_path: Path
) -> None:
    nothing_left(demo, "ada")
    folder: Path
    steps: list[str] = []
    with played_python(demo, "gated", POINT) as folder, without_own_hub(demo) as variables:
        start: Callable[[str], InstalledHub] = lambda version: InstalledHub(  # noqa: E731
            demo, variables, sources[version], tmp_path / version
        )
        hub = start(BEFORE)
        wait_until("the old Hub answers", hub.answers)
        try:
            work = Work(demo, folder)
            try:
                work.begin_session()
                work.begin_jobs()
                for version in ("0.1.0", "next"):
                    cell = work.kernel.send(
                        "import time\nfor n in range(40): print(n, flush=True); time.sleep(0.2)"
                    )
                    with Away(demo.url) as away:
                        began = time.monotonic()
                        hub.stop()
                        stopped = time.monotonic() - began
                        before = kept(demo)
                        hub = start(version)
                        wait_until(f"{version} answers", hub.answers)
                    lines = work.kernel.wait(cell).printed.split()
                    assert lines == [str(n) for n in range(40)], "the websocket stayed open"
                    wait_until("sessions are back", lambda: work.ada.server().get("ready"))
                    work.works()
                    rows = compared(before, kept(demo))
                    assert away.longest < patience(HUNG)
                    steps.append(
                        f"| {version} | {away.longest:.1f} s (stop {stopped:.1f} s) | {rows} |"
                    )
                ended = work.end()
                assert ended["counts"]["succeeded"] == 2, ended
                assert work.printed()
            finally:
                work.leave()
            hub.stop()
            before = kept(demo)
            refused = start("0.1.0").refuses()
            assert "newer version (9001)" in refused and "Nothing was changed" in refused
            assert kept(demo) == before
        finally:
            hub.stop()
    print("| to | pages away | rows compared |", *steps, sep="\n")


Rows = dict[tuple[Any, ...], dict[str, Any]]  # of a table, by primary key


def kept(demo: Any) -> dict[str, Rows]:
    """Return the rows of all tables of both databases."""
    folder, found = Path(demo.words["hub_directory"]), {}
    for role, name in (("hub", "jupyterhub"), ("portal", "portal")):
        with contextlib.closing(sqlite3.connect(folder / f"{name}.sqlite")) as connection:
            for table in tables_of(connection):
                columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
                key = [column[0] for column in columns if column[5]] or [0]
                names = [column[1] for column in columns]
                found[f"{role}.{table}"] = {
                    tuple(row[place] for place in key): dict(zip(names, row, strict=True))
                    for row in connection.execute(f"SELECT * FROM {table}")
                }
    return found


def tables_of(connection: sqlite3.Connection) -> list[str]:
    found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    return [name for (name,) in found if not name.startswith("sqlite_")]


def compared(before: dict[str, Rows], after: dict[str, Rows]) -> int:
    """Fail if a row is gone, or has changed otherwise than by itself; return how many there are."""
    problems = []
    for table, rows in before.items():
        for key, row in rows.items():
            now = after[table].get(key)
            if now is None and new_at_each_start(table, row):
                continue
            if now is None:
                problems.append(f"{table} {key} is gone: {row}")
                continue
            moving = MOVING.get(table, set())
            problems += [
                f"{table} {key}: {name} was {value!r}, is {now[name]!r}"
                for name, value in row.items()
                if not moving & {name, "*"} and alike(now[name]) != alike(value)
            ]
    assert not problems, "\n".join(problems)
    return sum(map(len, before.values()))


def new_at_each_start(table: str, row: dict[str, Any]) -> bool:
    """Return True for the address of the service, and for the version of the schema."""
    return table == "portal.portal_version" or row.get("cookie_name") == "service-portal"


def alike(value: Any) -> Any:
    """Return a list of scopes without its order."""
    if isinstance(value, str) and value.startswith("["):
        return sorted(json.loads(value), key=str)
    return value
