"""Cells run in a session's kernels, for tests."""

from __future__ import annotations

from hub_client import Person
from notebook_kernel import NotebookKernel


def run_cell(person: Person, code: str) -> None:
    """Run ``code`` in a new kernel, as a notebook would, and wait until it has finished."""
    ran = NotebookKernel.start(person).run(code, 60)
    assert ran.status == "ok", ran
