"""A point's job without Slurm, and the portal's service that it reports to, played."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from run_site import PlayedService, RunSite, played_service


@pytest.fixture
def service() -> Iterator[PlayedService]:
    with played_service() as service:
        yield service


@pytest.fixture
def site(tmp_path: Path, service: PlayedService) -> Iterator[RunSite]:
    site = RunSite(tmp_path, service)
    yield site
    site.end()
