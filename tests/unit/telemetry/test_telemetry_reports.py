"""The route that sessions report to: whose token, whose job, what cannot be.

The Hub is played by a little server that knows some tokens; database and telemetry are real.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from session_endpoints import served
from session_records import recorded

from portal.assembly import Services
from portal.audit_log import AuditLog
from portal.errors import StoreUnavailable
from portal.handlers.base.own_session import own_server
from portal.handlers.sessions.telemetry import TelemetryEndpoint
from portal.models.cluster.cluster import ClusterSnapshot, Job, JobState, Node
from portal.models.scope import TELEMETRY_REPORT, right
from portal.models.session.session import SessionRecord
from portal.sessions.idle_gpus import IdleGpus
from portal.store import Store
from portal.telemetry import Telemetry
from portal.telemetry.rate_limit import RateLimit
from portal.web.audit_rate_limit import AuditRateLimit

PREFIX = "/services/portal/"
ODD = "ada b@x=y!z%2F"  # a user whom JupyterHub would take


def of_server(user: str, server: str = "") -> dict[str, Any]:
    """The Hub's model of a session's token."""
    scopes = [
        f"{TELEMETRY_REPORT}!server={user}/{server}",
        f"access:servers!server={user}/{server}",
    ]
    return {"name": user, "kind": "user", "scopes": scopes}


def person(user: str, *scopes: str) -> dict[str, Any]:
    own = [f"{TELEMETRY_REPORT}!user={user}", "access:services!service=portal"]
    return {"name": user, "kind": "user", "scopes": [*own, *scopes]}


TOKENS = {
    "ada": of_server("ada"),
    "ada-second": of_server("ada", "second/ö"),
    "odd": of_server(ODD, "s=1!2"),
    "barbara": of_server("barbara"),
    "person": person("ada"),
    "holds-all": person("ada", TELEMETRY_REPORT),
    "two": person("ada", *(f"{TELEMETRY_REPORT}!server=ada/{name}" for name in ("", "second"))),
    "other": person("ada", f"{TELEMETRY_REPORT}!server=barbara/"),
    "no-slash": person("ada", f"{TELEMETRY_REPORT}!server=ada"),
    "service": {**of_server("ada"), "kind": "service"},
}


def record(id: str, user: str, job_id: str, server: str = "") -> SessionRecord:
    return recorded(id=id, user=user, server=server, job_id=job_id, submitted_at=1.0)


def job(id: str, node: str, **more: Any) -> Job:
    values = {"state": JobState.RUNNING, "nodes": (node,), "gpus": 2, "start_time": 1.0, **more}
    return Job(id=id, gpu_indexes={node: (0, 1)}, user="someone", **values)


class Site:
    """The service's route on loopback, with the parts behind it."""

    def __init__(self, client: httpx.AsyncClient, parts: Services, asked: list[int]) -> None:
        self.client = client
        self.parts = parts
        self.asked = asked  # questions to the Hub

    async def report(self, token: str, *gpus: Any, job_id: str = "10", **more: Any) -> Any:
        """The answer to a report of ``gpus`` (utilisations, or whole dictionaries)."""
        named = [
            {"index": n, **(gpu if isinstance(gpu, dict) else {"utilization": gpu})}
            for n, gpu in enumerate(gpus)
        ]
        return await self.post(token, json.dumps({"job_id": job_id, "gpus": named, **more}))

    async def post(self, token: str, body: str | bytes, **headers: str) -> httpx.Response:
        given = {"Content-Type": "application/json", **headers}
        if token:
            given["Authorization"] = f"token {token}"
        return await self.client.post("telemetry", content=body, headers=given)

    def shown(self) -> dict[tuple[str, int], float | None]:
        view = self.parts.dashboard.view
        found = self.parts.telemetry.readings(view.snapshot)
        return {gpu: reading.utilization for gpu, reading in found.items()}

    async def audit(self) -> list[tuple[str, str, str, str, str]]:
        entries, _ = await self.parts.store.audit.find()
        return [(e.actor, e.action, e.target, e.owner, str(e.outcome)) for e in entries]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    records = {
        "10": record("S10", "ada", "10"),
        "11": record("S11", "ada", "11", "second/ö"),
        "12": record("S12", "barbara", "12"),
        "13": record("S13", ODD, "13", "s=1!2"),
        "14": record("S14", "ada", "14"),
    }
    nodes = {id: f"gpu{id}" for id in records}
    jobs = {id: job(id, nodes[id]) for id in records}
    jobs["14"] = job("14", "gpu14", state=JobState.PENDING)
    jobs["99"] = job("99", "gpu99")  # not a session
    store = Store(url=f"sqlite:///{tmp_path}/portal.sqlite", log=logging.getLogger("store"))
    await store.upgrade()
    hosts = {"gpu10": Node(name="gpu10", address="gpu10", state="MIXED", memory=4000)}
    view = SimpleNamespace(
        sessions=records,
        snapshot=ClusterSnapshot(taken_at=time.time(), jobs=jobs, nodes=hosts),
    )
    context: Any = None  # it only hears
    log = logging.getLogger("service")
    parts = SimpleNamespace(
        prefix=PREFIX,
        log=log,
        store=store,
        telemetry=Telemetry(report_interval=0.0),
        dashboard=SimpleNamespace(view=view),
        audit=AuditLog(store, log, AuditRateLimit()).audit,
        idle=IdleGpus(context),
        moves=SimpleNamespace(expects=lambda job_id: False),
    )
    asked: list[int] = []

    def model_of(token: str) -> dict[str, Any] | int | None:
        asked.append(1)
        return 500 if token == "hub-is-away" else TOKENS.get(token)

    async with served([TelemetryEndpoint], parts, model_of) as client:
        yield Site(client, parts, asked)


# -- what is taken --------------------------------------------------------------------------------


async def test_a_session_reports_of_its_own_job(site: Site) -> None:
    answer = await site.report("ada", 30, {"mig": True}, memory_used=500, memory_limit=1000)
    assert (answer.status_code, answer.content) == (204, b"")
    assert site.shown() == {("gpu10", 0): 30, ("gpu10", 1): None}
    found = await site.parts.store.reports.of_sessions(["S10"])
    assert (found["S10"].reports, found["S10"].peak_memory) == (1, 500)
    assert await site.audit() == []


async def test_a_job_uses_no_more_memory_than_its_node_has(site: Site) -> None:
    answer = await site.report("ada", 30, memory_used=9000)
    assert answer.status_code == 400
    assert "gpu10 has 4000" in answer.json()["error"]["message"]
    assert site.shown() == {}


async def test_the_use_of_a_shared_gpu_is_not_its_sessions(site: Site) -> None:
    view = site.parts.dashboard.view
    view.sessions["10"] = view.sessions["10"].model_copy(
        update={"options": {"gpus": 2, "gpu_type": "shard.t4"}}
    )
    view.snapshot.jobs["10"] = view.snapshot.jobs["10"].altered(gpus=0, gpu_indexes={})
    shared = {"utilization": 97, "memory_used": 15_000}
    answer = await site.report("ada", shared, memory_used=2000)
    assert answer.status_code == 204, answer.text
    sums = (await site.parts.store.reports.of_sessions(["S10"]))["S10"]
    assert (sums.gpu_seconds, sums.peak_gpu_memory, sums.peak_memory) == (0, None, 2000)
    assert site.shown() == {}
    # Another session's job without GPUs still cannot have one.
    view.snapshot.jobs["11"] = view.snapshot.jobs["11"].altered(gpus=0, gpu_indexes={})
    assert (await site.report("ada-second", 5, job_id="11")).status_code == 400


@pytest.mark.parametrize(
    ("token", "job_id"), [("ada", "10"), ("ada-second", "11"), ("barbara", "12"), ("odd", "13")]
)
async def test_names_of_users_and_servers_may_be_odd(site: Site, token: str, job_id: str) -> None:
    assert (await site.report(token, 5, 5, job_id=job_id)).status_code == 204
    assert set(site.shown()) == {(f"gpu{job_id}", 0), (f"gpu{job_id}", 1)}


async def test_reports_add_up_to_the_time_between_them(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = time.time()
    gib = {"memory_used": 1024}
    steps = [
        (0, [50, 50], 100),  # the first stands for nothing
        (30, [50, 0], 300),  # 30 s: two GPUs, one busy
        (30, [50, {"utilization": None}], 200),  # 30 s: one of which it is known
        (91, [50, 50], None),  # after a gap
        (20, [{"mig": True, **gib}, {"utilization": 4.9, **gib}], None),
    ]
    for seconds, gpus, memory in steps:
        clock += seconds
        monkeypatch.setattr("portal.handlers.sessions.telemetry.time.time", lambda now=clock: now)
        monkeypatch.setattr("portal.handlers.sessions.telemetry.uptime", lambda now=clock: now)
        answer = await site.report("ada", *gpus, memory_used=memory)
        assert answer.status_code == 204, answer.text
    sums = (await site.parts.store.reports.of_sessions(["S10"]))["S10"]
    assert (sums.reports, sums.gpu_seconds, sums.busy_seconds) == (5, 60 + 30 + 20, 30 + 30)
    assert (sums.peak_memory, sums.peak_gpu_memory) == (300, 2048)
    assert sums.last_at == clock


async def test_the_hub_is_asked_once_for_many_reports(site: Site) -> None:
    for _ in range(20):
        assert (await site.report("ada", 1, 1)).status_code == 204
    assert len(site.asked) == 1


async def test_without_the_database_a_report_is_shown_all_the_same(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("The database does not answer.")

    monkeypatch.setattr(site.parts.store.reports, "add_report", away)
    assert (await site.report("ada", 30, 31)).status_code == 204
    assert site.shown()["gpu10", 0] == 30


# -- who is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["person", "holds-all", "two", "other", "no-slash", "service"])
async def test_any_other_token_is_refused_and_the_audit_log_tells(site: Site, token: str) -> None:
    answer = await site.report(token, 30, 30)
    assert (
        answer.status_code == 403 and right(TELEMETRY_REPORT) in answer.json()["error"]["message"]
    )
    assert site.shown() == {}
    assert await site.audit() == [("ada", "denied", "api/v1/telemetry", "", "refused")]


async def test_who_may_not_is_not_told_what_is_wrong_with_the_body(site: Site) -> None:
    assert (await site.post("person", "{")).status_code == 403


@pytest.mark.parametrize(
    ("token", "job_id", "owner"),
    [
        ("barbara", "10", "ada"),  # somebody else's session
        ("ada", "11", "ada"),  # another server of the same person
        ("ada", "99", "someone"),  # a job that is no session
        ("ada", "424242", ""),  # no job at all
    ],
)
async def test_a_report_of_another_job_is_refused(
    site: Site, token: str, job_id: str, owner: str
) -> None:
    answer = await site.report(token, 30, 30, job_id=job_id)
    assert answer.status_code == 403
    assert answer.json()["error"]["message"] == f"Job {job_id} is not this session's job."
    assert site.shown() == {}
    actor = TOKENS[token]["name"]
    assert await site.audit() == [(actor, "report-telemetry", f"job {job_id}", owner, "refused")]
    assert await site.parts.store.reports.of_sessions(["S10", "S11"]) == {}


async def test_a_session_that_is_over_is_refused(site: Site) -> None:
    assert (await site.report("ada", 30, 30)).status_code == 204
    del site.parts.dashboard.view.sessions["10"]
    assert (await site.report("ada", 30, 30)).status_code == 403


async def test_a_session_younger_than_the_view_is_asked_to_come_again(site: Site) -> None:
    await site.parts.store.sessions.save(record("S20", "ada", "20"))
    answer = await site.report("ada", 30, 30, job_id="20")
    assert answer.status_code == 503 and "not seen this session's job yet" in answer.text
    assert (await site.report("barbara", 30, 30, job_id="20")).status_code == 403
    assert [line[0] for line in await site.audit()] == ["barbara"]


async def test_a_job_that_waits_has_nothing_to_report(site: Site) -> None:
    answer = await site.report("ada", 30, job_id="14")
    assert answer.status_code == 403 and "not running" in answer.text


async def test_no_token_an_unknown_one_and_a_cookie_are_no_way_in(site: Site) -> None:
    for token, headers in (("", {}), ("unknown", {}), ("", {"Cookie": "service-portal=ada"})):
        answer = await site.post(token, '{"job_id": "10"}', **headers)
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "not_logged_in"
    answer = await site.client.get("telemetry", headers={"Accept": "text/html"})
    assert answer.status_code == 403, "nobody is sent to the login and back"


async def test_without_the_hub_it_is_a_503(site: Site) -> None:
    answer = await site.report("hub-is-away", 30)
    assert answer.status_code == 503 and "The Hub does not answer" in answer.text


async def test_other_methods(site: Site) -> None:
    answer = await site.client.get("telemetry", headers={"Authorization": "token ada"})
    assert answer.status_code == 405 and answer.headers["Allow"] == "POST"


# -- what cannot be -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "gpus",
    [
        [{"utilization": -1}],
        [{"utilization": 1e9}],
        [{"utilization": 101}],
        [{"memory_used": -1}],
        [{"memory_used": 10**9}],
        [{"memory_used": 2, "memory_total": 1}],
        [{"uuid": "<script>"}],
        [{"index": 10**9}],
        [{"index": 0}, {"index": 0}],
        [1, 2, 3],
        [{"index": n % 256} for n in range(65)],
    ],
)
async def test_impossible_gpus_are_refused(site: Site, gpus: list[Any]) -> None:
    answer = await site.report("ada", *gpus)
    assert answer.status_code == 400, answer.text
    assert site.shown() == {}
    assert await site.parts.store.reports.of_sessions(["S10"]) == {}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"{}",
        b'{"job_id": 10}',
        b'{"job_id": "10; rm -rf"}',
        b'{"job_id": "10", "gpus": [{"index": 0, "utilization": NaN}]}',
        b'{"job_id": "10", "gpus": [{"index": 0, "utilization": Infinity}]}',
        b'{"job_id": "10", "memory_used": -5}',
        b'{"job_id": "10", "memory_used": 1e30}',
        b'{"job_id": "10", "memory_used": 1.5}',
        b'{"job_id": "10", "user": "grace"}',
        b"[" * 50_000,
        b'{"job_id": "10", "gpus": "' + b"x" * 70_000 + b'"}',
    ],
)
async def test_a_body_that_is_no_report_is_refused(site: Site, body: bytes) -> None:
    answer = await site.post("ada", body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["message"].endswith(".")
    assert site.shown() == {}


async def test_reports_that_come_too_often_are_refused(site: Site) -> None:
    site.parts.telemetry.pace = RateLimit(2.0, 90.0)
    answers = await asyncio.gather(*(site.report("ada", 30, 30) for _ in range(5)))
    assert sorted(one.status_code for one in answers) == [204, 429, 429, 429, 429]
    (after,) = {one.headers["Retry-After"] for one in answers if one.status_code == 429}
    assert 1 <= int(after) <= 2
    assert (await site.report("barbara", 30, 30, job_id="12")).status_code == 204


async def test_a_hostile_session_does_not_fill_the_audit_log(site: Site) -> None:
    site.parts.telemetry.pace = RateLimit(600.0, 900.0)
    answers = [await site.report("ada", 30, job_id="12") for _ in range(10)]
    assert [one.status_code for one in answers] == [403] + [429] * 9
    assert len(await site.audit()) == 1


# -- the pieces -----------------------------------------------------------------------------------


def test_whose_token_it_is() -> None:
    assert own_server(TOKENS["ada"], TELEMETRY_REPORT) == ""
    assert own_server(TOKENS["ada-second"], TELEMETRY_REPORT) == "second/ö"
    assert own_server(TOKENS["odd"], TELEMETRY_REPORT) == "s=1!2"
    assert own_server({"name": "ada"}, TELEMETRY_REPORT) is None
    assert (
        own_server({"name": "", "scopes": [f"{TELEMETRY_REPORT}!server=/"]}, TELEMETRY_REPORT)
        is None
    )


def test_the_pace_forgets_and_bears_a_clock_that_is_set_back() -> None:
    pace = RateLimit(2.0, 90.0)
    assert pace.admit("a", 1000) == 0 and pace.passed("a", 1000) == 0
    assert pace.admit("a", 1001) == 1.0
    assert pace.admit("a", 1001.5) == 0.5, "trying does not make it longer"
    assert pace.admit("a", 1002) == 0 and pace.passed("a", 1002) == 2
    assert pace.admit("a", 500) == 0 and pace.passed("a", 500) == 0
    assert pace.admit("b", 10_000) == 0
    assert len(pace._seen) == 1
