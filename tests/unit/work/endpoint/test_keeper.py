"""Replicas of an endpoint over time, against records of sessions and a gateway that are played."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clusters import gpu_node, snapshot
from fake_hub import FakeHub
from mail_server import Inbox, mail_server, mail_settings
from session_records import recorded

from portal.errors import HubUnavailable, NotAllowed
from portal.gateway.keys import CERTIFICATE, ensure_identity
from portal.models.audit import AuditEntry
from portal.models.cluster.cluster import Job
from portal.models.session.replica_set import ReplicaSet
from portal.models.session.session import SessionState
from portal.notices import Notices
from portal.spaces.membership_cache import MembershipCache
from portal.store import Store
from portal.work.endpoint.gateway import Gateway, GatewayState
from portal.work.endpoint.keeping.keeper import Keeper
from portal.work.endpoint.keeping.launches import Launches
from portal.work.endpoint.keeping.notices import EndpointNotices
from portal.work.endpoint.keeping.owners import Owners
from portal.work.endpoint.keeping.replicas import server_of
from portal.work.endpoint.keeping.spaces import EndpointSpaces
from portal.work.endpoint.models import Endpoint, EndpointReplica, EndpointVersion
from portal.work.endpoint.tables import EndpointReplicaTable, EndpointTable, EndpointVersionTable
from portal.work.replicas.reconciler import Reconciler
from portal.work.replicas.tables import ReplicaSetTable

NOW = 1_790_000_000.0
HOUR = 3600.0
NODE = gpu_node("gpu01").model_copy(update={"address": "10.1.1.1"})
LOG = logging.getLogger("portal-test")


class PlayedGateway(Gateway):
    """State directory of a gateway whose state, and replicas' answers to examples, are ours."""

    def __init__(self, directory: Path) -> None:
        super().__init__(str(directory))
        self.directory = directory
        self.said: dict[str, Any] | None = {}
        self.answer = ""
        self.tried: list[tuple[str, str]] = []

    async def state(self) -> GatewayState | None:
        return None if self.said is None else GatewayState({"models": self.said})

    async def try_example(self, id_: str, address: str, *_: Any) -> str:
        self.tried.append((id_, address))
        return self.answer

    def demand(self, in_flight: int = 0, waiting: int = 0, requests: int = 0) -> None:
        about = {"in_flight": in_flight, "waiting": waiting, "requests": requests}
        self.said = {"embed": about}

    def routes(self) -> dict[str, Any]:
        path = self.directory / "routes.json"
        assert path.stat().st_mode & 0o777 == 0o600
        return dict(json.loads(path.read_text())["models"])


class Site:
    """One endpoint of ada's, whose keeper is asked at moments that the test chooses."""

    def __init__(self, store: Store, gateway: PlayedGateway, notices: Notices) -> None:
        self.store, self.gateway, self.notices = store, gateway, notices
        self.view: Any = SimpleNamespace(snapshot=snapshot(NODE))
        self.reconciled = 0
        self.gone: set[str] = set()
        self.memberships: Any = MembershipCache(store.spaces.get, store.spaces.of_person, age=0.0)
        self.begin_service()

    def begin_service(self) -> None:
        """Forget what the keeper remembers."""
        told = EndpointNotices(self.notices, self.store, LOG)
        launches = Launches(self.store, self.gateway, self._reconcile, 2)
        spaces = EndpointSpaces(self.store, self.memberships)
        self.keeper = Keeper(
            *(self.store, self.gateway, launches, lambda: self.view, told, lambda: self.gone),
            spaces, LOG,
        )  # fmt: skip

    def _reconcile(self) -> None:
        self.reconciled += 1

    async def endpoint(self, **more: Any) -> Endpoint:
        made = Endpoint(name="embed", user="ada", created_at=NOW, shares={"1": 100}, **more)
        await self.store.table(EndpointTable).add_endpoint(made)
        await self.version()
        return made

    async def version(self) -> None:
        await self.store.table(EndpointVersionTable).add_version(
            EndpointVersion(
                endpoint="embed", number=0, created_at=NOW, environment="lab",
                environment_version=2, command=("app", "{socket}"), paths=("/v1/",),
                resources={"gpus": 1},
            )
        )  # fmt: skip

    async def keep(self, now: float) -> None:
        await self.keeper.keep(now)
        await asyncio.gather(*self.keeper._examples.trying.values())

    async def rows(self) -> list[EndpointReplica]:
        """The living replicas, oldest first."""
        return await self.store.table(EndpointReplicaTable).living()

    async def sets(self) -> dict[str, ReplicaSet]:
        return {each.id: each for each in await self.store.table(ReplicaSetTable).every()}

    async def begins(self, row: EndpointReplica, at: float, job: str = "41", **more: Any) -> None:
        """Slurm has the job of a replica: it runs since ``at`` unless ``more`` says otherwise."""
        values = {
            "id": job, "user": row.user, "server": server_of(row), "job_id": job,
            "state": SessionState.RUNNING, "submitted_at": at - 20, "started_at": at,
            "nodes": ("gpu01",), "work": "endpoint",
        }  # fmt: skip
        jobs = [*self.view.snapshot.jobs.values(), Job(id=job, end_time=at + HOUR)]
        self.view.snapshot = snapshot(NODE, *jobs)
        await self.store.sessions.save(recorded(**{**values, **more}))

    async def waits(self, row: EndpointReplica, at: float, job: str) -> None:
        more = {"state": SessionState.PENDING, "started_at": None, "nodes": ()}
        await self.begins(row, at, job, submitted_at=at, **more)

    async def ends(self, row: EndpointReplica, began: float, at: float, job: str = "41") -> None:
        more = {"ending_message": "The program died."}
        await self.begins(row, began, job, state=SessionState.ENDED, ended_at=at, **more)

    async def answers(self, row: EndpointReplica, at: float) -> None:
        """The program of a replica answers."""
        certificate = (self.gateway.directory / CERTIFICATE).read_text()
        told = {"port": 40000, "certificate": certificate, "answered_at": at}
        await self.store.table(EndpointReplicaTable).change(row.user, row.id, **told)

    async def first(self, **more: Any) -> EndpointReplica:
        """An endpoint with a replica that has answered the example."""
        await self.endpoint(**{"least": 1, **more})
        self.keeper.wake("embed")
        await self.keep(NOW)
        (row,) = await self.rows()
        await self.begins(row, NOW)
        await self.answers(row, NOW + 10)
        await self.keep(NOW + 10)
        await self.keep(NOW + 11)
        return (await self.rows())[0]

    async def problem(self) -> str:
        return (await self.store.table(EndpointTable).get("embed")).problem


@pytest.fixture
def site(store: Store, tmp_path: Path) -> Site:
    ensure_identity(tmp_path)
    return Site(store, PlayedGateway(tmp_path), Notices(store=store))


async def test_a_replica_is_launched_tried_and_gets_requests(site: Site) -> None:
    await site.endpoint(least=1, users=("barbara",))
    await site.keep(NOW)
    (row,) = await site.rows()
    known = (row.version, row.environment, row.environment_version, row.command, row.job_id)
    assert known == (1, "lab", 2, ("app", "{socket}"), "")
    assert row.gateway == (site.gateway.directory / CERTIFICATE).read_text()
    made = (await site.sets())[row.id]
    assert (made.work, made.replicas, made.options) == (
        "endpoint", 1, {"gpus": 1, "environment": "lab"},
    )  # fmt: skip
    assert site.reconciled == 1
    assert site.gateway.routes()["embed"]["replicas"] == []
    await site.keep(NOW + 2)
    assert len(await site.rows()) == 1, "one that waits counts"
    await site.begins(row, NOW + 5)
    await site.keep(NOW + 6)
    assert (await site.rows())[0].job_id == "41"
    assert site.gateway.tried == []
    await site.answers(row, NOW + 30)
    await site.keep(NOW + 31)
    assert site.gateway.tried == [(row.id, "10.1.1.1:40000")]
    await site.keep(NOW + 33)
    told = site.gateway.routes()["embed"]
    (replica,) = told["replicas"]
    assert (replica["id"], replica["draining"], replica["version"]) == (row.id, False, 1)
    assert replica["weight"] > 0 and replica["address"].endswith(":40000")
    assert (told["owner"], told["users"], told["paths"]) == ("ada", ["barbara"], ["/v1/"])
    assert told["expected"] is None


async def test_a_replica_that_does_not_answer_the_example_gets_no_request(site: Site) -> None:
    site.gateway.answer = "It answered the example with status 500: no"
    row = await site.first()
    for number in range(1, 8):
        await site.keep(NOW + 10 + 10 * number)
        failed = site.keeper._examples._unanswered
        failed.update({id_: (times, 0.0) for id_, (times, _) in failed.items()})
    assert row.ready_at is None and len(site.gateway.tried) == 5
    (version,) = await site.store.table(EndpointVersionTable).of_endpoint("embed")
    assert version.failures == 1 and "status 500" in version.problem
    assert site.gateway.routes()["embed"]["replicas"] == []
    assert (await site.sets())[row.id].replicas == 0


async def test_a_successor_takes_over_before_the_time_limit(site: Site) -> None:
    row = await site.first()
    await site.keep(NOW + HOUR / 2 - 1)
    assert len(await site.rows()) == 1
    # Loaded in 10 s, waited for 20: it is launched at the time limit less those and a margin.
    measured = (await site.rows())[0]
    assert (measured.waited, measured.loaded) == (20.0, pytest.approx(measured.ready_at - NOW))
    await site.store.table(EndpointReplicaTable).change("ada", row.id, loaded=10.0)
    await site.keep(NOW + HOUR - 100)
    assert len(await site.rows()) == 1
    await site.keep(NOW + HOUR - 89)
    old, new = await site.rows()
    assert new.successor_of == old.id == row.id
    await site.begins(new, NOW + HOUR - 60, "42")
    await site.answers(new, NOW + HOUR - 50)
    await site.keep(NOW + HOUR - 50)
    replicas = site.gateway.routes()["embed"]["replicas"]
    assert [each["id"] for each in replicas] == [row.id], "until it has answered the example"
    await site.keep(NOW + HOUR - 48)
    await site.keep(NOW + HOUR - 46)
    weights = {
        each["id"]: (each["weight"] > 0, each["draining"])
        for each in site.gateway.routes()["embed"]["replicas"]
    }
    assert weights == {row.id: (False, True), new.id: (True, False)}
    assert (await site.sets())[row.id].replicas == 1, "a moment for requests that are on their way"
    site.gateway.said = {"embed": {"replicas": {row.id: {"in_flight": 2}}}}
    await site.keep(NOW + HOUR - 30)
    assert (await site.sets())[row.id].replicas == 1, "it answers requests still"
    site.gateway.said = {}
    await site.keep(NOW + HOUR - 28)
    assert (await site.sets())[row.id].replicas == 0
    await site.ends(row, NOW, NOW + HOUR - 20)
    await site.keep(NOW + HOUR - 19)
    assert [each.id for each in await site.rows()] == [new.id]
    ended = await site.store.table(EndpointReplicaTable).get("ada", row.id)
    assert ended.overlap == 40.0
    (version,) = await site.store.table(EndpointVersionTable).of_endpoint("embed")
    assert version.failures == 0


async def test_a_successor_is_launched_beyond_the_owners_limit_but_not_more(site: Site) -> None:
    await site.first(most=9)
    site.gateway.demand(in_flight=70)
    await site.keep(NOW + 20)
    assert len(await site.rows()) == 2, "two replicas of a user is the limit"
    assert "The limit is 2" in await site.problem()
    first, second = await site.rows()
    await site.begins(second, NOW + 21, "42")
    await site.keep(NOW + HOUR - 30)
    assert {each.successor_of for each in await site.rows()} == {"", first.id, second.id}


async def test_a_program_that_dies_again_and_again_is_given_up(site: Site) -> None:
    await site.endpoint(least=1)
    now = NOW
    for number in range(3):
        now += 700
        await site.keep(now)
        (row,) = await site.rows()
        await site.ends(row, now, now + 5, f"4{number}")
        await site.keep(now + 6)
        assert await site.rows() == [], "a pause comes first"
    now += 10_000
    await site.keep(now)
    assert await site.rows() == []
    assert await site.problem() == (
        "Version 1 was given up: 3 replicas in a row failed. The last one: The program died."
    )
    versions = site.store.table(EndpointVersionTable)
    await versions.change("embed", 1, failures=0, problem="")
    await site.keep(now + 2)
    assert len(await site.rows()) == 1 and await site.problem() == ""


async def test_a_version_that_fails_replaces_nothing(site: Site) -> None:
    row = await site.first()
    await site.version()
    await site.store.table(EndpointTable).change("embed", shares={"2": 100})
    await site.store.table(EndpointVersionTable).change("embed", 2, failures=3, problem="No.")
    await site.keep(NOW + 30)
    await site.keep(NOW + 32)
    assert [each.id for each in await site.rows()] == [row.id]
    (replica,) = site.gateway.routes()["embed"]["replicas"]
    assert replica["id"] == row.id and replica["weight"] > 0
    assert "Version 2 was given up" in await site.problem()


async def test_a_lost_node_is_no_failure_of_the_version(site: Site) -> None:
    row = await site.first()
    ready = (await site.rows())[0].ready_at or 0.0
    await site.ends(row, NOW, ready + 601)
    await site.keep(ready + 602)
    (new,) = await site.rows()
    assert new.id != row.id
    (version,) = await site.store.table(EndpointVersionTable).of_endpoint("embed")
    assert version.failures == 0


async def test_a_budget_that_is_used_up_ends_nothing_and_is_told(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """What answers goes on; its successor is refused, and asked for at growing intervals."""
    row = await site.first()
    await site.store.table(EndpointReplicaTable).change("ada", row.id, loaded=10.0)
    words = "The budget of account 'lab' is used up. It is renewed on 2026-10-01."
    hub = FakeHub(refusal=NotAllowed(words))
    reconciler = Reconciler(site.store, hub, LOG)
    begin, end = int(NOW + HOUR - 89), int(NOW + HOUR)
    for now in range(begin, end, 2):
        await site.keep(now)
        await reconciler.reconcile(now)
    old, new = await site.rows()
    assert (old.id, old.draining_at, new.successor_of) == (row.id, None, row.id)
    assert 2 <= len(hub.asked) <= 6, "89 seconds, and pauses of 5, 10, 20, 40"
    assert await site.problem() == words and words in caplog.text
    assert [each["id"] for each in site.gateway.routes()["embed"]["replicas"]] == [row.id]
    await site.ends(row, NOW, end)
    await site.keep(end + 1)
    told = site.gateway.routes()["embed"]
    assert told["replicas"] == [] and told["expected"] is None, "nobody knows when it is renewed"
    for now in range(end, end + 3600, 15):
        await site.keep(now)
        await reconciler.reconcile(now)
    assert [each.id for each in await site.rows()] == [new.id], "no other one is recorded"
    assert len(hub.asked) < 20
    hub.refusal = None
    for now in (end + 4300, end + 4302):
        await reconciler.reconcile(now)
        await site.keep(now)
    assert await site.problem() == ""
    assert site.gateway.routes()["embed"]["expected"] is not None


async def test_an_endpoint_whose_owner_left_is_stopped_and_admins_are_told(site: Site) -> None:
    row = await site.first()
    site.gateway.demand(in_flight=1)
    hub, noted = FakeHub(strangers={"ada"}), list[AuditEntry]()

    async def note(entry: AuditEntry) -> None:
        noted.append(entry)

    def owners() -> Owners:
        return Owners(site.store, hub, note, lambda: None, LOG)

    first = owners()
    await first.ask_hub(NOW + 20)
    assert first.gone == {"ada"}
    site.gone = {*first.gone}
    await site.keep(NOW + 21)
    assert [each.draining_at for each in await site.rows()] == [NOW + 21], "requests may end"
    words = "It was stopped: its owner ada may no longer sign in."
    assert await site.problem() == words
    site.gateway.demand(waiting=5)
    await site.keep(NOW + 23)
    await site.keep(NOW + 900)
    assert (await site.sets())[row.id].replicas == 0
    assert [each.id for each in await site.rows()] == [row.id], "none is launched"
    (entry,) = noted
    assert (entry.action, entry.target, entry.owner, entry.detail) == (
        "stop-endpoint", "endpoint embed", "ada", words,
    )  # fmt: skip
    again = owners()  # after a restart of the service
    await again.ask_hub(NOW + 1000)
    assert again.gone == {"ada"} and len(noted) == 1
    hub.away = True
    with pytest.raises(HubUnavailable):
        await again.ask_hub(NOW + 1300)
    assert again.gone == {"ada"}, "what was known holds"
    hub.away, hub.strangers = False, set()
    await again.ask_hub(NOW + 1600)
    site.gone = {*again.gone}
    await site.ends(row, NOW, NOW + 1600)
    await site.keep(NOW + 1601)
    await site.keep(NOW + 1603)
    assert await site.problem() == "" and len(await site.rows()) == 1


async def test_ten_owners_scale_at_once_and_each_has_its_own_limit(site: Site) -> None:
    names = [f"owner{number}" for number in range(10)]
    table, versions = (site.store.table(each) for each in (EndpointTable, EndpointVersionTable))
    for name in names:
        await table.add_endpoint(
            Endpoint(name=name, user=name, created_at=NOW, most=3, target=1, shares={"1": 100})
        )
        await versions.add_version(
            EndpointVersion(
                endpoint=name, number=0, created_at=NOW, environment="lab", command=("app",)
            )
        )
    site.gateway.said = {name: {"in_flight": 0, "waiting": 30} for name in names}
    hub = FakeHub()
    reconciler = Reconciler(site.store, hub, LOG)
    for now in (NOW, NOW + 2, NOW + 4):
        await site.keep(now)
        await reconciler.reconcile(now)
    rows = await site.rows()
    assert Counter(row.user for row in rows) == dict.fromkeys(names, 2)
    for name in names:
        assert "The limit is 2" in (await table.get(name)).problem
        assert site.gateway.routes()[name]["expected"] > NOW
    # The cluster is full: one of them gets a job, and the others are expected when Slurm says.
    first = next(row for row in rows if row.user == names[3])
    await site.begins(first, NOW + 5)
    others = [row for row in rows if row.user != names[3]]
    for number, row in enumerate(others):
        await site.waits(row, NOW + 5, str(100 + number))
    jobs = [Job(id=str(100 + number), start_time=NOW + 900 + number) for number in range(18)]
    site.view.snapshot = snapshot(NODE, Job(id="41", end_time=NOW + HOUR), *jobs)
    await site.answers(first, NOW + 8)
    for at in (8, 10, 12):
        await site.keep(NOW + at)
    told = site.gateway.routes()
    assert [len(told[name]["replicas"]) for name in names] == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert told[names[3]]["expected"] is None
    for name in set(names) - {names[3]}:
        starts = [900 + n for n, row in enumerate(others) if row.user == name]
        assert told[name]["expected"] >= NOW + min(starts)
    assert len(await site.rows()) == 20


async def test_a_program_that_answers_no_more_is_replaced(site: Site) -> None:
    row = await site.first()
    table, at = site.store.table(EndpointReplicaTable), NOW + 100
    await table.change("ada", row.id, loaded=20.0)
    await table.change("ada", row.id, answered_at=None, ready_at=None)  # as its replica reports
    await site.keep(at)
    assert site.gateway.routes()["embed"]["replicas"] == [], "no new traffic"
    await site.keep(at + 49)
    assert [each.draining_at for each in await site.rows()] == [None], "it may begin again"
    await site.keep(at + 51)
    await site.keep(at + 60)
    old, new = await site.rows()
    assert (old.id, old.draining_at, new.draining_at) == (row.id, at + 51, None)
    (version,) = await site.store.table(EndpointVersionTable).of_endpoint("embed")
    assert (version.failures, version.problem) == (
        1, "The program of its replica answered no more.",
    )  # fmt: skip


async def test_a_program_that_answers_again_is_tried_again(site: Site) -> None:
    row = await site.first()
    table = site.store.table(EndpointReplicaTable)
    await table.change("ada", row.id, loaded=20.0)
    await table.change("ada", row.id, answered_at=None, ready_at=None)
    await site.keep(NOW + 20)
    await table.change("ada", row.id, answered_at=NOW + 30)
    await site.keep(NOW + 31)
    await site.keep(NOW + 33)
    assert len(site.gateway.tried) == 2
    (replica,) = site.gateway.routes()["embed"]["replicas"]
    assert replica["id"] == row.id and not replica["draining"]
    await table.change("ada", row.id, answered_at=None, ready_at=None)
    await site.keep(NOW + 2000)
    assert [each.draining_at for each in await site.rows()] == [None], "it is silent anew"


async def test_it_sleeps_without_requests_and_wakes_by_one(site: Site) -> None:
    await site.endpoint(idle=60)
    site.gateway.demand()
    await site.keep(NOW)
    assert await site.rows() == []
    site.gateway.demand(waiting=50)
    await site.keep(NOW + 30)
    (row,) = await site.rows()
    assert site.keeper.changed.is_set()
    await site.keep(NOW + 30)
    assert site.gateway.routes()["embed"]["expected"] == NOW + 30 + 600 + 300, "by guesses"
    await site.begins(row, NOW + 40)
    await site.answers(row, NOW + 50)
    for at in (50, 52):
        await site.keep(NOW + at)
    site.gateway.demand(requests=51)
    await site.keep(NOW + 60)
    await site.keep(NOW + 119)
    assert (await site.rows())[0].draining_at is None, "not before the idle time is over"
    await site.keep(NOW + 120)
    assert (await site.rows())[0].draining_at == NOW + 120


async def test_without_the_gateway_the_number_stays(site: Site) -> None:
    await site.first(least=0, idle=60)
    site.gateway.said = None
    await site.keep(NOW + 900)
    assert [row.draining_at for row in await site.rows()] == [None]


async def test_a_deleted_endpoint_leaves_no_replica(site: Site) -> None:
    row = await site.first()
    await site.store.table(EndpointTable).remove("embed")
    await site.keep(NOW + 30)
    assert (await site.sets())[row.id].replicas == 0
    assert await site.rows() == [] and site.gateway.routes() == {}


async def test_a_restarted_service_goes_on(site: Site) -> None:
    row = await site.first()
    before = site.gateway.routes()
    site.begin_service()
    site.view, view = None, site.view
    await site.keep(NOW + 30)
    assert site.gateway.routes() == before, "Slurm's nodes are not known yet"
    site.view = view
    await site.keep(NOW + 32)
    assert [each.id for each in await site.rows()] == [row.id]
    assert site.gateway.routes() == before


async def test_without_a_certificate_nothing_is_launched(site: Site) -> None:
    (site.gateway.directory / CERTIFICATE).unlink()
    await site.endpoint(least=1)
    await site.keep(NOW)
    assert await site.rows() == [] and "does not run yet" in await site.problem()


async def test_the_owner_hears_once_that_a_successor_still_waits(
    store: Store, tmp_path: Path
) -> None:
    ensure_identity(tmp_path)
    inbox = Inbox()
    with mail_server(inbox) as port:
        notices = Notices(store=store, **mail_settings(port))
        site = Site(store, PlayedGateway(tmp_path), notices)
        row = await site.first()
        await site.store.table(EndpointReplicaTable).change("ada", row.id, loaded=10.0)
        await site.keep(NOW + HOUR - 89)
        _, new = await site.rows()
        await site.waits(new, NOW + HOUR - 88, "42")
        await site.keep(NOW + HOUR - 80)
        assert inbox.mails == []
        for _ in range(2):
            await site.keep(NOW + HOUR - 60)
            site.begin_service()
    (mail,) = inbox.mails
    assert mail["To"] == "ada@example.org"
    assert mail["Subject"] == "Your endpoint 'embed' may pause in 1 min"
