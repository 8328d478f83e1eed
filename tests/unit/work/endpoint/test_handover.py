"""Which replicas of an endpoint are launched, drained and retired."""

from __future__ import annotations

from typing import Any

import pytest

from portal.work.endpoint.keeping.handover import (
    MARGIN,
    SETTLE,
    Launch,
    Replica,
    ReplicaState,
    Steps,
    launch_at,
    percentile,
    steps,
)

NOW = 1_790_000_000.0
READY, LOADING, WAITING = ReplicaState.READY, ReplicaState.LOADING, ReplicaState.WAITING
DRAINING, ENDED = ReplicaState.DRAINING, ReplicaState.ENDED
LOAD, WAIT, LONGEST = 100.0, 40.0, 600.0
LEAD = LOAD + WAIT + MARGIN


def a_replica(id_: str = "a", state: ReplicaState = READY, **more: Any) -> Replica:
    """A replica in a job of three hours, of which one is left."""
    job = {} if state is WAITING else {"started_at": NOW - 7200, "ends_at": NOW + 3600}
    return Replica(id_, **{"version": 1, "state": state, "in_flight": 0, **job, **more})


def decided(*replicas: Replica, wanted: dict[int, int] | None = None, now: float = NOW) -> Steps:
    numbers = {1: 1} if wanted is None else wanted
    return steps(numbers, replicas, now, load=LOAD, wait=WAIT, longest=LONGEST)


def test_what_is_missing_is_launched_and_what_answers_is_left_alone() -> None:
    assert decided(wanted={1: 2}) == Steps(launch=(Launch(1), Launch(1)))
    assert decided(a_replica()) == Steps()
    assert decided(a_replica(state=LOADING), a_replica("b", WAITING), wanted={1: 2}) == Steps()


def test_the_successor_is_launched_by_load_time_and_wait_before_the_end() -> None:
    replica = a_replica()
    assert decided(replica, now=NOW + 3600 - LEAD - 1) == Steps()
    assert decided(replica, now=NOW + 3600 - LEAD) == Steps(launch=(Launch(1, "a"),))


def test_a_job_shorter_than_the_lead_gets_its_successor_in_its_middle() -> None:
    short = a_replica(started_at=NOW, ends_at=NOW + 120)
    assert launch_at(short, LOAD, WAIT) == NOW + 60
    assert launch_at(a_replica(state=WAITING), LOAD, WAIT) is None


@pytest.mark.parametrize("state", [WAITING, LOADING])
def test_one_successor_is_enough_and_nothing_drains_before_it_answers(state: ReplicaState) -> None:
    successor = a_replica("b", state, successor_of="a", ends_at=None)
    assert decided(a_replica(), successor, now=NOW + 3590) == Steps()


def test_the_old_one_drains_when_its_successor_answers() -> None:
    successor = a_replica("b", successor_of="a", ends_at=NOW + 9999)
    assert decided(a_replica(), successor) == Steps(drain=("a",))


def test_a_drained_one_is_retired_and_its_successor_counts() -> None:
    successor = a_replica("b", successor_of="a", ends_at=NOW + 9999)
    drains = a_replica(state=DRAINING, draining_at=NOW)
    assert decided(drains, successor, now=NOW + SETTLE - 1) == Steps()
    assert decided(drains, successor, now=NOW + SETTLE) == Steps(retire=("a",))


@pytest.mark.parametrize("in_flight", [3, None])
def test_requests_in_flight_or_unknown_are_waited_for_up_to_a_limit(in_flight: int | None) -> None:
    drains = a_replica(state=DRAINING, draining_at=NOW, in_flight=in_flight)
    successor = a_replica("b", ends_at=NOW + 9999)
    assert decided(drains, successor, now=NOW + LONGEST - 1) == Steps()
    assert decided(drains, successor, now=NOW + LONGEST) == Steps(retire=("a",))


def test_an_old_one_that_ended_early_is_not_launched_beside_its_successor() -> None:
    successor = a_replica("b", LOADING, successor_of="a", ends_at=NOW + 9999)
    assert decided(a_replica(state=ENDED), successor) == Steps(retire=("a",))


def test_one_that_ended_alone_is_replaced() -> None:
    assert decided(a_replica(state=ENDED)) == Steps(launch=(Launch(1),), retire=("a",))


def test_a_version_without_a_share_answers_until_the_new_one_does() -> None:
    old = a_replica()
    assert decided(old, wanted={2: 1}) == Steps(launch=(Launch(2),))
    new = a_replica("b", LOADING, version=2)
    assert decided(old, new, wanted={2: 1}) == Steps()
    assert decided(old, new._replace(state=READY), wanted={2: 1}) == Steps(drain=("a",))
    # Two of the new ones are wanted, so the old one helps until both answer.
    half = decided(old, new._replace(state=READY), wanted={2: 2})
    assert half == Steps(launch=(Launch(2),))


def test_an_old_version_that_does_not_answer_is_retired_at_once() -> None:
    assert decided(a_replica(state=WAITING), wanted={2: 1}).retire == ("a",)


def test_an_old_version_near_its_end_gets_no_successor() -> None:
    assert decided(a_replica(), wanted={2: 1}, now=NOW + 3590) == Steps(launch=(Launch(2),))


def test_fewer_replicas_retire_those_first_that_do_not_answer_then_the_oldest() -> None:
    waiting = a_replica("c", WAITING)
    later = a_replica("b", ends_at=NOW + 9999)
    assert decided(a_replica(), later, waiting, wanted={1: 2}) == Steps(retire=("c",))
    assert decided(a_replica(), later, wanted={1: 1}) == Steps(drain=("a",))


def test_none_wanted_ends_all_of_them_successors_too() -> None:
    successor = a_replica("b", WAITING, successor_of="a")
    assert decided(a_replica(), successor, wanted={}) == Steps(drain=("a",), retire=("b",))


def test_the_percentile_is_one_of_the_values() -> None:
    assert percentile([]) is None
    assert percentile([7.0]) == 7.0
    assert percentile([float(number) for number in range(1, 11)]) == 9.0
    assert percentile([5.0, 1.0, 3.0]) == 5.0
