"""Modules next to a source that are frozen with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from portal_session.runs import RunError, local_modules
from portal_session.runs.local_modules import local_modules as found
from portal_session.runs.source import read_source

FILES = {
    "a.py": "import b.c\n",
    "b/__init__.py": "from . import d\nfrom .e.f import X\n",
    "b/c.py": "from ..b import d\nimport a\n",  # a circle
    "b/d.py": "",
    "b/e/f.py": "from ... import a, missing\n",  # too far up: no module
    "b/unused.py": "",
    "space/deep.py": "def f():\n    import lazy\n",
    "lazy.py": "",
    "sys.py": "",
    "lib/other.py": "import sibling\n",
    "lib/sibling.py": "",
    "named.py": "",
    "venv/site-packages/installed.py": "",  # of an environment
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "work" / name).write_text(text)
    return tmp_path / "work"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import a", ["a", "b", "b.c", "b.d", "b.e.f"]),
        ("import b.e.f as g", ["a", "b", "b.c", "b.d", "b.e.f"]),
        ("from space import deep", ["lazy", "space.deep"]),
        ("import sys, os, numpy", []),
        ("try:\n    import named\nexcept ImportError:\n    pass", ["named"]),
        ("import importlib\nimportlib.import_module('named')", ["named"]),
        ("import sys\nsys.path.insert(0, 'lib')\nimport other", ["other", "sibling"]),
        ("import sys\nsys.path.append('lib')\nimport lib.other", ["lib.other", "sibling"]),
        ("import sys\nsys.path.append('venv/site-packages')\nimport installed", []),
        ("import named  # then\nnot Python", ["named"]),
        ("from named import x\nnot Python", ["named"]),
        ("from . import named\nfrom .. import a", []),
        (f"import {'x' * 5000}\nimport sys\nsys.path.append('{'y' * 5000}')", []),
        ("import a.\nimport named..x", []),
    ],
)
def test_of_a_script(folder: Path, text: str, names: list[str]) -> None:
    (folder / "train.py").write_text(text)
    modules = found(read_source(folder / "train.py"), folder)
    if "a" in names:
        assert {module.name for module in modules} >= {"b", "b.d"}
    else:
        assert [module.name for module in modules] == names
    assert all(module.content == module.path.read_bytes() for module in modules)


def notebook(folder: Path, *cells: str, language: str = "python") -> list[str]:
    """Names of the modules of a notebook."""
    content = {
        "metadata": {"kernelspec": {"name": "k", "language": language}},
        "cells": [{"cell_type": "code", "source": text} for text in cells],
    }
    (folder / "train.ipynb").write_text(json.dumps(content))
    return [module.name for module in found(read_source(folder / "train.ipynb"), folder)]


def test_of_a_notebook(folder: Path) -> None:
    cells = ("%matplotlib inline\n!ls\nnamed?\nimport lazy  # why?", "%%time\nimport named\n")
    assert notebook(folder, *cells, "x = !ls\nimport space.deep") == ["lazy", "named", "space.deep"]
    assert notebook(folder, "%%bash\nimport named", "%%writefile x.py\nimport lazy") == []
    assert notebook(folder, "import named", language="R") == []


def test_too_many(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_modules, "MOST", 3)
    (folder / "train.py").write_text("import a")
    with pytest.raises(RunError, match="imports more than 3 modules next to it"):
        found(read_source(folder / "train.py"), folder)
