"""``portal database``, and what ``portal doctor`` says of the database."""

from __future__ import annotations

import subprocess
from pathlib import Path

import checkout
import pytest
from postgres import PASSWORD, PostgreSQL
from session_records import recorded

from portal.doctor.checks import all_checks
from portal.doctor.checks.database import database
from portal.doctor.finding import Finding, Level
from portal.doctor.site import Site
from portal.models.announcement import AnnouncementDraft
from portal.models.audit import AuditEntry, Outcome
from portal.models.cluster.history import ClusterSample
from portal.models.session.usage import JobUsage
from portal.store import HEAD, Store

GPU_TIME = JobUsage(
    job_id="1", submitted_at=1, day="2026-11-21", user="ada", groups=("a", "b"), held=60
)


def portal(*words: str, place: Path = checkout.ROOT) -> subprocess.CompletedProcess[str]:
    """``portal database …`` in the folder ``place``."""
    return checkout.portal("database", *words, cwd=place)


def config_of(folder: Path, url: str, more: str = "") -> Path:
    file = folder / "hub_config.py"
    file.write_text(f"c = get_config()\nc.Store.url = {url!r}\nc.JupyterHub.port = 1\n{more}")
    return file


# -- the command ---------------------------------------------------------------------------------


def test_status_and_upgrade(url: str, tmp_path: Path) -> None:
    config = f"--config={config_of(tmp_path, url)}"
    before = portal("status", config)
    assert before.returncode == 1
    assert PASSWORD not in before.stdout + before.stderr
    done = portal("upgrade", config)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"this version's ({HEAD})" in done.stdout
    after = portal("status", config)
    assert (after.returncode, after.stderr) == (0, "")
    assert after.stdout == done.stdout
    assert PASSWORD not in after.stdout


def test_status_makes_nothing(tmp_path: Path) -> None:
    for words in (["status"], ["upgrade"]):  # in a wrong folder
        done = portal(*words, "--url=sqlite:///portal.sqlite", place=tmp_path)
        assert done.returncode == 1
        assert f"There is no file {tmp_path}/portal.sqlite yet" in done.stderr
        assert "run this command there" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_status_of_empty_tables(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    done = portal("status", f"--url=sqlite:///{tmp_path}/x")
    assert done.returncode == 1
    assert "`portal database upgrade`" in done.stdout
    assert (tmp_path / "x").stat().st_size == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["status", "--config=/none.py"], "/none.py does not exist."),
        (["status", "--url=oracle://a:hunter2@b/c"], "SQLite (sqlite:///FILE) and PostgreSQL"),
        (["upgrade", "--url=postgresql://a:hunter2@127.0.0.1:1/c"], "Connection refused"),
        (["upgrade", "--url=sqlite:////proc/none/x"], "cannot be created or upgraded"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(words: list[str], told: str) -> None:
    done = portal(*words)
    assert done.returncode == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stdout + done.stderr


def test_a_wrong_configuration_file(tmp_path: Path) -> None:
    done = portal("status", f"--config={config_of(tmp_path, 'sqlite:///x', '1/0')}")
    assert (done.returncode, done.stdout) == (1, "")
    assert "ZeroDivisionError" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("back", [False, True])
async def test_copying(sqlite_url: str, postgres_url: str, back: bool, tmp_path: Path) -> None:
    """Everything arrives, a second time nothing, and new rows get new numbers."""
    source, target = (postgres_url, sqlite_url) if back else (sqlite_url, postgres_url)
    old, new = Store(url=source), Store(url=target)
    await old.upgrade()
    draft = AnnouncementDraft(text="Hello", starts_at=1, ends_at=2)
    said = [await old.announcements.add_announcement(draft, "grace", at) for at in (1, 2)]
    session = recorded(
        id="a", user="ada", submitted_at=1.5, groups=("x",), options={"gpus": 1, "é": None}
    )
    await old.sessions.save(session)
    await old.history.add_samples(ClusterSample(at=60, gpus_total=8))
    await old.usage.add_seconds([GPU_TIME], until={("1", 1): 5.0})
    await old.audit.add_entry(
        AuditEntry(at=1, actor="g", action="x", target="y", outcome=Outcome.DONE)
    )
    rest = [f"--config={config_of(tmp_path, target)}", f"--source={source}"]
    done = portal("copy", *rest)
    assert (done.returncode, done.stderr) == (0, "")
    assert PASSWORD not in done.stdout
    assert "Copied 10 rows." in done.stdout
    assert await new.announcements.all() == (said[::-1], 2)
    assert await new.sessions.find() == ([session], 1)
    assert await new.usage.accounted_until() == {("1", 1): 5.0}
    totals = await new.usage.totals(by="group", period="month", start=0, end=2e9)
    assert totals == await old.usage.totals(by="group", period="month", start=0, end=2e9) != []
    assert await new.audit.find() == await old.audit.find()
    assert await new.history.points(0, 600, 10) == await old.history.points(0, 600, 10)
    assert (await new.announcements.add_announcement(draft, "grace", 3)).id > said[-1].id
    await new.usage.add_seconds([GPU_TIME.model_copy(update={"job_id": "2"})])
    again = portal("copy", *rest)
    assert again.returncode == 1
    assert "is not empty" in again.stderr
    assert (await new.announcements.all())[1] == 3
    await old.close()
    await new.close()


def test_copying_from_nothing(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for source, words in {
        "": "Name the database to copy from",
        f"sqlite:///{tmp_path}/none": "There is no file",
        f"sqlite:///{tmp_path}/empty": "does not have this version's tables",
        "postgresql://a:hunter2@127.0.0.1:1/x": "does not answer",
    }.items():
        done = portal("copy", f"--url={sqlite_url}", f"--source={source}")
        assert done.returncode == 1
        assert words in done.stderr
        assert "Traceback" not in done.stderr
        assert "hunter2" not in done.stderr + done.stdout


def test_help(tmp_path: Path) -> None:
    assert "upgrade" in portal().stdout
    assert portal("no-such-word").returncode == 2


# -- the doctor ----------------------------------------------------------------------------------


async def examine(folder: Path, url: str, more: str = "") -> Finding:
    return await database.run(Site(str(config_of(folder, url, more))), 20)


def test_the_doctor_asks() -> None:
    assert database in all_checks()


async def test_a_good_database(url: str, tmp_path: Path) -> None:
    store = Store(url=url)
    await store.upgrade()
    await store.close()
    finding = await examine(tmp_path, url)
    assert finding.level is Level.OK
    assert finding.found.endswith(f"version {HEAD}")
    assert PASSWORD not in finding.found


async def test_no_file_yet(tmp_path: Path) -> None:
    finding = await examine(tmp_path, f"sqlite:///{tmp_path}/none.sqlite")
    assert finding.level is Level.WARNING
    assert "The Hub creates it" in finding.mend
    assert not (tmp_path / "none.sqlite").exists()


async def test_no_tables_yet(postgres_url: str, tmp_path: Path) -> None:
    finding = await examine(tmp_path, postgres_url)
    assert finding.level is Level.WARNING
    assert "no tables yet" in finding.found
    assert "portal database upgrade" in finding.mend


async def test_a_server_that_is_away(tmp_path: Path) -> None:
    finding = await examine(tmp_path, "postgresql://portal:hunter2@127.0.0.1:1/x")
    assert finding.level is Level.FAILURE
    assert "Connection refused" in finding.found
    assert "docs/how-to/database.md" in finding.mend
    assert "hunter2" not in finding.found


async def test_a_newer_database(url: str, tmp_path: Path) -> None:
    store = Store(url=url)
    await store.upgrade()
    update = "UPDATE portal_version SET version_num = '9999'"
    await store.database.run(lambda to: to.exec_driver_sql(update), write=True)
    await store.close()
    finding = await examine(tmp_path, url)
    assert finding.level is Level.FAILURE
    assert "newer version (9999)" in finding.found


async def test_files_that_others_can_read(
    postgres: PostgreSQL, postgres_url: str, sqlite_url: str, tmp_path: Path
) -> None:
    for url in (postgres_url, sqlite_url):
        store = Store(url=url)
        await store.upgrade()
        await store.close()
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    path.chmod(0o644)
    secret = tmp_path / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o640)
    more = f"c.Store.password_file = {str(secret)!r}"
    for url, file in ((sqlite_url, path), (postgres_url, secret)):
        finding = await examine(tmp_path, url, more)
        assert finding.level is Level.FAILURE
        assert finding.mend == f"chmod 0600 {file}"
    secret.chmod(0o600)
    assert (await examine(tmp_path, postgres_url, more)).level is Level.OK


async def test_a_wrong_address(tmp_path: Path) -> None:
    finding = await examine(tmp_path, "mysql://root:hunter2@x/y")
    assert finding.level is Level.FAILURE
    assert "SQLite" in finding.found
    assert "hunter2" not in finding.found
