"""Extending a session through the API, with a Slurm that a test plays: who may, what is said, and
what happens when two do it at once. On the real one: tests/hub/sessions/test_extend.py."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fake_watcher import WillingSlurm
from session_endpoints import catalog_of, of_server, parts_on, person, said, served
from session_records import recorded

from portal.assembly import Services
from portal.errors import Conflict, NotAllowed
from portal.handlers.sessions import extend, snooze, starters
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState
from portal.models.scope import JOBS_MANAGE
from portal.models.session.session import SessionState
from portal.store import Store

TORCH = Environment(
    name="torch", title="PyTorch", kind="venv", path="/opt/torch", max_time="3:00:00"
)


TOKENS = {
    "session": of_server("ada"),
    "barbaras-session": of_server("barbara"),
    "ada": person("ada"),
    "barbara": person("barbara"),
    "grace": person("grace", JOBS_MANAGE),
}


class Slurm(WillingSlurm):
    """A running job, whose limit can be set."""

    def __init__(self) -> None:
        super().__init__()
        now = time.time() // 1
        self.job = Job(
            id="10",
            user="ada",
            state=JobState.RUNNING,
            nodes=("gpu01",),
            start_time=now - 600,
            end_time=now + 3000,
            time_limit=3600,
        )
        self.record = recorded(
            id="S10",
            user="ada",
            job_id="10",
            environment="torch",
            state=SessionState.RUNNING,
            options={"time": "1:00:00"},
            submitted_at=now - 600,
        )
        self.limits: list[int] = []  # that were set
        self.ends_at_extend = False

    async def snapshot(self, *_: Any, **__: Any) -> ClusterSnapshot:
        await asyncio.sleep(0)
        return ClusterSnapshot(taken_at=time.time(), jobs={"10": self.job}, error=self.error)

    async def extend(self, job_id: str, limit: int) -> None:
        await asyncio.sleep(0)
        if self.ends_at_extend:
            self.job = self.job.model_copy(update={"state": JobState.COMPLETED})
            raise Conflict(f"Job {job_id} has already ended.")
        self.limits.append(limit)
        more = {"time_limit": limit, "end_time": (self.job.start_time or 0) + limit}
        self.job = self.job.model_copy(update=more)

    @property
    def view(self) -> Any:
        return SimpleNamespace(
            error="",
            sessions={"10": self.record},
            snapshot=ClusterSnapshot(taken_at=time.time(), jobs={"10": self.job}),
        )


class Site:
    """The endpoints on loopback."""

    def __init__(self, client: httpx.AsyncClient, parts: Services, slurm: Slurm) -> None:
        self.client = client
        self.parts, self.slurm = parts, slurm

    async def post(self, token: str, path: str, body: Any) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Authorization": f"token {token}", "Content-Type": "application/json"}
        return await self.client.post(path, content=content, headers=headers)

    async def own(self, body: Any, token: str = "session") -> httpx.Response:
        return await self.post(token, "session/extend", body)

    async def audit(self) -> list[tuple[str, str, str, str, str]]:
        entries, _ = await self.parts.store.audit.find()
        return [(e.actor, e.action, e.target, e.owner, str(e.outcome)) for e in entries]


@pytest.fixture
async def site(store: Store, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setattr("portal.handlers.sessions.extend._PAUSE", 0.0)
    slurm = Slurm()
    await store.sessions.save(slurm.record)

    parts = parts_on(
        store,
        **dict.fromkeys(("cluster", "control", "dashboard"), slurm),
        catalog=catalog_of(TORCH),
        telemetry=SimpleNamespace(simulated=False),
    )
    kinds = (*extend.ENDPOINTS, *snooze.ENDPOINTS, *starters.ENDPOINTS)
    async with served(kinds, parts, TOKENS.get) as client:
        yield Site(client, parts, slurm)


async def test_a_token_that_was_revoked_extends_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await site.own({"minutes": 30})).status_code == 200
    before = site.slurm.job.end_time
    monkeypatch.delitem(TOKENS, "session")
    assert (await site.own({"minutes": 30})).status_code == 403
    assert (await site.post("session", "session/snooze", None)).status_code == 403
    assert site.slurm.job.end_time == before


async def test_a_session_extends_itself(site: Site) -> None:
    before = site.slurm.job.end_time
    answer = await site.own({"minutes": 30})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["ends_at"] == pytest.approx((before or 0) + 1800)
    assert found["time_limit"] == 5400
    assert found["extend"]["allowed"]
    assert site.slurm.limits == [5400]
    assert await site.audit() == [("ada", "extend-session", "session S10", "ada", "done")]


async def test_past_the_limit_the_sentence_says_what_is_possible(site: Site) -> None:
    assert (await site.own({"minutes": 120})).status_code == 200
    answer = await site.own({"minutes": 1})
    assert answer.status_code == 403
    assert said(answer) == (
        "This session cannot be extended: 'PyTorch' allows a time limit of at most 3 h."
    )
    assert site.slurm.limits == [3 * 3600]
    assert (await site.audit())[0][4] == "refused"


async def test_two_windows_extend_once(site: Site) -> None:
    body = {"minutes": 30, "ends_at": site.slurm.job.end_time}
    answers = await asyncio.gather(*(site.own(body) for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409, 409]
    assert site.slurm.limits == [5400]
    refused = next(answer for answer in answers if answer.status_code == 409)
    assert "time has changed" in said(refused)


async def test_two_at_once_who_name_no_end_add_up(site: Site) -> None:
    answers = await asyncio.gather(*(site.own({"minutes": 30}) for _ in range(2)))
    assert {answer.status_code for answer in answers} == {200}
    assert site.slurm.limits == [5400, 7200]


async def test_a_session_that_asks_without_end_waits_its_turn(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.handlers.sessions.extend._PAUSE", 0.05)
    looks: list[float] = []
    refused: list[httpx.Response] = []
    stock = site.slurm.snapshot

    async def counted(*given: Any, **named: Any) -> ClusterSnapshot:
        looks.append(time.monotonic())
        while len(refused) < 25:  # the others come while the first one looks
            await asyncio.sleep(0.01)
        return await stock(*given, **named)

    monkeypatch.setattr(site.slurm, "snapshot", counted)

    async def asks() -> httpx.Response:
        answer = await site.own({"minutes": 120})
        if answer.status_code == 429:
            refused.append(answer)
        return answer

    answers = await asyncio.gather(*(asks() for _ in range(30)))
    codes = [answer.status_code for answer in answers]
    assert codes.count(200) == 1
    assert codes.count(429) == 25
    assert set(codes) == {200, 403, 429}
    assert all(later - earlier >= 0.04 for earlier, later in itertools.pairwise(looks))


async def test_a_session_that_ends_meanwhile_is_said_to_be_over(site: Site) -> None:
    site.slurm.ends_at_extend = True
    answer = await site.own({"minutes": 30})
    assert answer.status_code == 409
    assert "already ended" in said(answer)
    assert (await site.audit())[0][4] == "failed"


async def test_while_slurm_is_away_nothing_is_promised(site: Site) -> None:
    site.slurm.error = "Slurm does not answer."
    answer = await site.own({"minutes": 30})
    assert (answer.status_code, said(answer)) == (503, "Slurm does not answer.")
    assert site.slurm.limits == []


async def test_a_right_that_is_missing_is_named(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def need(_: str) -> None:
        raise NotAllowed("It needs AdminLevel=Operator.")

    monkeypatch.setattr(site.slurm, "need", need)
    answer = await site.own({"minutes": 30})
    assert (answer.status_code, said(answer)) == (403, "It needs AdminLevel=Operator.")
    assert site.slurm.limits == []


@pytest.mark.parametrize("who", ["ada", "barbara", "grace"])
async def test_a_persons_token_is_no_sessions(site: Site, who: str) -> None:
    answer = await site.own({"minutes": 30}, who)
    assert answer.status_code == 403
    assert site.slurm.limits == []
    assert [line[1] for line in await site.audit()] == ["denied"]


async def test_another_session_extends_only_itself(site: Site) -> None:
    answer = await site.own({"minutes": 30, "job_id": "10"}, "barbaras-session")
    assert answer.status_code == 400
    answer = await site.own({"minutes": 30}, "barbaras-session")
    assert answer.status_code == 503  # no session of hers is known
    assert site.slurm.limits == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"{}",
        b'{"minutes": "30"}',
        b'{"minutes": 30.5}',
        b'{"minutes": true}',
        b'{"minutes": 0}',
        b'{"minutes": -30}',
        b'{"minutes": 121}',
        b'{"minutes": 1e400}',
        b'{"minutes": 99999999999999999999999999}',
        b'{"minutes": 30, "ends_at": "soon"}',
        b'{"minutes": 30, "ends_at": NaN}',
        b'{"minutes": 30, "limit": 99999}',
        b'{"minutes": 30, "job_id": "11"}',
        b"\xff\xfe",
        b'{"minutes": 30}' + b" " * 70000,
    ],
)
async def test_a_hostile_body_is_refused_with_a_sentence(site: Site, body: bytes) -> None:
    answer = await site.own(body)
    assert answer.status_code == 400, answer.text
    assert "Traceback" not in answer.text
    assert said(answer).endswith(".")
    assert site.slurm.limits == []


async def test_where_the_site_does_not_want_it_only_its_admins_may(site: Site) -> None:
    site.parts.extending.allowed = False
    answer = await site.own({"minutes": 30})
    assert answer.status_code == 403
    assert "cannot be extended on this site" in said(answer)
    assert site.slurm.limits == []
