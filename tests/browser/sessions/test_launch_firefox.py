"""The main job in Debian's Firefox, on the real demo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from firefox import firefox
from hub_client import Person
from launch_story import ada, launch_a_container_with_two_gpus

playwright = pytest.importorskip("playwright.sync_api")
__all__ = ["ada"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[playwright.Browser]:
    with firefox(tmp_path_factory.mktemp("firefox")) as running:
        yield running


def test_launch_a_container_with_two_gpus(demo: Any, ada: Person, page: Any) -> None:
    assert "Firefox" in page.evaluate("navigator.userAgent")
    launch_a_container_with_two_gpus(demo, page, "firefox-")
