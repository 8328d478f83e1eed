"""Repetitions of another user's run, whose files that user can change at any time: what is executed
is what the run was started with, or nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from neighbour import give_away, needs_root
from run_site import PlayedService, RunSite, played_service, printed


@pytest.fixture(scope="module")
def service() -> Iterator[PlayedService]:
    with played_service() as service:
        yield service


@pytest.fixture
def site(tmp_path: Path, service: PlayedService) -> Iterator[RunSite]:
    site = RunSite(tmp_path, service)
    yield site
    site.end()


def test_a_changed_source_with_a_fresh_hash_is_not_repeated(site: RunSite) -> None:
    plan = site.plan(site.script("print('as it was')\n"))
    new = b"print('new')\n"
    (plan.folder / "source.py").write_bytes(new)
    content = json.loads((plan.folder / "run.json").read_text())
    content["sha256"] = hashlib.sha256(new).hexdigest()
    (plan.folder / "run.json").write_text(json.dumps(content))
    code, said, folder = site.repeat(plan)
    assert code == 72 and not folder.parent.exists()
    assert "The run cannot be repeated as it was." in said
    assert "run.json was changed after the run was started. Start a new run." in said


@needs_root
@pytest.mark.parametrize("kind", ["script", "notebook"])
def test_changed_modules_are_repeated_as_they_were(site: RunSite, kind: str) -> None:
    (site.work / "net").mkdir()
    (site.work / "net/__init__.py").write_text("from .layers import NAME\n")
    (site.work / "net/layers.py").write_text("import lib.deep as d; NAME = d.NAME\n")
    (site.work / "lib").mkdir()  # without __init__.py
    (site.work / "lib/deep.py").write_text(
        "from pathlib import Path; NAME = Path(__file__).with_name('data.txt').read_text()\n"
    )
    (site.work / "lib/data.txt").write_text("as it was")
    text = "import net, sys, inspect\nprint(net.NAME, net.__file__, inspect.getsource(net))\n"
    plan = site.plan(site.script(text) if kind == "script" else site.notebook(text))
    for name in ("net/__init__.py", "net/layers.py", "lib/deep.py"):
        (site.work / name).write_text("NAME = 'new'\n")
    (site.work / "lib/deep").mkdir()  # a package precedes a module of its name
    (site.work / "lib/deep/__init__.py").write_text("NAME = 'new'\n")
    give_away(site.work)
    code, said, folder = site.repeat(plan)
    assert (code, said) == (0, "")
    output = (folder / "output.log").read_text() if kind == "script" else printed(folder)
    path = site.work / "net/__init__.py"
    assert output == f"as it was {path} from .layers import NAME\n\n"


@needs_root
@pytest.mark.parametrize("kind", ["script", "notebook"])
def test_code_that_was_not_frozen_is_not_executed(site: RunSite, kind: str) -> None:
    text = "import importlib\nfor name in ['later']: print(importlib.import_module(name).NAME)\n"
    plan = site.plan(site.script(text) if kind == "script" else site.notebook(text))
    (site.work / "later.py").write_text("NAME = 'new'\n")
    give_away(site.work)
    code, said, _ = site.repeat(plan)
    assert code == 1 and "later.py belongs to another user, and was not frozen with" in said


def test_one_s_own_code_that_could_not_be_seen_is_executed(site: RunSite) -> None:
    text = "import importlib\nfor name in ['later']: print(importlib.import_module(name).NAME)\n"
    plan = site.plan(site.script(text))
    (site.work / "later.py").write_text("NAME = 'own'\n")
    code, _, folder = site.repeat(plan)
    assert (code, (folder / "output.log").read_text()) == (0, "own\n")
