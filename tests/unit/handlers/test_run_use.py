"""Use of a whole run over time: the mean and the spread of its jobs, at any size of the run."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from session_endpoints import parts_on, person, served

from portal.models.cluster.job_use import JobUse
from portal.models.session.run import PointState, Run, RunPoint
from portal.store import Store
from portal.work.run.endpoints import use as endpoint
from portal.work.run.results.use import RunUse, run_use
from portal.work.run.tables.points import RunPointTable
from portal.work.run.tables.runs import RunTable

ID = "5e2f3c1a"
TOKENS = {"ada": person("ada"), "barbara": person("barbara")}
NOW = 1_700_000_000
EACH = {"gpu01:0": [10, 30], "gpu02:3": [30, 50]}


def use(job_id: str, began_at: int = NOW, **more: Any) -> JobUse:
    seconds = more.get("seconds", 60)
    length = max(len(more.get(name, ())) for name in ("gpu", "gpu_memory", "memory"))
    values = {"seconds": 60, "sources": "dcgm", "last_at": float(began_at + seconds * length)}
    return JobUse(job_id=job_id, began_at=began_at, **{**values, **more})


def test_each_moment_has_the_mean_and_the_spread_of_the_jobs_that_run() -> None:
    whole = run_use(
        [
            use("7_0", gpu=(10, 20, None), gpu_memory=(1000, 2000, 2000)),
            use("7_1", NOW + 60, gpu=(60, 80), sources="session"),
        ]
    )
    assert (whole.began_at, whole.seconds, whole.last_at) == (NOW, 60, NOW + 180)
    assert (whole.jobs, whole.sources) == (2, "dcgm,session")
    assert whole.gpu.mean == (10, 40, 80)
    assert (whole.gpu.low, whole.gpu.high) == ((10, 20, 80), (10, 60, 80))
    assert whole.gpu_memory.mean == (1000, 2000, 2000)
    assert whole.memory.mean == (None, None, None), "nothing measures it"


def test_parts_of_a_job_are_one_job_and_what_lies_between_them_is_unknown() -> None:
    parts = [use("7_0", gpu=(50,)), use("7_0", NOW + 120, gpu=(70,))]
    whole = run_use(parts)
    assert (whole.jobs, whole.gpu.mean) == (1, (50, None, 70))


def test_few_extremes_are_not_the_spread_of_many_jobs() -> None:
    whole = run_use([use(f"7_{n}", gpu=(n,)) for n in range(101)])
    assert (whole.gpu.low, whole.gpu.mean, whole.gpu.high) == ((10,), (50,), (90,))


def test_a_thousand_jobs_of_a_day_are_few_numbers_soon() -> None:
    uses = [
        use(f"7_{n}", NOW + 60 * n, seconds=960, gpu=(n % 100,) * 90, memory=(n,) * 90)
        for n in range(1000)
    ]
    began = time.process_time()
    whole = run_use(uses)
    assert time.process_time() - began < 2
    assert len(whole.gpu.mean) <= 120 and whole.jobs == 1000
    assert whole.seconds * len(whole.gpu.mean) >= whole.last_at - NOW
    assert None not in whole.gpu.mean
    # Long stretches of a job are in each of the run's that they cover.
    whole = run_use([use("7_0", seconds=180, gpu=(30, 60)), use("7_1", gpu=(10,))])
    assert whole.gpu.mean == (20, 30, 30, 60, 60, 60)


def test_a_run_that_nothing_measured() -> None:
    assert run_use([]) == RunUse()


class Uses:
    """What the service has seen of the jobs that run."""

    def __init__(self, uses: Mapping[str, JobUse]) -> None:
        self.use_of = uses.get


@pytest.fixture
async def client(store: Store) -> AsyncIterator[httpx.AsyncClient]:
    """The endpoint on loopback. Of ada's run, one point has ended, one runs, one waits."""
    run = Run(
        id=ID, name="rates", source="a.py", folder="/home/ada/runs/rates", points=3, user="ada",
        server=f"run-{ID}", environment="torch", created_at=NOW,
    )  # fmt: skip
    await store.table(RunTable).add_run(run)
    ended = {"state": PointState.SUCCEEDED, "ended_at": NOW + 120.0}
    points = [
        RunPoint(number=0, job="7_0", attempt=1, started_at=NOW, **ended),
        RunPoint(number=1, job="9_1", attempt=2, state=PointState.RUNNING, started_at=NOW + 60),
    ]
    await store.table(RunPointTable).save([(("ada", ID), point) for point in points])
    others = use("7_0", NOW - 90_000, gpu=(99,)), use("7_2", gpu=(99,)), use("8", gpu=(99,))
    await store.job_use.save(
        [use("7_0", gpu=(20, 40), gpus=EACH), use("9_1", NOW + 60, gpu=(1,)), *others]
    )
    newest = Uses({"9_1": use("9_1", NOW + 60, gpu=(60, 80), sources="simulated")})
    dashboard = SimpleNamespace(view=None, job_uses=newest)
    parts = parts_on(store, dashboard=dashboard)
    async with served(endpoint.ENDPOINTS, parts, TOKENS.get, logins=True) as client:
        yield client


async def get(client: httpx.AsyncClient, token: str) -> httpx.Response:
    return await client.get(f"runs/{ID}/use", headers={"Authorization": f"token {token}"})


async def test_a_run_has_the_use_of_its_points_jobs_and_of_no_others(
    client: httpx.AsyncClient,
) -> None:
    answer = await get(client, "ada")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["began_at"], found["jobs"], found["sources"]) == (NOW, 2, "dcgm,simulated")
    assert found["gpu"] == {"mean": [20, 50, 80], "low": [20, 40, 80], "high": [20, 60, 80]}
    assert (await get(client, "barbara")).status_code == 404


async def test_of_too_many_jobs_the_newest_are_read(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "MOST", 1)
    found = (await get(client, "ada")).json()
    assert (found["jobs"], found["gpu"]["mean"]) == (1, [60, 80])


async def test_a_point_has_the_use_of_its_own_job(client: httpx.AsyncClient) -> None:
    async def used(point: int, token: str = "ada") -> httpx.Response:
        headers = {"Authorization": f"token {token}"}
        return await client.get(f"runs/{ID}/points/{point}/use", headers=headers)

    (part,) = (await used(0)).json()["parts"]
    assert (part["gpu"], part["gpus"]) == ([20, 40], EACH)
    (part,) = (await used(1)).json()["parts"]
    assert part["gpu"] == [60, 80], "the newest, which is not yet stored"
    assert (await used(2)).json()["parts"] == [], "it waits"
    assert (await used(0, "barbara")).status_code == 404
