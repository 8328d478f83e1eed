"""A demo that begins with what an earlier one has left in the cache.

`make test` runs this first (tests/side_by_side.py), so that all of its demos begin so.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
from pathlib import Path

import pytest
from conftest import a_home, started_demo
from hub_client import Person

from portal.demo.daemons.ports import free_port
from portal.demo.people import myself
from portal.demo.prepared import Prepared, source_digest
from portal.models.audit import AuditEntry, Outcome
from portal.models.catalog.catalog import Verdict
from portal.store import Store

SLOW = ("creating the accounting database", "adding accounts", "testing the environments")
ENTRY = AuditEntry(at=1.0, actor="ada", action="stop-session", target="1", outcome=Outcome.DONE)
OFFERED = {"jupyterlab", "python-venv", "modules"}


@pytest.mark.slurm
@pytest.mark.hub
@pytest.mark.containers
def test_the_second_start_makes_and_tests_nothing() -> None:
    with a_home() as place, started_demo(f"--port={free_port()}", place=place):
        pass
    with a_home() as place, started_demo(f"--port={free_port()}", place=place) as demo:
        said = demo.output()
        assert [words for words in SLOW if words in said] == [], said
        # Slurm has run nothing and knows everyone, and the Hub offers what was tested.
        assert demo.run(["squeue", "--noheader", "--states=all"]).stdout == ""
        if demo.people:
            known = demo.run(["sacctmgr", "-nP", "list", "assoc", "format=user"]).stdout.split()
            assert {"ada", "barbara", "student30"} <= set(known)
        ada = Person(demo.url, "ada")
        form = ada.http.get("/hub/spawn").text
        offered = set(re.findall(r'name="environment"[^>]*value="([a-z-]+)"', form))
        assert offered == OFFERED, form[:4000]
        assert ada.launch({"environment": "python-venv"}).status_code in (201, 202)
        ada.wait_ready()
        ada.stop()
        assert "Deep Learning 101" in Person(demo.url, "student01").page("/hub/spawn")


def test_other_ingredients_are_another_database(tmp_path: Path) -> None:
    data, prepared = tmp_path / "data", Prepared(tmp_path / "cache")
    data.mkdir(mode=0o700)
    (data / "ibdata1").write_bytes(b"rows")
    prepared.keep_accounting(data, "accounts", "22.05")
    assert prepared.has_accounting("accounts", "22.05")
    assert not prepared.has_accounting("accounts", "24.11")
    laid = tmp_path / "laid"
    assert not prepared.lay_accounting(laid, myself(), "other accounts", "22.05")
    assert not laid.exists()
    assert prepared.lay_accounting(laid, myself(), "accounts", "22.05")
    assert (laid / "ibdata1").read_bytes() == b"rows" and laid.stat().st_mode & 0o777 == 0o700


def test_the_last_three_of_a_kind_are_kept(tmp_path: Path) -> None:
    data, prepared = tmp_path / "data", Prepared(tmp_path / "cache")
    data.mkdir()
    versions = [str(number) for number in range(5)]
    for version in versions:
        prepared.keep_accounting(data, version)
    kept = [version for version in versions if prepared.has_accounting(version)]
    assert len(kept) == 3 and versions[-1] in kept


def test_of_a_portals_database_only_the_tests_are_kept(tmp_path: Path) -> None:
    first, second = tmp_path / "first.sqlite", tmp_path / "second.sqlite"
    prepared = Prepared(tmp_path / "cache")
    verdict = Verdict(fingerprint="f" * 32, gpu_type="", passed=True, message="", at=1.0, facts={})

    async def fill() -> None:
        store = Store(url=f"sqlite:///{first}")
        await store.upgrade()
        await store.tests.save_verdict(verdict)
        await store.audit.add_entry(ENTRY)
        await store.close()

    async def look() -> tuple[int, int]:
        store = Store(url=f"sqlite:///{second}")
        await store.upgrade()
        verdicts = await store.tests.verdicts()
        await store.close()
        with contextlib.closing(sqlite3.connect(second)) as database:
            return len(verdicts), database.execute("SELECT count(*) FROM audit").fetchone()[0]

    asyncio.run(fill())
    prepared.keep_tests(first, "image")
    assert not prepared.lay_tests(second, myself(), "another image")
    assert prepared.lay_tests(second, myself(), "image")
    assert asyncio.run(look()) == (1, 0)
    assert second.stat().st_mode & 0o777 == 0o600
    assert not prepared.lay_tests(second, myself(), "image"), "what is there stays"


def test_a_digest_of_source_is_of_those_folders() -> None:
    assert source_digest("images") == source_digest("images") != source_digest("images", "store")
