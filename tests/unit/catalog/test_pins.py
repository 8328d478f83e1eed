"""Pins of environments: a run keeps the version that its session has, as long as it can be used."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from stored_courses import a_course, stored

from portal.catalog import EnvironmentCatalog
from portal.catalog.versions.pins import Pin, PinLost, pin_of, pinned
from portal.errors import NotFound
from portal.models.catalog.catalog import Origin
from portal.models.catalog.environment import Environment, EnvironmentState
from portal.store import Store

DIGEST = f"sha256:{'1' * 64}"
TEXT = "name: lab\ntitle: Lab\nkind: venv\npath: {path}\ngroups: [vision]\n"


class Site:
    """A catalog with one environment, whose path is its version."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder, self.store = folder, store
        self.catalog = EnvironmentCatalog(store, directory=str(folder), kept_directory="/nowhere")

    async def publish(self, path: str, at: float, **more: Any) -> None:
        """Publish a version at a time."""
        (self.folder / "lab.yaml").write_text(TEXT.format(path=path))
        values = {"author": "grace", "at": at, "origin": Origin.FILE, "published_at": at}
        values["state"] = EnvironmentState.READY
        environment = Environment(name="lab", title="Lab", kind="venv", path=path)
        await self.store.versions.add_version(environment, **{**values, **more})

    async def used(self, number: int) -> Environment:
        """The environment with the software of a version."""
        await self.catalog.load()
        offer = self.catalog.offers["lab"].environment
        assert offer is not None
        return await pinned(self.catalog, self.store, offer, number)


@pytest.fixture
async def site(tmp_path: Path, store: Store) -> Site:
    site = Site(tmp_path, store)
    await site.publish("/opt/lab-1", 100.0)
    await site.publish("/opt/lab-2", 200.0)
    return site


async def test_the_version_of_a_moment(site: Site) -> None:
    assert await pin_of(site.catalog, site.store, "lab") == Pin(2, "")
    for since, number in ((150.0, 1), (200.0, 2), (time.time(), 2), (50.0, 2)):
        assert (await pin_of(site.catalog, site.store, "lab", since)).version == number
    assert await pin_of(site.catalog, site.store, "other") == Pin(0, "")


async def test_a_course_has_its_own(site: Site) -> None:
    pinned = Environment(name="lab", title="Lab", kind="venv", path="/opt/lab-1", digest=DIGEST)
    await site.store.courses.add_space(stored(a_course(), pinned=pinned))
    assert await pin_of(site.catalog, site.store, "lab", space="deep") == Pin(0, DIGEST)
    with pytest.raises(NotFound):
        await pin_of(site.catalog, site.store, "lab", space="gone")


async def test_a_file_that_is_no_version_yet_is_not_pinned(site: Site) -> None:
    (site.folder / "lab.yaml").write_text(TEXT.format(path="/opt/lab-3"))
    assert await pin_of(site.catalog, site.store, "lab") == Pin(0, "")


async def test_an_earlier_version_gives_its_software_alone(site: Site) -> None:
    assert (await site.used(2)).path == "/opt/lab-2"
    used = await site.used(1)
    assert used.path == "/opt/lab-1"
    assert used.groups == ("vision",), "who may use it is as it is today"


async def test_what_can_no_longer_be_used(site: Site) -> None:
    with pytest.raises(PinLost, match=r"Version 9 of 'Lab' .* The portal does not know it\."):
        await site.used(9)
    await site.store.versions.change("lab", 1, published_at=None)
    with pytest.raises(PinLost, match="It was never published"):
        await site.used(1)
    withdrawn = EnvironmentState.WITHDRAWN
    await site.store.versions.change("lab", 1, published_at=100.0, state=withdrawn)
    with pytest.raises(PinLost, match="It was withdrawn") as caught:
        await site.used(1)
    assert "Start a new session" in caught.value.message


async def test_an_image_that_is_gone_or_was_never_tested(site: Site, tmp_path: Path) -> None:
    image = tmp_path / "old.sif"
    container = Environment(name="lab", title="Lab", kind="container", image=str(image))
    await site.store.versions.change("lab", 1, environment=container)
    with pytest.raises(PinLost, match="Its image no longer exists"):
        await site.used(1)
    image.write_bytes(b"SIF")
    with pytest.raises(PinLost, match="Not tested yet"):
        await site.used(1)
