"""Use of jobs over time, in the database."""

from __future__ import annotations

from typing import Any

from portal.models.cluster.job_use import JobUse
from portal.store import Store
from portal.store.site.job_use import DAYS

NOW = 1_800_000_000


def use(job_id: str = "7", began_at: int = NOW, **more: Any) -> JobUse:
    values = {"seconds": 60, "sources": "dcgm", "gpu": (10, None), "last_at": began_at + 60.0}
    return JobUse(job_id=job_id, began_at=began_at, **{**values, **more})


async def test_the_newest_state_stays_and_a_restart_begins_a_part(store: Store) -> None:
    await store.job_use.save([use(), use("8")])
    newer = use(gpu=(10, None, 30), memory=(1, 2, 3))
    after = use(began_at=NOW + 600)
    await store.job_use.save([newer, after])
    await store.job_use.save([])
    assert await store.job_use.of_job("7", NOW, NOW + 600) == [newer, after]
    # Another job to which Slurm gave the same id, or none.
    assert await store.job_use.of_job("7", NOW + 601, NOW + 900) == []
    assert await store.job_use.of_job("9", NOW, NOW + 900) == []


async def test_it_is_kept_for_weeks(store: Store) -> None:
    await store.job_use.save([use(), use("8", began_at=NOW + 600)])
    assert await store.job_use.prune(NOW + DAYS * 86400 + 61) == 1
    assert await store.job_use.of_job("7", NOW, NOW) == []
