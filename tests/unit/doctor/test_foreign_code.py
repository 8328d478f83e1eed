"""Code of other packages that the portal depends on: the table is complete, and the doctor says
what has changed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from portal.doctor import foreign_code
from portal.doctor.checks import foreign_code as checked
from portal.doctor.finding import Level
from portal.doctor.foreign_code import Part, changed_parts, digest_of, known_parts

ROOT = Path(__file__).resolve().parents[3]
ROOMS = (("portal", "spawners", "deploy"), ("kernels/portal_session",))
# Names that their documentation gives to users, in spite of the underscore.
DOCUMENTED = {
    *("_asdict", "_fields", "_replace"),  # collections.namedtuple, and SQLAlchemy's Row
    "_mapping",  # SQLAlchemy: Row._mapping
    "_repr_mimebundle_",  # IPython: "Integrating your objects with IPython"
    "_exit",  # os
    "_current_frames",  # sys
    "_int_mm",  # torch's only product of INT8 matrices; a starter asks whether there is one
}


def private_names(trees: dict[str, ast.Module]) -> Iterator[tuple[str, str]]:
    """Yield (file, name) for each private attribute, or import, that no file here defines."""
    own = {name for tree in trees.values() for node in ast.walk(tree) for name in _defined(node)}
    for file, tree in trees.items():
        for node in ast.walk(tree):
            for name in _used(node):
                if name.startswith("_") and not name.startswith("__"):
                    if name not in own | DOCUMENTED:
                        yield file, name


def _defined(node: ast.AST) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return [node.attr] if ast.unparse(node.value) in ("self", "cls") else []
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    return [node.arg] if isinstance(node, ast.arg) else []


def _used(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr", "setattr"):
        return [str(node.args[1].value)] if isinstance(node.args[1], ast.Constant) else []
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [alias.name for alias in node.names]
    return []


@pytest.mark.parametrize("rooms", ROOMS, ids=lambda rooms: rooms[0])
def test_every_private_name_of_another_package_is_in_the_table(rooms: tuple[str, ...]) -> None:
    paths = [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]
    trees = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}
    known = {
        (file, part)
        for one in known_parts()
        for file in one.files
        for part in one.name.replace(":", ".").split(".")
    }
    assert {*private_names(trees)} - known == set(), "add them to portal/doctor/foreign_code.txt"


@pytest.mark.parametrize("part", known_parts(), ids=lambda part: part.name)
def test_the_files_of_the_table_use_what_it_says(part: Part) -> None:
    name = part.name.replace(":", ".").rpartition(".")[2].lstrip("_")
    for file in part.files:
        assert (ROOT / file).is_file()
        assert file.startswith("spawners/hub_patches/") or name in (ROOT / file).read_text()


def test_the_table_is_sorted_and_is_renewed_as_it_is() -> None:
    assert foreign_code.renewed() == (ROOT / "portal/doctor/foreign_code.txt").read_text()
    names = [part.name for part in known_parts()]
    assert names == sorted(set(names))


CODE = """
LIMIT = 5

class Server:
    _at_once = 3

    @property
    def address(self):
        return 1

    @address.setter
    def address(self, value):
        pass

    def start(self):
        self._job = 5
        return hasattr(self, "_late")
"""


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("m:LIMIT", "LIMIT = 5", "LIMIT = 6"),
        ("m:Server", "return 1", "return 2"),
        ("m:Server.start", "= 5\n ", "= 6\n "),
        ("m:Server.start", "def start(self)", "def start(self, job)"),
        ("m:Server.address", "@property", "@cached"),
        ("m:Server.address", "pass", "..."),
        ("m:Server._job", "self._job = 5", "self._job = 6"),
        ("m:Server._late", '"_late")', '"_late") and 1'),
        ("m:Server._at_once", "= 3", "= 4"),
    ],
)
def test_a_change_of_the_source_changes_the_digest(
    tmp_path: Path, name: str, old: str, new: str
) -> None:
    digests = []
    for folder, code in (("a", CODE), ("b", CODE.replace(old, new)), ("c", f"x = 1\n{CODE}")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "m.py").write_text(code)
        digests.append(digest_of(name, tmp_path / folder))
    assert digests[0] != digests[1] and digests[0] == digests[2]


@pytest.mark.parametrize("name", ["n:x", "m:y", "m:Server.y", "m:Worker.start", "m.n:x"])
def test_what_is_gone_is_said(tmp_path: Path, name: str) -> None:
    (tmp_path / "m.py").write_text(CODE)
    with pytest.raises(LookupError, match="there is no "):
        digest_of(name, tmp_path)


def test_packages_that_are_not_installed_are_left_out(tmp_path: Path) -> None:
    assert list(changed_parts(lambda package: None)) == []
    gone = {part.name for part, _ in changed_parts(lambda p: tmp_path if p == "ldap3" else None)}
    assert gone == {part.name for part in known_parts() if part.package == "ldap3"}


async def check(**site: Any) -> Any:
    return await checked.foreign_code.function(site)  # type: ignore[arg-type]


async def test_the_doctor_is_content_with_the_tested_versions() -> None:
    found = await check()
    assert (found.level, found.mend) == (Level.OK, ""), found


async def test_the_doctor_names_what_changed_and_who_depends_on_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    part = next(part for part in known_parts() if part.name == "jupyterhub.user:User.spawn")
    proxy = next(part for part in known_parts() if part.package == "jupyter_server")
    changes = [(part, "its source has changed"), (proxy, "there is no x in y")]
    monkeypatch.setattr(checked, "changed_parts", lambda: iter(changes))
    pins = tmp_path / "constraints.txt"
    pins.write_text("jupyterhub==6.0.9\nJupyter-Server==2.0\n")
    monkeypatch.setattr(checked, "constraints", lambda: pins)
    found = await check()
    assert found.level is Level.WARNING
    assert "tested is 6.0.9: jupyterhub.user:User.spawn: its source has changed (" in found.found
    assert part.files[0] in found.found and "tested is 2.0: jupyter_server." in found.found
    assert "constraints.txt" in found.mend and "`until`" in found.mend
