"""A person fills the portal's disk with the logs of environments of their own: long lines, many
tests, environments that come and go."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from build_schedulers import ADA, DRAFT, OWN, Site

from portal.catalog.builds import work_logs
from portal.catalog.builds.job_monitor import MAX_LOG
from portal.catalog.versions import user_environments as own_environments
from portal.catalog.versions.user_environments import UserEnvironments
from portal.images import log_protocol
from portal.models.catalog.image_job import Event
from portal.slurm.jobs.job_log import make_log
from portal.store import Store


@pytest.fixture
def site(tmp_path: Path, store: Store) -> Site:
    return Site(tmp_path, store)


@pytest.fixture
async def own(site: Site) -> UserEnvironments:
    """With one of Ada's, whose three tests are in Slurm's queue."""
    return await site.own()


def logs(site: Site) -> list[str]:
    return sorted(path.name for path in (site.place / "logs").iterdir())


async def ended(site: Site) -> None:
    """Let everything that runs fail."""
    for job in site.ids():
        if not site.cluster.jobs[job].state.ended:
            site.cluster.start(job)
            site.say(job, error="It does not work.")
    await site.turn()


async def test_logs_go_with_their_environment(own: UserEnvironments, site: Site) -> None:
    await ended(site)
    assert len(logs(site)) == 3
    await own.remove(OWN, ADA)
    assert logs(site) == []


async def test_environments_that_come_and_go(own: UserEnvironments, site: Site) -> None:
    for _ in range(5):
        await own.remove(OWN, ADA)
        await own.register(DRAFT, ADA)
        await site.turn()
    assert len(logs(site)) == 3


async def test_tests_without_end(
    own: UserEnvironments, site: Site, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_environments, "_LOGS", 6)
    for _ in range(6):
        await ended(site)
        await own.test(OWN, ADA)
        await site.turn()
    assert len(logs(site)) == 6 + 3
    newest, _ = await store.tests.of_environment(OWN, 0, 6)
    assert {one.log for one in newest} <= set(logs(site))


async def test_old_logs_go_and_living_ones_stay(own: UserEnvironments, site: Site) -> None:
    folder = site.place / "logs"
    old = make_log(str(folder), "build", "root")
    for name in logs(site):
        os.utime(folder / name, (0, time.time() - 91 * 86400))
    site.build_scheduler._swept_at = None
    await site.turn()
    assert old not in logs(site) and len(logs(site)) == 3, "three tests live"


@pytest.mark.parametrize(
    "name",
    [
        "notes.log",
        "../test-aaaaaaaaaaaaaaaaaaaaaa.log",
        "test-aaaaaaaaaaaaaaaaaaaaaa.log.gz",
        "test-short.log",
        "session-aaaaaaaaaaaaaaaaaaaaaa.log",
        "test-aaaaaaaaaaaaaaaaaaaaaa/x.log",
        "",
        ".",
    ],
)
def test_other_files_are_left_alone(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / name
    if name.endswith(("log", "gz")):
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, (0, 0))
    work_logs.remove_logs(str(folder), [name])
    assert work_logs.sweep_logs(str(folder), 1) == []
    assert path.exists()


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_is_no_log_is_left_alone(tmp_path: Path, kind: str) -> None:
    folder, victim = tmp_path / "logs", tmp_path / "victim"
    folder.mkdir()
    victim.write_text("here")
    path = folder / f"test-{'a' * 22}.log"
    if kind == "link":
        path.symlink_to(victim)
        os.utime(path, (0, 0), follow_symlinks=False)
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    assert work_logs.sweep_logs(str(folder), 0.00001) == []
    assert victim.read_text() == "here" and os.path.lexists(path)


def test_a_log_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / make_log(str(tmp_path), "test", "root")
    os.utime(path, (0, 0))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert work_logs.sweep_logs(str(tmp_path), 1) == []


@pytest.mark.parametrize("lives", [False, True])
def test_one_that_is_too_long_is_cut(tmp_path: Path, lives: bool) -> None:
    name = make_log(str(tmp_path), "test", "root")
    os.truncate(tmp_path / name, MAX_LOG * 4)  # sparse: it takes no room
    work_logs.sweep_logs(str(tmp_path), 1, [name] if lives else [])
    assert (tmp_path / name).stat().st_size == (MAX_LOG * 4 if lives else MAX_LOG)


@pytest.mark.parametrize("line", ["x", "x" * 2000, "ä" * 999, "", "\n\n\n"])
def test_what_a_container_prints_is_bounded(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log_protocol, "MOST", 20_000)
    monkeypatch.setattr(log_protocol._Room, "left", 20_000)
    for _ in range(30_000):
        log_protocol.say(line)
    log_protocol.emit("nonce", Event(at=1.0, step="done", error="It failed."))
    said = capsys.readouterr().out
    assert len(said) < 20_500
    lines = said.splitlines()
    assert lines[-2].startswith("(More than ") and "It failed." in lines[-1]
    assert [one.step for one in log_protocol.read_events(said, "nonce")[0]] == ["done"]
