"""Markers for the requirements of tests beyond Python: ``-m "not browser"`` leaves those out.

Most follow from a test's folder and fixtures. A test that starts containers or a Hub without those
is marked explicitly: ``pytestmark = pytest.mark.containers``.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

NEEDS = {
    "slurm": "Slurm's programs and daemons",
    "hub": "a Hub with its proxy and service",
    "browser": "Chromium or Firefox",
    "containers": "Apptainer, and name spaces that it may make",
    "postgresql": "PostgreSQL's server",
}
_OF_FIXTURES = {
    "demo": ("slurm", "hub", "containers"),
    "slurm_cluster": ("slurm",),
    "slurm": ("slurm",),
    "carols": ("slurm", "hub", "containers"),
    "image": ("containers",),
    "browser": ("browser",),
    "postgres": ("postgresql",),
    "own_postgres": ("postgresql",),
}
_OF_FOLDERS = {"browser": ("browser",), "hub": ("slurm", "hub", "containers")}


def register(config: pytest.Config) -> None:
    """Register the markers with pytest (--strict-markers)."""
    for name, what in NEEDS.items():
        config.addinivalue_line("markers", f"{name}: needs {what}")


def mark(items: Iterable[pytest.Item]) -> None:
    """Add the markers of its folder and fixtures to each test; tests/unit needs none."""
    for item in items:
        if "unit" in item.path.parts:
            continue
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        folders = item.nodeid.partition("::")[0].split("/")
        needs = {need for folder in folders for need in _OF_FOLDERS.get(folder, ())}
        needs.update({"postgresql"} & {str(value) for value in parameters.values()})
        for fixture in getattr(item, "fixturenames", ()):
            needs.update(_OF_FIXTURES.get(fixture, ()))
        for name in sorted(needs):
            item.add_marker(name)
