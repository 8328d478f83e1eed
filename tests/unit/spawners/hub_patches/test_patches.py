"""Every patch says why it is there, and JupyterHub has what it was written for.

A new JupyterHub that has changed what is patched fails here, by name.
"""

from __future__ import annotations

import ast
from pathlib import Path

import batchspawner.api
import pytest
from jupyterhub import apihandlers, handlers

from portal.doctor.foreign_code import Part, changed_parts, installed, known_parts
from spawners.hub_patches import PATCHES, stock_port_route
from spawners.hub_patches.patch import Patch

ROOT = Path(__file__).resolve().parents[4]
FOLDER = ROOT / "spawners" / "hub_patches"
each_patch = pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.name)


def file_of(patch: Patch) -> Path:
    return FOLDER / f"{patch.name.replace('-', '_')}.py"


@pytest.fixture(scope="module")
def changed() -> dict[str, str]:
    """What is not as the table says, with the reason; to be read from the source takes a while."""
    return {part.name: why for part, why in changed_parts()}


@pytest.mark.parametrize("part", known_parts(), ids=lambda part: part.name)
def test_what_is_patched_is_as_it_was(part: Part, changed: dict[str, str]) -> None:
    assert installed(part.package), f"{part.package} is not installed"
    why = changed.get(part.name)
    assert why is None, (
        f"{part.name}: {why}. Look in {', '.join(part.files)} whether that still fits; a patch can "
        "go if its 'until' is true. Then renew the table: python -m portal.doctor.foreign_code"
    )


def test_everything_that_is_patched_is_known() -> None:
    folder = "spawners/hub_patches/"
    patched = {
        (name, str(file_of(patch).relative_to(ROOT))) for patch in PATCHES for name in patch.changes
    }
    known = {(part.name, file) for part in known_parts() for file in part.files}
    assert patched <= known
    for name, file in {pair for pair in known if pair[1].startswith(folder)} - patched:
        assert name.rpartition(".")[2].startswith("_"), (
            f"{file} does not say that it patches {name}"
        )


@each_patch
def test_a_patch_says_what_it_is_for(patch: Patch) -> None:
    assert patch.changes and file_of(patch).is_file()
    assert patch.upstream.startswith(("none", "https://github.com/jupyterhub/"))
    for sentence in (patch.why, patch.until):
        assert sentence[0].isupper() or sentence.startswith(("c.", "batchspawner"))
        assert sentence.endswith(".")


def test_every_file_is_a_patch_of_the_table() -> None:
    files = {path for path in FOLDER.glob("*.py")} - {FOLDER / "__init__.py", FOLDER / "patch.py"}
    assert files == {file_of(patch) for patch in PATCHES}


def test_nobody_but_the_setup_applies_them() -> None:
    """No module of the product calls it, nor a patch, while it is imported."""
    for room in ("portal", "spawners"):
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                    assert "apply" not in ast.unparse(node), path


def test_batchspawners_route_is_gone() -> None:
    rows = apihandlers.default_handlers
    if all(row[1] is not batchspawner.api.BatchSpawnerAPIHandler for row in rows):
        rows.append((r"/api/batchspawner", batchspawner.api.BatchSpawnerAPIHandler))
    stock_port_route.apply()
    kinds = [row[1] for row in (*apihandlers.default_handlers, *handlers.default_handlers)]
    assert batchspawner.api.BatchSpawnerAPIHandler not in kinds
