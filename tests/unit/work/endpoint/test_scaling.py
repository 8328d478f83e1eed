"""How many replicas an endpoint has, and which part of the requests each gets."""

from __future__ import annotations

import pytest

from portal.work.endpoint.keeping.handover import Replica, ReplicaState
from portal.work.endpoint.keeping.routing import weights
from portal.work.endpoint.keeping.scaling import WINDOW, Bounds, Demand, Scale, distributed

NOW = 1_790_000_000.0
BOUNDS = Bounds(least=0, most=4, target=10, idle=600.0)
READY, LOADING = ReplicaState.READY, ReplicaState.LOADING


def settled(current: int, demand: Demand, bounds: Bounds = BOUNDS) -> int:
    """The number after a whole window of the same demand."""
    scale = Scale()
    scale.wanted(demand, current, bounds, NOW - WINDOW, NOW)
    return scale.wanted(demand, current, bounds, NOW, NOW)


def test_it_grows_at_once_up_to_the_owners_limit() -> None:
    assert Scale().wanted(Demand(15, 6), 1, BOUNDS, NOW, NOW) == 3
    assert Scale().wanted(Demand(500, 500), 1, BOUNDS, NOW, NOW) == 4


def test_a_waiting_request_wakes_it() -> None:
    assert Scale().wanted(Demand(0, 1), 0, BOUNDS, NOW, 0.0) == 1
    assert Scale().wanted(Demand(), 0, BOUNDS, NOW, 0.0) == 0


def test_it_shrinks_only_after_a_window_in_which_fewer_were_enough() -> None:
    scale = Scale()
    assert scale.wanted(Demand(30), 3, BOUNDS, NOW, NOW) == 3
    for second in range(1, int(WINDOW)):
        assert scale.wanted(Demand(4), 3, BOUNDS, NOW + second, NOW + second) == 3
    later = NOW + WINDOW + 1
    assert scale.wanted(Demand(4), 3, BOUNDS, later, later) == 1


def test_a_service_that_has_just_started_does_not_shrink_it() -> None:
    assert Scale().wanted(Demand(1), 3, BOUNDS, NOW, NOW) == 3


@pytest.mark.parametrize(("requests", "number"), [(16, 2), (17, 3), (20, 3), (24, 3)])
def test_demand_around_a_limit_does_not_make_it_swing(requests: int, number: int) -> None:
    """Two replicas take 20 requests; of three, the third goes once two have room to spare."""
    assert settled(3, Demand(requests)) == number
    assert settled(number, Demand(requests)) == number


def test_the_last_one_sleeps_after_its_idle_time() -> None:
    assert settled(1, Demand()) == 1
    assert Scale().wanted(Demand(), 1, BOUNDS, NOW, NOW - 599) == 1
    assert Scale().wanted(Demand(), 1, BOUNDS, NOW, NOW - 600) == 0
    awake = BOUNDS._replace(least=1)
    assert Scale().wanted(Demand(), 1, awake, NOW, NOW - 9999) == 1


def test_an_endpoint_in_use_never_sleeps() -> None:
    assert Scale().wanted(Demand(1), 1, BOUNDS, NOW, NOW - 9999) == 1


def test_without_the_gateway_the_number_stays_within_the_limits() -> None:
    assert Scale().wanted(None, 3, BOUNDS, NOW, 0.0) == 3
    assert Scale().wanted(None, 9, BOUNDS, NOW, 0.0) == 4
    assert Scale().wanted(None, 0, BOUNDS._replace(least=2), NOW, 0.0) == 2


@pytest.mark.parametrize(
    ("total", "shares", "numbers"),
    [
        (0, {1: 100}, {}),
        (3, {}, {}),
        (3, {1: 100, 2: 0}, {1: 3}),
        (10, {1: 90, 2: 10}, {1: 9, 2: 1}),
        (4, {1: 50, 2: 50}, {1: 2, 2: 2}),
        (1, {1: 95, 2: 5}, {1: 1, 2: 1}),  # each version answers
        (3, {1: 50, 2: 50}, {1: 1, 2: 2}),  # the newer one gets the odd replica
    ],
)
def test_replicas_are_distributed_by_share(
    total: int, shares: dict[int, int], numbers: dict[int, int]
) -> None:
    assert distributed(total, shares) == numbers


def a_replica(id_: str, version: int, state: ReplicaState = READY) -> Replica:
    return Replica(id_, version, state)


def test_a_share_is_divided_among_its_replicas() -> None:
    replicas = [a_replica("a", 1), a_replica("b", 1), a_replica("c", 2)]
    given = weights(replicas, {1: 90, 2: 10}, {1: 2, 2: 1})
    assert given == pytest.approx({"a": 4500, "b": 4500, "c": 1000})


def test_only_what_answers_gets_requests() -> None:
    replicas = [
        a_replica("a", 1),
        a_replica("b", 2, LOADING),
        a_replica("c", 1, ReplicaState.ENDED),
    ]
    replicas.append(a_replica("d", 1, ReplicaState.DRAINING))
    given = weights(replicas, {1: 50, 2: 50}, {1: 1, 2: 1})
    assert given == pytest.approx({"a": 10_000, "d": 0})


def test_the_former_version_stands_in_for_what_is_missing() -> None:
    old, new = [a_replica("a", 1), a_replica("b", 1)], a_replica("c", 2)
    loading = [*old, a_replica("c", 2, LOADING)]
    assert weights(loading, {2: 100}, {2: 4}) == pytest.approx({"a": 5000, "b": 5000})
    given = weights([*old, new], {2: 100}, {2: 4})
    assert given == pytest.approx({"a": 3750, "b": 3750, "c": 2500})


def test_a_former_version_gets_nothing_once_the_new_one_is_complete() -> None:
    given = weights([a_replica("a", 1), a_replica("c", 2)], {2: 100}, {2: 1})
    assert given == pytest.approx({"a": 0, "c": 10_000})
