"""Repetitions of a run beside whose source another user plants what Python or R reads by itself, or
puts links in the place of files and folders."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from machine import patience
from neighbour import give_away, needs_root, shared_folder
from portal_session.runs.plan import Plan
from run_site import PlayedService, RunSite, played_service, printed
from session_server import make_python

pytestmark = needs_root
KINDS = pytest.mark.parametrize("kind", ["script", "notebook"])


@pytest.fixture(scope="module")
def service() -> Iterator[PlayedService]:
    with played_service() as service:
        yield service


@pytest.fixture
def site(tmp_path: Path, service: PlayedService) -> Iterator[RunSite]:
    site = RunSite(tmp_path, service)
    yield site
    site.end()


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """File that PLANTED makes where it is executed."""
    return tmp_path / "ran"


def planted(ran: Path) -> str:
    # `os` alone is imported by every Python.
    return f"import os\nos.close(os.open({str(ran)!r}, os.O_CREAT))\n"


def plan_of(site: RunSite, kind: str, text: str) -> Plan:
    return site.plan(site.script(text) if kind == "script" else site.notebook(text))


def output_of(kind: str, folder: Path) -> str:
    return (folder / "output.log").read_text() if kind == "script" else printed(folder)


@KINDS
def test_what_python_imports_before_the_source(site: RunSite, ran: Path, kind: str) -> None:
    plan = plan_of(site, kind, "import os\nprint(os.getcwd(), __name__)")
    (site.work / "importlib").mkdir()
    for name in ("importlib/__init__", "runpy", "linecache", "traceback", "pathlib", "fnmatch"):
        (site.work / f"{name}.py").write_text(planted(ran) + "raise SystemExit(3)")
    give_away(site.work)
    code, said, folder = site.repeat(plan)
    assert (code, said, output_of(kind, folder)) == (0, "", f"{site.work} __main__\n")
    assert not ran.exists()


@KINDS
@pytest.mark.parametrize("name", ["pickle", "helper"])
def test_what_spawned_processes_import(
    site: RunSite, tmp_path: Path, ran: Path, kind: str, name: str
) -> None:
    """They are started in the folder of the source. Those of a notebook know of no main module."""
    (site.work / "helper.py").write_text("def f(x): return x + 1\n")
    text = (
        "import helper, multiprocessing\nif __name__ == '__main__':\n"
        "  with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        f"    print(pool.map_async(helper.f, [1]).get({patience(20)}))"
    )
    spec = site.home / ".local/share/jupyter/kernels/own/kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [make_python(tmp_path / "venv"), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    about = {"argv": list(map(str, argv)), "display_name": "Own", "language": "python"}
    spec.write_text(json.dumps(about))
    source = site.script(text) if kind == "script" else site.notebook(text)
    plan = site.plan(source, **({"kernel": "own"} if kind == "notebook" else {}))
    (site.work / f"{name}.py").write_text(planted(ran) + "def f(x): return 'new'\n")
    give_away(site.work)
    _, said, folder = site.repeat(plan)
    refused = "pickle.py belongs to another user" in said
    assert refused or output_of(kind, folder) == "[2]\n"
    assert not ran.exists()


def test_what_r_executes_before_the_notebook(site: RunSite, ran: Path) -> None:
    spec = site.home / ".local/share/jupyter/kernels/ir/kernel.json"
    spec.parent.mkdir(parents=True)
    argv = ["R", "--slave", "-e", "IRkernel::main()", "--args", "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "R", "language": "R"}))
    plan = site.plan(site.notebook("cat(getwd())"), kernel="ir")
    (site.work / ".Rprofile").write_text(f"file.create('{ran}')\n")
    give_away(site.work)
    code, _, folder = site.repeat(plan)
    assert (code, printed(folder)) == (0, str(site.work))
    assert not ran.exists()


@KINDS
def test_a_link_in_the_place_of_the_folder(site: RunSite, ran: Path, kind: str) -> None:
    """It leads to a folder of root's, in which all may write."""
    plan = plan_of(site, kind, "import xdrlib")
    with shared_folder() as shared:
        site.work.rename(site.home / "old")
        site.work.symlink_to(shared)
        (shared / "runs").symlink_to(site.home / "old/runs")
        (shared / "xdrlib.py").write_text(planted(ran))
        give_away(shared)
        os.chown(shared, 0, 0)
        site.repeat(plan)
    assert not ran.exists()


def test_modules_in_an_archive(site: RunSite, ran: Path) -> None:
    plan = site.plan(site.script("import sys\nsys.path.insert(0, 'lib.zip')\nimport xdrlib"))
    with zipfile.ZipFile(site.work / "lib.zip", "w") as archive:
        archive.writestr("xdrlib.py", planted(ran))
    give_away(site.work)
    code, said, _ = site.repeat(plan)
    assert code == 1 and "xdrlib.py belongs to another user" in said
    assert not ran.exists()


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_link_in_the_place_of_a_module_of_one_s_own_run(
    site: RunSite, tmp_path: Path, ran: Path, what: str
) -> None:
    """In a folder that both may write, between the start of the run and that of its job."""
    (site.work / "helper.py").write_text("NAME = 'frozen'")
    plan = site.plan(site.script("import helper\nprint(helper.NAME)"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "helper.py").write_text(planted(ran) + "NAME = 'new'")
    give_away(elsewhere)
    if what == "file":
        (site.work / "helper.py").unlink()
        (site.work / "helper.py").symlink_to(elsewhere / "helper.py")
    else:
        site.work.rename(site.home / "old")
        site.work.symlink_to(elsewhere)
        (elsewhere / "runs").symlink_to(site.home / "old/runs")
    assert site.execute(plan)[0] == 0
    assert (plan.folder / "0000/output.log").read_text() == "frozen\n"
    assert not ran.exists()
