"""What people register for themselves, and how it goes again while it is being tested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from build_schedulers import ADA, DRAFT, OWN, Site

from portal.catalog.versions.user_environments import OwnDraft, UserEnvironments
from portal.errors import Conflict, NotFound, SlurmUnavailable
from portal.models.catalog.environment import EnvironmentKind
from portal.models.catalog.image_job import WorkState
from portal.models.cluster.cluster import JobState
from portal.store import Store


@pytest.fixture
def site(tmp_path: Path, store: Store) -> Site:
    return Site(tmp_path, store)


@pytest.fixture
async def own(site: Site) -> UserEnvironments:
    """With one of Ada's, whose three tests run."""
    made = await site.own()
    for job in site.ids():
        assert site.cluster.told[job][2] == "ada", "never as a service"
        site.cluster.start(job)
    assert len(site.ids()) == 3
    return made


async def test_removed_while_it_is_tested(own: UserEnvironments, site: Site) -> None:
    jobs = site.ids()
    await own.remove(OWN, ADA)
    assert {site.cluster.jobs[job].state for job in jobs} == {JobState.CANCELLED}
    assert await own.of_user(ADA) == []
    with pytest.raises(NotFound):
        await own.remove(OWN, ADA)


async def test_a_test_that_ends_meanwhile_does_not_keep_it(
    own: UserEnvironments, site: Site, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each scancel takes a moment, in which the next test may be over by itself."""
    cancel = site.cluster.cancel

    async def slow(job_id: str, *words: Any, **more: Any) -> bool:
        for test in await store.tests.live():
            if test.job_id != job_id:
                await store.tests.change(test.id, state=WorkState.PASSED)
        return await cancel(job_id, *words, **more)

    monkeypatch.setattr(site.cluster, "cancel", slow)
    await own.remove(OWN, ADA)
    assert await own.of_user(ADA) == []


async def test_it_stays_while_its_jobs_cannot_be_ended(
    own: UserEnvironments, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any, **__: Any) -> bool:
        raise SlurmUnavailable("slurmctld does not answer.")

    with monkeypatch.context() as patch:
        patch.setattr(site.cluster, "cancel", away)
        with pytest.raises(SlurmUnavailable):
            await own.remove(OWN, ADA)
    assert [one.name for one in await own.of_user(ADA)] == [OWN]
    await own.remove(OWN, ADA)
    assert await own.of_user(ADA) == []


async def test_few_and_each_once(own: UserEnvironments) -> None:
    with pytest.raises(Conflict, match="already"):
        await own.register(DRAFT, ADA)
    own.most = 1
    with pytest.raises(Conflict, match="the maximum is 1"):
        await own.register(OwnDraft(title="Other", kind=EnvironmentKind.VENV, path="/opt/x"), ADA)
