"""What a session is told about itself: made without I/O, and asked for with its own token.

The Hub is played by a little server that knows some tokens; the database is real.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from session_endpoints import PREFIX, parts_on, served
from session_records import recorded

from portal.assembly import Services
from portal.errors import StoreUnavailable
from portal.handlers.sessions.session import ENDPOINTS
from portal.models.announcement import Announcement, AnnouncementDraft
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState
from portal.models.cluster.dashboard import GpuItem
from portal.models.cluster.rights import Rights
from portal.models.scope import SESSION_OWN
from portal.models.session.idle import IdleMode, IdleState
from portal.models.session.session import SessionRecord, SessionState
from portal.models.session.usage import SessionReports
from portal.sessions.situation import SessionData, situation_of
from portal.store import Store

NOW = 1_800_000_000.0
TORCH = Environment(
    name="torch", title="PyTorch", kind="venv", path="/opt/torch", max_time="8:00:00"
)


def record(id: str = "S10", user: str = "ada", job_id: str = "10", **more: Any) -> SessionRecord:
    values = {
        "environment": "torch",
        "environment_title": "PyTorch",
        "options": {"gpus": 2, "time": "1:00:00", "memory": "32G"},
        "state": SessionState.RUNNING,
        "submitted_at": NOW - 1500,
        "started_at": NOW - 1400,
        **more,
    }
    return recorded(id=id, user=user, job_id=job_id, **values)


def job(id: str = "10", **more: Any) -> Job:
    values = {
        "state": JobState.RUNNING,
        "nodes": ("gpu01",),
        "user": "ada",
        "partition": "gpu",
        "gpus": 2,
        "gpu_type": "v100",
        "gpu_indexes": {"gpu01": (1, 3)},
        "cpus": 8,
        "memory": 32768,
        "start_time": NOW - 1400,
        "end_time": NOW + 2200,
        "time_limit": 3600,
        **more,
    }
    return Job(id=id, **values)


def gpu(index: int, **more: Any) -> GpuItem:
    values = {"type": "v100", "state": "busy", "utilization": 80.0, "source": "dcgm", **more}
    return GpuItem(node="gpu01", index=index, job_id="10", user="ada", **values)


def known(**more: Any) -> SessionData:
    values = {
        "now": NOW,
        "taken_at": NOW - 3,
        "error": "",
        "prefix": PREFIX,
        "base": "/",
        "environment": TORCH,
        **more,
    }
    return SessionData(**values)


# -- without I/O ----------------------------------------------------------------------------------


def test_time_resources_and_gpus_are_the_jobs() -> None:
    found = situation_of(record(), job(), known(gpus=[gpu(1), gpu(3, utilization=None)]))
    assert (found.now, found.taken_at, found.error) == (NOW, NOW - 3, "")
    assert (found.started_at, found.ends_at) == (NOW - 1400, NOW + 2200)
    assert (found.cpus, found.memory, found.gpu_type, found.node) == (8, 32768, "v100", "gpu01")
    assert [(one.index, one.utilization) for one in found.gpus] == [(1, 80.0), (3, None)]
    assert not found.simulated
    assert found.links["session"] == "/services/portal/sessions/S10"
    assert found.links["cluster"] == PREFIX
    assert found.links["launch"].startswith("/hub/spawn?opt-environment=torch&opt-gpus=2")


def test_made_up_readings_are_said_to_be() -> None:
    assert situation_of(record(), job(), known(gpus=[gpu(1, source="simulated")])).simulated


def test_a_job_that_waits_has_no_times() -> None:
    waiting = job(state=JobState.PENDING, nodes=(), gpu_indexes={}, start_time=NOW + 60)
    found = situation_of(record(state=SessionState.PENDING), waiting, known())
    assert (found.started_at, found.ends_at, found.node, found.gpus) == (None, None, "", ())


def test_only_announcements_that_are_on_are_told() -> None:
    def one(id: int, starts_at: float, ends_at: float) -> Announcement:
        return Announcement(
            id=id, text=f"no {id}", starts_at=starts_at, ends_at=ends_at, author="g", created_at=1
        )

    given = [one(1, NOW - 5, NOW + 5), one(2, NOW + 1, NOW + 5), one(3, NOW - 5, NOW)]
    found = situation_of(record(), job(), known(announcements=given))
    assert [(one.id, one.text) for one in found.announcements] == [(1, "no 1")]


def test_the_hint_is_of_what_was_measured_until_now() -> None:
    reports = SessionReports(
        session_id="S10",
        reports=40,
        gpu_seconds=2400,
        busy_seconds=240,
        peak_memory=2000,
        last_at=1,
    )
    found = situation_of(record(), job(), known(reports=reports))
    assert found.hint == (
        "Until now: on average 0.2 of 2 GPUs were busy (as reported by the session): 1 GPU may be "
        "enough. The session used at most 2.0 GB of its 32 GB of memory (as reported by the "
        "session): 3 GB should be enough."
    )
    young = record(started_at=NOW - 300)
    assert situation_of(young, job(), known(reports=reports)).hint == ""
    assert situation_of(record(), job(), known(reports=reports, environment=None)).hint == ""


# -- with the session's own token -----------------------------------------------------------------


def of_server(user: str, server: str = "") -> dict[str, Any]:
    scopes = [f"{SESSION_OWN}!server={user}/{server}", f"access:servers!server={user}/{server}"]
    return {"name": user, "kind": "user", "scopes": scopes}


TOKENS: dict[str, Any] = {
    "ada": of_server("ada"),
    "barbara": of_server("barbara"),
    "person": {"name": "ada", "kind": "user", "scopes": [f"{SESSION_OWN}!user=ada"]},
}


class Site:
    """The endpoint on loopback; ``asked`` counts what went to Slurm and to the database."""

    def __init__(self, client: httpx.AsyncClient, parts: Services, asked: list[str]) -> None:
        self.client = client
        self.parts, self.asked = parts, asked

    async def get(self, token: str) -> httpx.Response:
        return await self.client.get("session", headers={"Authorization": f"token {token}"})


@pytest.fixture
async def site(store: Store) -> AsyncIterator[Site]:
    asked: list[str] = []
    for table in ("announcements", "usage", "reports"):
        _count(getattr(store, table), asked)
    now = time.time()
    own = job(start_time=now - 1400, end_time=now + 2200)
    view = SimpleNamespace(
        taken_at=now,
        error="",
        sessions={"10": record(started_at=now - 1400)},
        gpus={f"gpu01/{n}": gpu(n) for n in range(4)},
        snapshot=ClusterSnapshot(taken_at=now, jobs={"10": own}),
    )

    async def rights() -> Rights:
        asked.append("rights")
        return Rights(jobs=True)

    async def load() -> None:
        asked.append("catalog")

    parts = parts_on(
        store,
        catalog=SimpleNamespace(load=load, environments={"torch": TORCH}),
        cluster=SimpleNamespace(
            runner=None,
            known_qos={},
            known_associations=lambda _: None,
            expect_launches=lambda: asked.append("limits"),
        ),
        control=SimpleNamespace(rights=rights),
        telemetry=SimpleNamespace(simulated=False),
        dashboard=SimpleNamespace(view=view, error="Slurm has not answered."),
        hub_host="https://gpu.test",
    )
    async with served(ENDPOINTS, parts, TOKENS.get) as client:
        yield Site(client, parts, asked)


def _count(table: Any, asked: list[str]) -> None:
    for name in ("active", "of_sessions"):
        stock = getattr(table, name, None)
        if stock is None:
            continue

        async def counted(*given: Any, _stock: Any = stock, _name: str = name) -> Any:
            asked.append(_name)
            return await _stock(*given)

        setattr(table, name, counted)


async def test_many_questions_cost_one_look_at_everything(site: Site) -> None:
    site.parts.situations.announcements._age = 600
    answers = [await site.get("ada") for _ in range(20)]
    assert {answer.status_code for answer in answers} == {200}
    assert sorted(site.asked) == [
        "active", "catalog", "limits", "of_sessions", "of_sessions", "rights",
    ]  # fmt: skip
    found = answers[0].json()
    assert (found["session_id"], found["job_id"], found["user"]) == ("S10", "10", "ada")
    assert [one["index"] for one in found["gpus"]] == [1, 3]
    assert found["extend"]["allowed"]
    assert found["extend"]["minutes"] == [30, 60, 120]
    assert found["extend"]["latest_end"] == pytest.approx(found["started_at"] + 8 * 3600, abs=1)


async def test_an_announcement_is_there_at_once_after_it_was_written(site: Site) -> None:
    site.parts.situations.announcements.patience = 60
    assert (await site.get("ada")).json()["announcements"] == []
    now = time.time()
    draft = AnnouncementDraft(text="Down at six", starts_at=now - 1, ends_at=now + 60)
    await site.parts.store.announcements.add_announcement(draft, "grace", now)
    site.parts.situations.announcements.invalidate()
    (told,) = (await site.get("ada")).json()["announcements"]
    assert (told["text"], told["level"]) == ("Down at six", "info")


async def test_what_other_parts_know_of_it_is_in_it(site: Site) -> None:
    site.parts.idle.state_of = lambda id_: IdleState(mode=IdleMode.WARN, exempt=id_)
    found = (await site.get("ada")).json()
    assert found["idle"]["mode"] == "warn"
    assert found["idle"]["exempt"] == "S10"
    assert found["move"] is None


async def test_its_links_lead_to_the_hubs_host_from_any_other(site: Site) -> None:
    links = (await site.get("ada")).json()["links"]
    assert links["cluster"] == f"https://gpu.test{PREFIX}"
    assert links["session"] == f"https://gpu.test{PREFIX}sessions/S10"
    assert links["launch"].startswith("https://gpu.test/hub/spawn?")


async def test_without_the_database_it_works(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: Any) -> Any:
        raise StoreUnavailable("The database does not answer.")

    for table in ("announcements", "usage", "reports"):
        for name in ("active", "of_sessions"):
            monkeypatch.setattr(getattr(site.parts.store, table), name, away, raising=False)
    answer = await site.get("ada")
    assert answer.status_code == 200
    assert answer.json()["announcements"] == []


async def test_while_slurm_is_away_the_last_is_told_with_its_age(site: Site) -> None:
    view: Any = site.parts.dashboard.view
    view.error, view.taken_at = "Slurm does not answer.", 5.0
    found = (await site.get("ada")).json()
    assert (found["error"], found["taken_at"]) == ("Slurm does not answer.", 5.0)
    assert found["ends_at"] is not None
    site.parts.dashboard.view = None
    answer = await site.get("ada")
    assert answer.status_code == 503
    assert answer.json()["error"] == {"code": "starting", "message": "Slurm has not answered."}


async def test_without_the_right_no_extension_is_offered(site: Site) -> None:
    async def rights() -> Rights:
        return Rights(missing={"jobs": "It needs Operator."})

    site.parts.control.rights = rights  # type: ignore[method-assign]
    found = (await site.get("ada")).json()["extend"]
    assert not found["allowed"]
    assert "may not extend" in found["reason"]


@pytest.mark.parametrize("token", ["person", "unknown"])
async def test_any_other_token_is_refused(site: Site, token: str) -> None:
    assert (await site.get(token)).status_code == 403


async def test_a_session_that_the_portal_does_not_see_yet_is_asked_to_come_again(
    site: Site,
) -> None:
    assert (await site.get("barbara")).status_code == 503
