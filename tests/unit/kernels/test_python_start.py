"""Files by which every Python of an environment calls portal-session at its start."""

from __future__ import annotations

import pkgutil
import sys
import tomllib
from pathlib import Path

import pytest
from portal_session import python_start, user_site
from portal_session.kernels import local_kernels

KERNELS = Path(__file__).resolve().parents[3] / "kernels"
START = "portal_session.start"


def entry_points() -> list[str]:
    """Return the lines of the file that count (PEP 829, "Specification")."""
    lines = (KERNELS / START).read_text("utf-8-sig").splitlines()
    return [line for line in lines if line.strip() and not line.strip().startswith("#")]


def test_old_and_new_pythons_call_the_same_functions() -> None:
    """The form of the lines is PEP 829's for packages that support both."""
    named = [point.split(":") for point in entry_points()]
    lines = [f"import {module}; {module}.{name}()" for module, name in named]
    assert (KERNELS / "portal_session.pth").read_text().splitlines() == lines
    assert len(lines) == 3


@pytest.mark.parametrize("point", entry_points())
def test_each_is_a_function_that_does_nothing_outside_of_a_session(
    point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONUSERBASE", "PORTAL_JOB_ID", "PORTAL_FROZEN"):
        monkeypatch.delenv(name, raising=False)
    before = (list(sys.path), list(sys.meta_path))
    assert pkgutil.resolve_name(point)() is None
    assert (sys.path, sys.meta_path) == before


def test_both_lie_beside_the_package_in_the_wheel() -> None:
    project = tomllib.loads((KERNELS / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included == {name: name for name in (START, "portal_session.pth")}


def test_what_a_session_sets_is_followed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    called: list[str] = []
    monkeypatch.setattr(user_site, "enable", lambda: called.append("user site"))
    monkeypatch.setattr(local_kernels, "follow", lambda: called.append("kernels"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "portal_frozen.py").write_text("def install():\n    installed.append(1)\n")
    frozen: list[int] = []
    monkeypatch.delitem(sys.modules, "portal_frozen", raising=False)
    for name in ("PYTHONUSERBASE", "PORTAL_JOB_ID", "PORTAL_FROZEN"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr("builtins.installed", frozen, raising=False)
    before = list(sys.path)
    for point in entry_points():
        pkgutil.resolve_name(point)()
    assert (called, frozen, sys.path) == (["user site", "kernels"], [1], before)
    monkeypatch.delitem(sys.modules, "portal_frozen")
    assert python_start.__file__.startswith(str(KERNELS))
