"""The warning for a notebook whose kernel lacks what it imports, with real Pythons."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpec, NoSuchKernel
from portal_session.job_kernels.specs import METADATA
from portal_session.notebooks.lacking_modules import ModuleCheck
from portal_session.runs import RunError
from portal_session.service import ServiceError

NOTHING = {"words": "", "kernel": ""}
HERE = {"environment": "here", "kernel": "python3"}


class Specs:
    """Kernelspecs: "python3", and those of a test."""

    def __init__(self) -> None:
        self.specs = {"python3": self.python()}

    def python(self, folder: Path | None = None, **more: Any) -> KernelSpec:
        env = {"PYTHONPATH": str(folder)} if folder else {}
        values = {"argv": [sys.executable], "display_name": "Python 3", "language": "python"}
        return KernelSpec(**{**values, "env": env, **more})

    def get_kernel_spec(self, name: str) -> KernelSpec:
        if name not in self.specs:
            raise NoSuchKernel(name)
        return self.specs[name]

    def get_all_specs(self) -> dict[str, Any]:
        return {name: {"spec": spec.to_dict()} for name, spec in self.specs.items()}


class Portal:
    """Service that knows which environments have a module."""

    items: list[dict[str, str]] | None = None
    asked = ""

    def ask(self, method: str, path: str) -> dict[str, Any]:
        self.asked = path
        if self.items is None:
            raise ServiceError("The portal does not answer.")
        return {"items": self.items}


@pytest.fixture
def specs() -> Specs:
    return Specs()


@pytest.fixture
def portal() -> Portal:
    return Portal()


@pytest.fixture
def check(
    specs: Specs, portal: Portal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ModuleCheck:
    monkeypatch.setenv("PORTAL_ENVIRONMENT", "here")
    monkeypatch.delenv("PORTAL_CONTAINER", raising=False)
    service: Any = portal
    write(tmp_path, "import json, numba_of_a_test")
    return ModuleCheck(specs, service, tmp_path)


def write(folder: Path, text: str) -> None:
    cell = {"cell_type": "code", "source": text}
    content = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
    (folder / "a.ipynb").write_text(json.dumps(content))


async def test_it_says_what_is_lacking(check: ModuleCheck) -> None:
    words = "Python 3 lacks numba_of_a_test. Install it with %pip, or choose another kernel."
    assert await check.answer("a.ipynb", "python3") == {"words": words, "kernel": ""}


async def test_long_lists_are_cut(check: ModuleCheck, tmp_path: Path) -> None:
    write(tmp_path, "import no1, no2, no3, no4, no5")
    answer = await check.answer("a.ipynb", "python3")
    assert answer["words"].startswith("Python 3 lacks no1, no2, no3 and 2 more.")


@pytest.mark.parametrize("kernel", ["other", "unlike"])
async def test_nothing_is_said_of_what_is_not_known(
    check: ModuleCheck, specs: Specs, kernel: str
) -> None:
    elsewhere = {METADATA: {"environment": "pytorch", "kernel": "python3"}}
    specs.specs["other"] = specs.python(metadata=elsewhere)
    specs.specs["unlike"] = specs.python(argv=["/bin/sh"])
    assert await check.answer("a.ipynb", kernel) == NOTHING


async def test_a_job_kernel_of_the_sessions_environment_is_as_its_own(
    check: ModuleCheck, specs: Specs
) -> None:
    specs.specs["job"] = specs.python(display_name="Python · 1 x V100", metadata={METADATA: HERE})
    answer = await check.answer("a.ipynb", "job")
    assert answer["words"].startswith("Python · 1 x V100 lacks numba_of_a_test.")


async def test_a_module_beside_the_notebook_is_found_and_not_run(
    check: ModuleCheck, tmp_path: Path
) -> None:
    for name in ("numba_of_a_test", "json", "importlib", "sys"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()\n")
    assert await check.answer("a.ipynb", "python3") == NOTHING
    assert not (tmp_path / "ran").exists()


async def test_the_alternative_is_a_kernel_here(
    check: ModuleCheck, specs: Specs, portal: Portal, tmp_path: Path
) -> None:
    place = tmp_path / "packages"
    place.mkdir()
    (place / "numba_of_a_test.py").write_text("")
    specs.specs["mine"] = specs.python(place, display_name="Mine")
    answer = await check.answer("a.ipynb", "python3")
    assert answer["kernel"] == "mine"
    assert answer["words"].endswith("The kernel 'Mine' has what is missing.")
    assert not portal.asked


async def test_the_alternative_is_another_environments(
    check: ModuleCheck, specs: Specs, portal: Portal
) -> None:
    portal.items = [{"environment": "numba", "title": "Numba"}]
    answer = await check.answer("a.ipynb", "python3")
    assert portal.asked == "session/modules?names=numba_of_a_test"
    assert answer["kernel"] == ""
    assert answer["words"].endswith("The environment 'Numba' has what is missing.")
    there = {METADATA: {"environment": "numba", "kernel": "python3"}}
    specs.specs["job"] = specs.python(display_name="Python · 1 x T4 · Numba", metadata=there)
    answer = await check.answer("a.ipynb", "python3")
    assert answer["kernel"] == "job"
    assert answer["words"].endswith("The kernel 'Python · 1 x T4 · Numba' has what is missing.")


async def test_what_cannot_be_looked_at_is_left(check: ModuleCheck, tmp_path: Path) -> None:
    with pytest.raises(RunError):
        await check.answer("../a.ipynb", "python3")
    with pytest.raises(NoSuchKernel):
        await check.answer("a.ipynb", "unknown")
    assert await check.answer("none.ipynb", "python3") == NOTHING
    (tmp_path / "a.ipynb").write_text("x" * 5_000_000)
    assert await check.answer("a.ipynb", "python3") == NOTHING
    (tmp_path / "pipe.ipynb").symlink_to("/dev/zero")
    assert await check.answer("pipe.ipynb", "python3") == NOTHING


async def test_a_python_that_hangs_is_left(
    check: ModuleCheck, specs: Specs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal_session.notebooks.lacking_modules._PATIENCE", 0.2)
    slow = tmp_path / "python3"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    specs.specs["slow"] = specs.python(argv=[str(slow)])
    assert await check.answer("a.ipynb", "slow") == NOTHING
