"""``portal images``: which images are needed, and what prune takes away."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from pathlib import Path

import checkout
import pytest
from session_records import recorded

from portal.catalog.builds.image_files import ImageFiles
from portal.errors import ConfigurationError
from portal.models.catalog.catalog import Origin
from portal.models.catalog.environment import Environment, EnvironmentKind, EnvironmentState
from portal.models.session.session import SessionState
from portal.store import Store


def sif(number: int) -> str:
    return f"{number:064x}-{number:010x}.sif"


class Site:
    """A folder of images, a catalog and a database."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.images, self.catalog = place / "images", place / "catalog"
        for folder in (self.images, self.catalog, place / "kept/previews"):
            folder.mkdir(parents=True)
        self.store = Store(url=f"sqlite:///{place}/portal.sqlite")
        (place / "config.py").write_text(
            "c = get_config()\n"
            f"c.Images.directory = {str(self.images)!r}\n"
            f"c.EnvironmentCatalog.directory = {str(self.catalog)!r}\n"
            f"c.EnvironmentCatalog.kept_directory = {str(place / 'kept')!r}\n"
            f"c.Store.url = 'sqlite:///{place}/portal.sqlite'\n"
        )

    def image(self, number: int, *, days: float = 5) -> Path:
        path = self.images / sif(number)
        path.write_bytes(b"x" * 1000)
        then = time.time() - days * 86400
        os.utime(path, (then, then))
        return path

    async def version(
        self, name: str, image: int, state: EnvironmentState, *, published: bool = False
    ) -> None:
        environment = Environment(
            name=name,
            title=name,
            kind=EnvironmentKind.CONTAINER,
            image=str(self.images / sif(image)),
        )
        made = await self.store.versions.add_version(
            environment, state=state, author="grace", at=time.time(), origin=Origin.PAGE
        )
        if published:
            await self.store.versions.change(name, made.number, published_at=time.time())

    async def needed(self) -> dict[str, tuple[str, ...]]:
        files = ImageFiles(
            str(self.images), [str(self.catalog), str(self.place / "kept")], self.store
        )
        return {one.path.name: one.needed_by for one in await files.all()}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        config = f"-f={self.place}/config.py"
        return checkout.portal("images", *words, config, cwd=self.place)


@pytest.fixture
async def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    await made.store.upgrade()
    for number in range(1, 10):
        made.image(number)
    (made.images / "by-hand.sif").touch()
    (made.images / ".build-1").mkdir()
    # 1 was published before 2; 3 is tested and waits, 4 is being tested.
    await made.version("torch", 1, EnvironmentState.READY, published=True)
    await made.version("torch", 2, EnvironmentState.READY, published=True)
    await made.version("torch", 3, EnvironmentState.READY)
    await made.version("torch", 4, EnvironmentState.TESTING)
    # 5 failed, and nothing came after it.
    await made.version("jax", 5, EnvironmentState.FAILED)
    (made.catalog / "broken.yaml").write_text(f"name: [\nimage: /srv/{sif(6)}\n")
    (made.place / "kept/previews/x.preview.yaml").write_text(f"image: /srv/{sif(7)}\n")
    await made.store.builds.add_build(
        key=sif(8).removesuffix(".sif"),
        source="docker://a/b:1",
        digest="sha256:" + "0" * 64,
        asker="grace",
        nonce="n",
        log="l",
        at=time.time(),
    )
    return made


async def test_what_is_needed_and_what_is_not(site: Site) -> None:
    needed = await site.needed()
    assert set(needed) == {sif(number) for number in range(1, 10)}
    assert [number for number in range(1, 10) if not needed[sif(number)]] == [1, 9]
    assert needed[sif(2)] == ("torch (published)",)
    assert needed[sif(6)] == ("file broken.yaml",)
    assert needed[sif(8)] == ("build 1",)


async def test_a_session_keeps_every_version_that_it_may_run_in(site: Site) -> None:
    session = recorded(
        id="s1", user="ada", environment="torch", state=SessionState.RUNNING, submitted_at=1.0
    )
    await site.store.sessions.save(session)
    assert (await site.needed())[sif(1)] == ("1 running session of torch",)
    ended = session.model_copy(update={"state": SessionState.ENDED, "ended_at": 2.0})
    await site.store.sessions.save(ended)
    assert not (await site.needed())[sif(1)]


async def test_prune_says_what_would_go_and_then_takes_it(site: Site) -> None:
    site.image(10, days=0.1)
    before = {path.name for path in site.images.iterdir()}
    done = await asyncio.to_thread(site.run, "prune", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "2 of 10 images would be removed, 0 MB; 1 unused images are too new." in done.stdout
    assert f"would remove  {sif(1)}" in done.stdout
    assert {path.name for path in site.images.iterdir()} == before
    done = await asyncio.to_thread(site.run, "prune")
    assert "2 of 10 images are removed" in done.stdout
    assert before - {path.name for path in site.images.iterdir()} == {sif(1), sif(9)}


async def test_list(site: Site) -> None:
    done = await asyncio.to_thread(site.run, "list")
    assert f"{sif(9)}  0 MB  unused" in done.stdout and "9 images" in done.stdout
    done = await asyncio.to_thread(site.run, "list", "--json")
    assert {one["name"] for one in json.loads(done.stdout)} == {sif(n) for n in range(1, 10)}


async def test_nothing_goes_when_something_is_not_known(site: Site) -> None:
    (site.place / "portal.sqlite").rename(site.place / "elsewhere")
    done = await asyncio.to_thread(site.run, "prune")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    (site.place / "elsewhere").replace(site.place / "portal.sqlite")
    (site.catalog / "dangling.yaml").symlink_to("/nowhere")
    with pytest.raises(ConfigurationError, match="the images that it needs are unknown"):
        await site.needed()
    assert len(list(site.images.glob("*.sif"))) == 10


def test_cache_without_a_folder_or_a_name(tmp_path: Path) -> None:
    site = Site(tmp_path)
    done = site.run("cache")
    assert done.returncode == 1 and "Name an environment" in done.stderr
    done = site.run("cache", "none")
    assert done.returncode == 1 and "has no environment 'none'" in done.stderr
    (site.catalog / "torch.yaml").write_text(
        f"name: torch\ntitle: T\nkind: container\nimage: {site.images / sif(1)}\n"
    )
    done = site.run("cache", "torch")
    assert done.returncode == 1 and "c.Images.node_cache is not set" in done.stderr
