"""Builds and tests that wait while the machine's clock is set, ahead and back."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from stepping_clock import SteppingClock
from workshops import Site

from portal.catalog.builds import ages, job_monitor
from portal.models.catalog.catalog import Build
from portal.models.catalog.environment import EnvironmentState
from portal.models.catalog.image_job import Work, WorkState
from portal.store import Store

STEPS = pytest.mark.parametrize("step", [7200.0, -7200.0], ids=["ahead", "back"])


class Clock(SteppingClock):
    """A clock that also lets time pass, for the rows of the workshop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self._passed = 0.0
        told = SimpleNamespace(
            time=lambda: time.time(), monotonic=lambda: time.monotonic() + self._passed
        )
        monkeypatch.setattr(ages, "time", told)

    def passes(self, seconds: float) -> None:
        self._passed += seconds
        self.step(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def site(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(job_monitor, "LOG_PATIENCE", 0.0)
    return Site(tmp_path, store, queue_patience=3600.0)


@pytest.fixture
async def build(site: Site) -> Build:
    return await site.workshop.build(await site.draft(), "grace")


async def waits_on(site: Site, clock: Clock, build: Build, step: float) -> None:
    """Set the clock between two turns, through which a build waits in the queue."""
    await site.turn()
    clock.step(step)
    await site.turn()
    assert (await site.build(build.id)).state is WorkState.WAITING, "it may be a moment old"


@STEPS
async def test_a_build_waits_in_the_queue_for_its_time(
    site: Site, clock: Clock, build: Build, step: float
) -> None:
    await site.turn()
    await waits_on(site, clock, build, step)
    clock.passes(3500)
    await site.turn()
    assert (await site.build(build.id)).state is WorkState.WAITING
    clock.passes(200)
    await site.turn()
    over = await site.build(build.id)
    assert over.state is WorkState.UNKNOWN and "waited too long in the queue" in over.message


@STEPS
async def test_a_test_waits_for_its_time_and_is_tried_again_after_its_pause(
    site: Site, clock: Clock, step: float
) -> None:
    image = site.place / "torch.sif"
    image.write_bytes(b"sif")
    text = f"name: torch\ntitle: Torch\nkind: container\nimage: {image}\nmax_gpus: 0\n"
    (site.place / "files/torch.yaml").write_text(text)
    await site.turn()
    (first,) = site.ids(Work.TEST)
    await site.turn()
    clock.step(step)
    await site.turn()
    (test,) = (await site.tests()).values()
    assert test.state is WorkState.WAITING
    clock.passes(3700)
    await site.turn()
    (test,) = (await site.tests()).values()
    assert test.state is WorkState.UNKNOWN
    await site.turn()
    clock.step(-step)
    clock.passes(3400)
    await site.turn()
    await site.turn()
    assert site.ids(Work.TEST) == [first]
    clock.passes(300)
    await site.turn()
    await site.turn()
    assert len(site.ids(Work.TEST)) == 2


@STEPS
async def test_what_nobody_waits_for_leaves_the_queue(
    site: Site, clock: Clock, build: Build, step: float
) -> None:
    await site.store.versions.change("torch", 1, state=EnvironmentState.DRAFT, build_id=None)
    await waits_on(site, clock, build, step)
    clock.passes(site.workshop.interval + 6)
    await site.turn()
    assert (await site.build(build.id)).state is WorkState.CANCELLED


@STEPS
async def test_a_job_whose_id_was_not_kept_is_taken_up_whatever_the_clock_says(
    site: Site, clock: Clock, build: Build, step: float
) -> None:
    await site.turn()
    (job,) = site.ids()
    slurms = site.cluster.jobs[job].model_copy(update={"submit_time": time.time() - step})
    site.cluster.jobs[job] = slurms
    await site.store.builds.change(build.id, job_id="")  # the service ended before it wrote it
    site.service()
    clock.step(step)
    await site.turn()
    assert (await site.build(build.id)).job_id == job
    assert site.ids() == [job]


async def test_a_job_of_another_database_is_not_taken_up(site: Site, build: Build) -> None:
    """A new database counts its builds from 1, too."""
    await site.turn()
    (job,) = site.ids()
    other = {"stdout": f"{site.place}/logs/build-{'x' * 22}.log"}
    site.cluster.jobs[job] = site.cluster.jobs[job].model_copy(update=other)
    await site.store.builds.change(build.id, job_id="")
    site.service()
    await site.turn()
    assert len(site.ids()) == 2
