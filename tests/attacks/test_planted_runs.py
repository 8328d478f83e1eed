"""Code of another user in the place of a run's frozen code: the folder of a run may be where others
can rename it, and what lies beside the code says nothing about it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from neighbour import as_neighbour, needs_root, shared_folder
from portal_session.runs import RunError, disk
from portal_session.runs.disk import strangers_may_replace
from portal_session.runs.plan import Plan, freeze
from portal_session.runs.source import read_source
from run_site import PlayedService, RunSite, manifest, played_service

EVIL = "open('/dev/null'); import os; open(os.environ['TRACE'], 'w').write('evil')\n"
MODULE = "open(__import__('os').environ['TRACE'], 'w').write('good')\n"


@pytest.fixture(scope="module")
def service() -> Iterator[PlayedService]:
    with played_service() as service:
        yield service


@pytest.fixture
def site(tmp_path: Path, service: PlayedService) -> Iterator[RunSite]:
    site = RunSite(tmp_path, service)
    (site.work / "helper.py").write_text(MODULE)
    yield site
    site.end()


def change_source(folder: Path) -> None:
    """Replace the source, with a fresh hash beside it."""
    (folder / "source.py").write_text(EVIL)
    plan = json.loads((folder / "run.json").read_text())
    plan["sha256"] = hashlib.sha256(EVIL.encode()).hexdigest()
    (folder / "run.json").write_text(json.dumps(plan))


def change_module(folder: Path) -> None:
    """Replace a frozen module, with a fresh hash beside it."""
    (folder / "modules/helper.py").write_text(EVIL)
    plan = json.loads((folder / "run.json").read_text())
    plan["modules"][0]["sha256"] = hashlib.sha256(EVIL.encode()).hexdigest()
    (folder / "run.json").write_text(json.dumps(plan))


def change_only_the_module(folder: Path) -> None:
    (folder / "modules/helper.py").write_text(EVIL)


def change_points(folder: Path) -> None:
    plan = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**plan, "points": [{"n": 2}]}))


def change_the_working_directory(folder: Path) -> None:
    plan = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**plan, "working_directory": "/tmp"}))


def put_a_link(folder: Path) -> None:
    """Put another folder in the place of the run's, as who owns the folder above can."""
    change_source(shutil.move(folder, folder.with_name("mine")))
    folder.symlink_to("mine")


@pytest.mark.parametrize(
    "change",
    [
        change_source, change_module, change_only_the_module, change_points,
        change_the_working_directory, put_a_link,
    ],
)  # fmt: skip
def test_nothing_but_what_was_frozen_is_executed(
    site: RunSite, change: Callable[[Path], None]
) -> None:
    plan = site.plan(site.script("import helper\n"), [{"n": 1}])
    change(plan.folder)
    trace = site.home / "trace"
    code, said = site.execute(plan, TRACE=str(trace))
    assert (code, trace.exists()) == (72, False)
    assert "was changed after" in said and "Start a new run." in said


def test_what_was_frozen_is_executed(site: RunSite) -> None:
    plan = site.plan(site.script("import helper\n"), [{"n": 1}])
    (site.work / "train.py").write_text(EVIL)
    (site.work / "helper.py").write_text(EVIL)
    trace = site.home / "trace"
    assert site.execute(plan, TRACE=str(trace)) == (0, "")
    assert trace.read_text() == "good"
    assert manifest(plan.folder / "0000")["working_directory"] == str(site.work)


@needs_root
def test_a_run_that_is_older_than_digests_is_its_user_s_own(site: RunSite) -> None:
    plan = site.plan(site.script("import helper\n"), [{"n": 1}])._replace(code_digest="")
    change_source(plan.folder)
    os.chown(plan.folder / "run.json", 5, -1)
    trace = site.home / "trace"
    code, said = site.execute(plan, TRACE=str(trace))
    assert (code, trace.exists()) == (72, False)
    assert "run.json cannot be read: It belongs to another user." in said


def frozen(folder: Path) -> Plan:
    """Freeze a run of a script in this folder."""
    (folder / "train.py").write_text("print(1)\n")
    return freeze(read_source(folder / "train.py"), [{}], "train")


@needs_root
def test_a_neighbour_who_made_runs_first_gets_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with shared_folder() as shared:
        as_neighbour("mkdir $1/runs; chmod 777 $1/runs", shared)
        assert frozen(shared).folder == tmp_path / "runs/train"
        assert list((shared / "runs").iterdir()) == []


@needs_root
def test_nor_does_one_who_leads_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("home", "other"):
        (tmp_path / name).mkdir()
    with shared_folder() as shared:
        as_neighbour("ln -s $2 $1/runs", shared, tmp_path / "other")
        assert frozen(shared).folder == tmp_path / "home/runs/train"
    with shared_folder() as shared:
        as_neighbour("ln -s $2 $1/runs", shared, tmp_path / "new")
        try:  # Linux follows no such link where protected_symlinks is 1, proc_sys_fs(5)
            assert frozen(shared).folder == tmp_path / "home/runs/train-2"
        except RunError as error:
            assert re.search("cannot be written to|is a file", str(error))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "other"]


@needs_root
@pytest.mark.parametrize(
    ("mode", "made_by_neighbour", "replaceable"),
    [
        (0o1777, False, False),
        (0o1777, True, True),
        (0o777, False, True),
        (0o2775, False, False),
        (0o2775, True, False),  # a project's folder: its members trust each other
        (0o755, False, False),
    ],
)
def test_folders_in_which_strangers_may_replace_a_run(
    mode: int, made_by_neighbour: bool, replaceable: bool
) -> None:
    with shared_folder(mode) as shared:
        (shared / "runs").mkdir()
        if made_by_neighbour:
            os.chown(shared / "runs", 5, -1)
        assert strangers_may_replace(shared / "runs") is replaceable


@needs_root
@pytest.mark.parametrize(("made_by", "replaceable"), [("root", False), ("stranger", True)])
def test_in_a_container_root_is_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made_by: str, replaceable: bool
) -> None:
    """All owners but the user are then."""
    (tmp_path / "uid_map").write_text("         6         6          1\n")
    monkeypatch.setattr(disk, "_UID_MAP", tmp_path / "uid_map")
    monkeypatch.setattr(os, "geteuid", lambda: 6)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).stat().st_mode & 0o002 != 0)
    with shared_folder() as shared:
        os.chown(shared, 65534, -1)
        (shared / "made").mkdir()
        (shared / "made").chmod(0o777 if made_by == "stranger" else 0o755)
        os.chown(shared / "made", 65534, -1)
        (shared / "made/mine").mkdir()
        os.chown(shared / "made/mine", 6, -1)
        assert strangers_may_replace(shared / "made/mine") is replaceable


def test_without_a_place_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "all").chmod(0o777)
    monkeypatch.setenv("HOME", str(tmp_path / "all"))
    with pytest.raises(RunError, match="Copy the source to a folder in which only you may write"):
        frozen(tmp_path / "all")
    assert [path.name for path in (tmp_path / "all").iterdir()] == ["train.py"]
