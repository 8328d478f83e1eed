"""What benchmarks measured: who may tell it, what Slurm says of it, and what is shown."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from session_endpoints import parts_on, served
from session_records import recorded

from portal.catalog.offers.benchmarks import measured
from portal.errors import InvalidRequest
from portal.handlers.catalog import measurements
from portal.handlers.catalog.measurements import used_gpus
from portal.models.catalog.catalog import Measurement, MeasurementReport, Origin
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState
from portal.models.person import Person
from portal.models.scope import SESSION_OWN
from portal.models.session.session import SessionState
from portal.store import Store

TORCH = Environment(name="torch", title="PyTorch", kind="venv", path="/opt/torch")
REPORT = {"benchmark": "resnet50", "precision": "fp16", "gpus": 2, "images_per_second": 812.5}
TOKENS = {
    "session": {
        "name": "ada",
        "kind": "user",
        "scopes": [f"{SESSION_OWN}!server=ada/"],
    },
    "ada": {"name": "ada", "kind": "user", "scopes": ["access:services!service=portal"]},
}


class Shown(measurements.EnvironmentMeasurements):
    """Who asks is asked of the test's Hub."""

    async def hub_model(self) -> Any:
        hub = self.settings["hub_auth"]
        return await hub.user_for_token(hub.get_token(self), sync=False)

    def check_hub_user(self, model: dict[str, Any]) -> dict[str, Any]:
        return model


class Catalog:
    """One environment that ada sees; "secret" is not among them."""

    async def load(self) -> None:
        pass

    def visible_to(self, person: Person) -> list[Environment]:
        return [TORCH]


class Site:
    """The endpoints on loopback, with one running session of ada's on two V100."""

    def __init__(self, client: httpx.AsyncClient, store: Store, view: Any, telemetry: Any) -> None:
        self.client = client
        self.store, self.view, self.telemetry = store, view, telemetry

    async def report(self, token: str = "session", **changed: Any) -> httpx.Response:
        headers = {"Authorization": f"token {token}"}
        return await self.client.post(
            "session/measurements", json={**REPORT, **changed}, headers=headers
        )

    async def shown(self, name: str = "torch") -> httpx.Response:
        headers = {"Authorization": "token ada"}
        return await self.client.get(f"environments/{name}/measurements", headers=headers)

    def job(self, **changed: Any) -> None:
        job = self.view.snapshot.jobs["10"].model_copy(update=changed)
        self.view.snapshot = ClusterSnapshot(taken_at=time.time(), jobs={"10": job})


@pytest.fixture
async def site(store: Store, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setattr("portal.handlers.catalog.measurements._pace._least", 0.0)
    now = time.time()
    record = recorded(
        id="S10", user="ada", job_id="10", environment="torch", state=SessionState.RUNNING,
        submitted_at=now,
    )  # fmt: skip
    job = Job(id="10", user="ada", state=JobState.RUNNING, gpus=2, gpu_type="v100")
    view = SimpleNamespace(
        error="", sessions={"10": record}, snapshot=ClusterSnapshot(taken_at=now, jobs={"10": job})
    )
    telemetry = SimpleNamespace(simulated=False)
    dashboard = SimpleNamespace(view=view, error="")
    parts = parts_on(store, catalog=Catalog(), telemetry=telemetry, dashboard=dashboard)
    async with served((measurements.OwnMeasurements, Shown), parts, TOKENS.get) as client:
        yield Site(client, store, view, telemetry)


async def test_type_and_number_of_gpus_are_slurms(site: Site) -> None:
    assert (await site.report()).status_code == 204
    answer = await site.shown()
    assert answer.status_code == 200, answer.text
    (row,) = answer.json()["items"]
    assert 0 <= time.time() - row.pop("at") < 60
    assert row == {
        "benchmark": "resnet50", "gpu_type": "v100", "gpus": 2, "precision": "fp16",
        "simulated": False, "images_per_second": 812.5, "best": 812.5, "runs": 1,
    }  # fmt: skip
    (kept,) = await site.store.measurements.of_environment("torch")
    assert (kept.person, kept.session_id, kept.version) == ("ada", "S10", None)


async def test_more_gpus_than_slurm_gave_are_refused(site: Site) -> None:
    answer = await site.report(gpus=4)
    assert answer.status_code == 400 and "This session has 2 GPUs" in answer.text
    assert (await site.shown()).json()["items"] == []


async def test_a_person_is_no_session(site: Site) -> None:
    assert (await site.report("ada")).status_code == 403
    assert (await site.report("nobody")).status_code == 403


@pytest.mark.parametrize(
    "changed",
    [
        {"gpu_type": "h100"},
        {"images_per_second": 0},
        {"images_per_second": -1},
        {"images_per_second": 1e12},
        {"images_per_second": "many"},
        {"precision": "<b>fp16</b>"},
        {"benchmark": "../../etc"},
        {"gpus": -1},
        {"gpus": 1.5},
    ],
)
async def test_what_cannot_be_is_refused_by_name(site: Site, changed: dict[str, Any]) -> None:
    answer = await site.report(**changed)
    assert answer.status_code == 400, answer.text
    assert next(iter(changed)) in answer.json()["error"]["message"]
    assert await site.store.measurements.of_environment("torch") == []


async def test_a_loop_is_told_to_wait(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.handlers.catalog.measurements._pace._least", 60.0)
    assert (await site.report()).status_code in (204, 429)  # of another test, a moment ago
    assert (await site.report()).status_code == 429


async def test_of_an_environment_of_others_nothing_is_told(site: Site) -> None:
    assert (await site.shown("secret")).status_code == 404
    assert (await site.shown("..")).status_code == 404


async def test_a_session_that_is_over_tells_nothing(site: Site) -> None:
    site.job(state=JobState.COMPLETED)
    assert (await site.report()).status_code == 409


async def test_the_version_is_the_one_that_was_published_before(site: Site) -> None:
    for at, number in ((time.time() - 60, 1), (time.time() + 60, None)):
        await site.store.versions.add_version(
            TORCH, author="grace", at=at, origin=Origin.PAGE, published_at=at
        )
        assert (await site.report()).status_code == 204
        assert (await site.store.measurements.of_environment("torch"))[0].version == number


def report(gpus: int) -> MeasurementReport:
    return MeasurementReport(**{**REPORT, "gpus": gpus})


def test_simulated_gpus_stand_for_the_jobs() -> None:
    job = Job(id="1", gpus=2, gpu_type="v100")
    assert used_gpus(report(0), job, simulated=True) == 2
    assert used_gpus(report(0), job, simulated=False) == 0
    assert used_gpus(report(1), job, simulated=False) == 1
    with pytest.raises(InvalidRequest, match="has 2 GPUs"):
        used_gpus(report(3), job, simulated=True)


async def test_on_simulated_gpus_it_says_so(site: Site) -> None:
    site.telemetry.simulated = True
    assert (await site.report(gpus=0)).status_code == 204
    (row,) = (await site.shown()).json()["items"]
    assert (row["gpu_type"], row["gpus"], row["simulated"]) == ("v100", 2, True)


async def test_on_cpus_there_is_no_type(site: Site) -> None:
    assert (await site.report(gpus=0)).status_code == 204
    (row,) = (await site.shown()).json()["items"]
    assert (row["gpu_type"], row["gpus"], row["simulated"]) == ("", 0, False)


def one(rate: float, **changed: Any) -> Measurement:
    values: dict[str, Any] = {
        "environment": "torch", "version": None, "benchmark": "resnet50", "gpu_type": "v100",
        "gpus": 1, "precision": "fp32", "images_per_second": rate, "simulated": False,
        "person": "ada", "session_id": "S", "at": rate,
    }  # fmt: skip
    return Measurement(**{**values, **changed})


def test_a_row_is_the_median_of_its_runs() -> None:
    rows = measured([one(10), one(500), one(12), one(7, gpus=2), one(3, gpu_type="", gpus=0)])
    told = [(row.gpu_type, row.gpus, row.images_per_second, row.best, row.runs) for row in rows]
    assert told == [("", 0, 3, 3, 1), ("v100", 1, 12, 500, 3), ("v100", 2, 7, 7, 1)]
    assert rows[1].at == 500


async def test_who_measures_without_end_pushes_out_only_their_own(site: Site) -> None:
    table = site.store.measurements
    await table.add_measurement(one(1, person="barbara"))
    for number in range(1, 131):
        await table.add_measurement(one(number))
    kept = await table.of_environment("torch")
    assert [found.images_per_second for found in kept if found.person == "ada"] == [
        float(number) for number in range(130, 30, -1)
    ]
    assert [found.person for found in kept if found.person != "ada"] == ["barbara"]
