"""What a project has left, and its usage by member; the database is real, Slurm's text is not."""

from __future__ import annotations

import asyncio
import csv
import io
import os
import threading
import time
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from courses_site import snapshot
from test_account_limits import Runner, line, watch
from test_projects_api import Site, running

from portal.errors import SlurmUnavailable
from portal.models.cluster.cluster import JobState
from portal.models.session.usage import JobUsage
from portal.projects.folder import room
from portal.projects.folder.room import FolderRooms, read_folder
from portal.projects.money import usage

DAY = 86400


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running(tmp_path) as site:
        yield site


async def used(site: Site, person: str, hours: float, days_ago: int = 0, **more: Any) -> None:
    """Record a job of the project with ``hours`` on one UTC day."""
    day = datetime.fromtimestamp(time.time() - DAY * days_ago, UTC).date().isoformat()
    values = {"course": "proteins", "account": "teaching", **more}
    row = JobUsage(
        job_id=f"{person}-{days_ago}-{hours}",
        submitted_at=1,
        day=day,
        user=person,
        held=hours * 3600,
        **values,
    )
    await site.parts.store.usage.add_seconds([row])


def slurm(site: Site, minutes: str, config: str = "") -> Runner:
    """Let Slurm know the project's account with these GrpTRESMins."""
    runner = Runner(
        {"teaching": line("teaching", "root(1)", minutes), "root": line("root", "", "cpu=N(1)")},
        config,
    )
    site.parts.cluster.limits = watch(runner)  # type: ignore[attr-defined]
    return runner


async def money(site: Site, who: str = "rita") -> Any:
    return await site.done(who, "GET", "projects/proteins/money")


async def test_the_limit_of_slurm_ends_before_the_budget(site: Site) -> None:
    await site.approved()
    await used(site, "mike", 3)
    await used(site, "other", 4, course="")  # of the same account, outside of the project
    slurm(site, "gres/gpu=1200(900),cpu=6000(60)")
    told = await money(site)
    assert told["budget"]["used"] == 3 and told["budget"]["budget"] == 100
    gpu, cpu = told["slurm"]
    assert (gpu["account"], gpu["tres"], gpu["limit"], gpu["used"]) == (
        "teaching", "gres/gpu", 20, 15,
    )  # fmt: skip
    assert (cpu["limit"], cpu["used"], cpu["until"]) == (100, 1, None)
    # Seven hours since six days ago: 5 are left.
    begin = datetime.combine(
        datetime.now(UTC).date() - timedelta(days=6), datetime.min.time(), UTC
    ).timestamp()
    left = 5 / 7 * (time.time() - begin)
    assert gpu["until"] - time.time() == pytest.approx(left, abs=5)
    assert (told["first"], told["first_at"]) == ("slurm", gpu["until"])
    assert (told["enforced"], told["problem"], told["half_life"]) == (True, "", None)
    assert 0 <= told["age"] < 60


async def test_a_limit_that_slurm_does_not_enforce_ends_nothing(site: Site) -> None:
    await site.approved()
    await used(site, "mike", 3)
    slurm(site, "gres/gpu=60(61)", "AccountingStorageEnforce = associations\n")
    told = await money(site)
    assert told["enforced"] is False and told["first"] == "budget"
    assert told["slurm"][0]["until"] is not None


async def test_the_project_ends_before_its_money(site: Site) -> None:
    await site.approved(ends=str(date.today() + timedelta(days=2)))
    await used(site, "mike", 1)
    slurm(site, "cpu=N(1)")
    told = await money(site)
    assert told["slurm"] == [] and told["first"] == "end"
    end = datetime.combine(date.today() + timedelta(days=3), datetime.min.time()).timestamp()
    assert told["first_at"] == end < told["budget"]["until"]


async def test_nothing_used_has_no_end(site: Site) -> None:
    await site.approved()
    slurm(site, "gres/gpu=60(0)")
    told = await money(site)
    assert (told["first"], told["first_at"], told["weekly"]) == ("", None, 0)


async def test_a_silent_slurm_is_said_and_its_last_answer_stays(site: Site) -> None:
    await site.approved()
    await used(site, "mike", 3)
    told = await money(site)
    assert told["problem"] == "Slurm does not answer." and told["age"] is None
    assert told["slurm"] == [] and told["first"] == "budget"
    runner = slurm(site, "gres/gpu=60(30)")
    assert (await money(site))["slurm"][0]["used"] == 0.5

    async def away(*_: Any, **__: Any) -> Any:
        raise SlurmUnavailable("Slurm does not answer: connection refused.")

    runner.run = away
    answer = await site.parts.cluster.limits.of_account("teaching")  # type: ignore[attr-defined]
    answer.invalidate()
    told = await money(site)
    assert told["slurm"][0]["used"] == 0.5
    assert told["problem"] == "Slurm does not answer: connection refused."


async def test_without_an_account_slurm_is_not_asked(site: Site) -> None:
    await site.approved(account=None)
    told = await money(site)
    assert (told["account"], told["weekly"], told["problem"]) == (None, None, "")


async def test_usage_by_member_and_day(site: Site) -> None:
    await site.approved()
    for number, person in enumerate(["mike", "olga", "a", "b", "c", "d", "e"]):
        await used(site, person, 10 - number)
    await used(site, "mike", 2, days_ago=3)
    await used(site, "mike", 50, days_ago=40)  # before the days that are shown
    await used(site, "mike", 7, course="other")
    told = await site.done("rita", "GET", "projects/proteins/usage?last=7")
    assert told["periods"][-1] == datetime.now(UTC).date().isoformat()
    assert len(told["periods"]) == len(told["times"]) == 7
    assert [each["person"] for each in told["members"]] == ["mike", "olga", "a", "b", "c"]
    assert told["members"][0]["values"] == [0, 0, 0, 2, 0, 0, 10]
    assert told["others"] == 2 and told["of_others"]["values"] == [0, 0, 0, 0, 0, 0, 9]
    assert told["hours"] == pytest.approx(51)
    weeks = await site.done("rita", "GET", "projects/proteins/usage?period=week&last=8")
    assert weeks["hours"] == pytest.approx(101)
    assert all(name[4:6] == "-W" for name in weeks["periods"])
    starts = [datetime.fromtimestamp(at, UTC) for at in weeks["times"]]
    assert {start.weekday() for start in starts} == {0}


async def test_usage_as_a_file_that_no_spreadsheet_runs(site: Site) -> None:
    await site.approved()
    await used(site, "=cmd|' /C calc'!A0", 1)
    await used(site, 'ol"ga,', 2, days_ago=1)
    answer = await site.ask("rita", "GET", "projects/proteins/usage.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert 'filename="proteins-usage.csv"' in answer.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["user"] for row in rows] == ['ol"ga,', "'=cmd|' /C calc'!A0"]
    assert [float(row["held_hours"]) for row in rows] == [2, 1]
    assert list(rows[0])[:3] == ["period", "user", "jobs"]


async def test_the_rows_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await site.approved()
    for person in ("mike", "olga", "rita"):
        await used(site, person, 1)
    monkeypatch.setattr(usage, "MOST", 2)
    for path in ("usage", "usage.csv"):
        said = await site.refused(400, "olga", "GET", f"projects/proteins/{path}")
        assert "Choose weeks, or fewer periods" in said
    await site.refused(400, "olga", "GET", "projects/proteins/usage?last=93")


async def test_why_a_job_waits_is_said_with_the_way_out(site: Site) -> None:
    await site.approved()
    await site.session("mike", job_id="7")
    await site.session("olga", job_id="8")
    jobs = {
        "7": SimpleNamespace(state=JobState.PENDING, reason="AssocGrpGRESMinutes"),
        "8": SimpleNamespace(state=JobState.PENDING, reason="Priority"),
    }
    view = SimpleNamespace(snapshot=snapshot().model_copy(update={"jobs": jobs}))
    site.parts.dashboard.view = view  # type: ignore[assignment]
    work = (await site.done("rita", "GET", "projects/proteins"))["work"]
    waits = {each["user"]: each["waits"] for each in work}
    assert waits["mike"].startswith("A limit of the account is reached: GPU time")
    assert "account of the project 'Proteins'. Request fewer GPUs" in waits["mike"]
    assert waits["olga"] == "Waiting behind jobs with a higher priority."


# -- the folder ------------------------------------------------------------------------------------


def test_the_room_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "proteins"
    assert read_folder(str(path), str(tmp_path)).exists is False
    path.mkdir()
    found, real = read_folder(str(path), str(tmp_path)), os.statvfs(path)
    assert found.exists and found.size == real.f_blocks * real.f_frsize
    assert found.free == pytest.approx(real.f_bavail * real.f_frsize, abs=2**30)
    assert found.quota is None

    def smaller(at: str) -> Any:  # as XFS answers for a directory with a quota of its project
        blocks = 100 if at == str(path) else 1000
        return SimpleNamespace(f_blocks=blocks, f_frsize=4096, f_bavail=blocks // 2)

    monkeypatch.setattr(room.os, "statvfs", smaller)
    found = read_folder(str(path), str(tmp_path))
    assert (found.size, found.free, found.quota) == (100 * 4096, 50 * 4096, 100 * 4096)
    values = {"ceph.quota.max_bytes": b"1000", "ceph.dir.rbytes": b"1200"}
    monkeypatch.setattr(room.os, "getxattr", lambda _, name, **__: values[name])
    found = read_folder(str(path), str(tmp_path))
    assert (found.quota, found.free) == (1000, 0)
    (tmp_path / "link").symlink_to(path)
    assert read_folder(str(tmp_path / "link"), str(tmp_path)).exists is False


async def test_a_file_system_that_hangs_holds_no_page_and_few_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, inside = threading.Event(), []

    def hang(path: str, root: str) -> Any:
        inside.append(path)
        go.wait(30)
        return read_folder(path, root)

    monkeypatch.setattr(room, "read_folder", hang)
    monkeypatch.setattr(room, "_PATIENCE", 0.1)
    rooms = FolderRooms(str(tmp_path))
    try:
        began = time.monotonic()
        found = await asyncio.gather(*(rooms.of_project(f"p{n % 20}") for n in range(100)))
        assert {one.exists for one in found} == {None}
        assert time.monotonic() - began < 5
        assert len(inside) == 4
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 1), 2) == 1
    finally:
        go.set()
