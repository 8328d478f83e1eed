"""Callers of the API who are logged in: a data scientist, and an admin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from api_client import Caller
from hub_client import wait_until


@pytest.fixture(scope="module")
def ada(demo: Any) -> Iterator[Caller]:
    with Caller(demo.url, "ada") as caller:
        wait_until("the service has heard from Slurm", lambda: caller.get("board").is_success)
        yield caller


@pytest.fixture(scope="module")
def grace(demo: Any) -> Iterator[Caller]:
    with Caller(demo.url, "grace") as caller:
        yield caller
