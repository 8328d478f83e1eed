"""Every patch says why it is there, and JupyterHub has what it was written for.

A new JupyterHub that has changed what is patched fails here, by name.
"""

from __future__ import annotations

import ast
from pathlib import Path

import batchspawner.api
import hub_sources
import pytest
from jupyterhub import apihandlers, handlers

from spawners.hub_patches import PATCHES, stock_port_route
from spawners.hub_patches.patch import Patch

ROOT = Path(__file__).resolve().parents[4]
FOLDER = ROOT / "spawners" / "hub_patches"
each_patch = pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.name)


def file_of(patch: Patch) -> Path:
    return FOLDER / f"{patch.name.replace('-', '_')}.py"


def whose(name: str) -> str:
    """The files that patch ``name``."""
    files = [str(file_of(one).relative_to(ROOT)) for one in PATCHES if name in one.changes]
    return ", ".join([*files, *filter(None, [hub_sources.ELSEWHERE.get(name)])])


@pytest.fixture(scope="module")
def changed() -> dict[str, str]:
    """What is not as the table says, with the reason; to be read from the source takes a while."""
    return hub_sources.changed(hub_sources.packages())


@pytest.mark.parametrize("name", hub_sources.KNOWN)
def test_what_is_patched_is_as_it_was(name: str, changed: dict[str, str]) -> None:
    why = changed.get(name)
    assert why is None, (
        f"{name}: {why}. Look in {whose(name)} whether the patch still fits, or can go (its "
        "'until'); then renew the table in tests/support/suite/hub_sources.py (python "
        "tests/support/suite/hub_sources.py)."
    )


def test_everything_that_is_patched_is_known() -> None:
    patched = {name for patch in PATCHES for name in patch.changes}
    assert set(hub_sources.KNOWN) == patched | set(hub_sources.ELSEWHERE)


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
