"""What runs of a replica set, and what should, whatever the Hub answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fake_hub import FakeHub
from launch_lookup import PlayedLookup
from session_records import recorded

from portal.errors import Conflict, HubUnavailable, InvalidRequest, NotAllowed, NotFound
from portal.launch.kinds import KINDS, add_kinds, requested_kind, reserved_for
from portal.launch.kinds.kind import LaunchFacts
from portal.launch.request import Asked
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.session.replica_set import ReplicaSet
from portal.models.session.session import SessionState
from portal.store import Store
from portal.work.replicas.kind import ReplicaKind
from portal.work.replicas.reconciler import Reconciler, pause
from portal.work.replicas.tables import ReplicaSetTable

NOW = time.time()
ID = "5e2f3c1a0b7d4c8e9a6f"
SET = ReplicaSet(
    user="ada", id=ID, work="workers", options={"gpus": 1}, replicas=2, created_at=NOW - 100
)


class Workers(ReplicaKind):
    name = "workers"
    title = "a worker"
    option = "workers"
    prefix = "workers"

    queue: str = ""


def server(number: int) -> str:
    return f"workers-5e2f3c1a0b7d4c8e-{number}"


@pytest.fixture(autouse=True)
def _kinds() -> Iterator[None]:
    own = list(KINDS)
    add_kinds(Workers)
    yield
    KINDS[:] = own


@pytest.fixture
async def hub(store: Store) -> FakeHub:
    await store.table(ReplicaSetTable).save(SET, 10)
    return FakeHub()


@pytest.fixture
def reconciler(store: Store, hub: FakeHub) -> Reconciler:
    return Reconciler(store, hub, logging.getLogger("portal-test"))


async def runs(store: Store, number: int, **more: Any) -> None:
    """Record a session of this replica, which runs."""
    state = {"state": SessionState.RUNNING, "submitted_at": NOW - 50, "started_at": NOW - 40}
    values = {**state, "user": "ada", "server": server(number), "work": "workers", **more}
    await store.sessions.save(recorded(**{"id": f"{number}", **values}))


async def ended(store: Store, number: int, lasted: float, at: float = NOW) -> None:
    about = {"state": SessionState.ENDED, "started_at": at - lasted, "ended_at": at}
    await runs(store, number, submitted_at=at - lasted, **about)


async def problem(store: Store) -> str:
    return (await store.table(ReplicaSetTable).get("ada", ID)).problem


async def test_the_missing_are_launched_with_the_sets_options(
    reconciler: Reconciler, hub: FakeHub, store: Store
) -> None:
    await runs(store, 1)
    await reconciler.reconcile(NOW)
    options = {"gpus": 1, "workers": {"id": ID, "number": 0}}
    assert hub.begun == [("ada", server(0), options)]
    assert hub.stopped == []
    kind = requested_kind(options)
    assert isinstance(kind, Workers) and kind.own_server() == server(0)
    assert kind.own() == {"workers": {"id": ID, "number": 0, "queue": ""}}
    assert reserved_for(server(0)) == (Workers, "")


async def test_what_runs_is_left_alone(reconciler: Reconciler, hub: FakeHub, store: Store) -> None:
    await runs(store, 0)
    await runs(store, 1, state=SessionState.PENDING)
    await reconciler.reconcile(NOW)
    assert (hub.begun, hub.stopped) == ([], [])


async def test_the_surplus_is_stopped(reconciler: Reconciler, hub: FakeHub, store: Store) -> None:
    for number in (0, 1, 7):
        await runs(store, number)
    await store.table(ReplicaSetTable).save(SET.model_copy(update={"replicas": 1}), 10)
    await reconciler.reconcile(NOW)
    stopped = [(user, name, reason.code.value) for user, name, reason in hub.stopped]
    assert stopped == [("ada", server(1), "surplus"), ("ada", server(7), "surplus")]
    assert hub.begun == []


async def test_a_set_of_none_is_deleted_when_its_last_session_has_ended(
    reconciler: Reconciler, hub: FakeHub, store: Store
) -> None:
    await runs(store, 0)
    await store.table(ReplicaSetTable).save(SET.model_copy(update={"replicas": 0}), 10)
    await reconciler.reconcile(NOW)
    assert await problem(store) == ""
    await ended(store, 0, 100)
    await reconciler.reconcile(NOW)
    with pytest.raises(NotFound):
        await problem(store)


@pytest.mark.parametrize(
    ("lasted", "launched"),
    [(3600.0, True), (10.0, False)],  # an end is no failure; a crash is
)
async def test_one_that_ends_at_once_waits_before_it_is_launched_again(
    reconciler: Reconciler, hub: FakeHub, store: Store, lasted: float, launched: bool
) -> None:
    await runs(store, 1)
    await ended(store, 0, lasted)
    await reconciler.reconcile(NOW + 1)
    assert bool(hub.begun) is launched
    await reconciler.reconcile(NOW + 1 + pause(1))
    assert hub.begun


async def test_the_pause_grows_with_each_failure() -> None:
    assert [pause(number) for number in (1, 2, 3, 8, 50)] == [5, 10, 20, 600, 600]


async def test_a_refusal_is_said_and_not_asked_for_at_once_again(
    reconciler: Reconciler, hub: FakeHub, store: Store
) -> None:
    hub.refusal = NotAllowed("You may not use 'lab'.")
    await runs(store, 1)
    await reconciler.reconcile(NOW)
    await reconciler.reconcile(NOW + 4)
    assert len(hub.asked) == 1 and await problem(store) == "You may not use 'lab'."
    hub.refusal = None
    await reconciler.reconcile(NOW + 6)
    assert len(hub.asked) == 2 and await problem(store) == ""


@pytest.mark.parametrize(
    ("answer", "said"),
    [(HubUnavailable("The Hub does not answer."), "The Hub does not answer."), (Conflict("x"), "")],
)
async def test_what_is_not_known_is_asked_again_at_once(
    reconciler: Reconciler, hub: FakeHub, store: Store, answer: Exception, said: str
) -> None:
    hub.refusal = answer
    await runs(store, 1)
    await reconciler.reconcile(NOW)
    await reconciler.reconcile(NOW + 1)
    assert len(hub.asked) == 2 and await problem(store) == said


async def test_a_set_of_a_kind_that_is_gone_says_so(
    reconciler: Reconciler, hub: FakeHub, store: Store
) -> None:
    KINDS.remove(Workers)
    await reconciler.reconcile(NOW)
    assert hub.begun == [] and await problem(store) == "This site no longer has 'workers'."


async def test_one_set_does_not_stop_those_of_others(
    reconciler: Reconciler, hub: FakeHub, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    await store.table(ReplicaSetTable).save(SET.model_copy(update={"user": "eve"}), 10)
    begin = hub.begin_server

    async def fails(user: str, server: str, options: Any) -> None:
        if user == "ada":
            raise RuntimeError("no such thing")
        await begin(user, server, options)

    hub.begin_server = fails  # type: ignore[method-assign]
    await reconciler.reconcile(NOW)
    assert [user for user, _, _ in hub.begun] == ["eve", "eve"]
    assert f"Replica set {ID} of ada" in caplog.text


async def test_a_user_has_at_most_so_many_replicas(store: Store, hub: FakeHub) -> None:
    second = SET.model_copy(update={"id": "6e2f3c1a", "replicas": 3})
    with pytest.raises(NotAllowed, match=r"sets have 2 replicas; .* have 5\. The limit is 4"):
        await store.table(ReplicaSetTable).save(second, 4)
    with pytest.raises(NotFound):
        await store.table(ReplicaSetTable).get("ada", "6e2f3c1a")
    changed = SET.model_copy(update={"replicas": 4, "created_at": NOW})
    saved = await store.table(ReplicaSetTable).save(changed, 4)
    assert (saved.replicas, saved.created_at) == (4, SET.created_at)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("x", "'workers' must be an object with 'course', 'id', 'number', 'project', 'queue'"),
        ({"id": ID, "space": {"name": "dl101"}}, "must be an object with"),
        ({"id": "x"}, "The 'id' of a replica set must be a text of 8 to 40 characters"),
        (
            {"id": ID, "number": 100},
            "'number' of a replica set must be a whole number from 0 to 99",
        ),
        ({"id": ID, "number": "1"}, "The 'number' of a replica set"),
        ({"id": ID, "course": "../x"}, "'course' must be the name of a course"),
    ],
)
def test_wrong_options_are_refused_in_words(asked: Any, sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=sentence):
        requested_kind({"workers": asked})


def test_in_a_course_it_is_in_the_courses_space() -> None:
    kind = requested_kind({"workers": {"id": ID, "course": "dl101"}})
    assert kind.space_name == "dl101" and kind.isolated
    assert kind.own()["workers"]["course"] == "dl101"


@pytest.mark.parametrize(
    ("row", "number", "allowed"),
    [
        (SET, 1, True),
        (SET, 2, False),  # more than the set has
        (None, 0, False),  # launched without a set, and so without its limit
        (SET.model_copy(update={"work": "others"}), 0, False),
    ],
)
async def test_the_hub_launches_only_what_a_set_has(
    row: ReplicaSet | None, number: int, allowed: bool
) -> None:
    lab = Environment(name="lab", title="Lab", kind="venv", path="/opt/lab")
    asked = Asked.parse({"workers": {"id": ID, "number": number}})
    hub = PlayedLookup(lab, record=row)
    placing = asked.kind.place(asked, hub, LaunchFacts(ClusterSnapshot(taken_at=NOW), None))
    if allowed:
        assert list((await placing).environments) == ["lab"]
    else:
        with pytest.raises(NotAllowed, match="has not recorded this replica"):
            await placing
