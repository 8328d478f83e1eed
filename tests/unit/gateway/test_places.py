"""Places at replicas: choice, waiting, release."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import pytest

from portal.gateway.errors import Refused
from portal.gateway.places import Places, Served
from portal.gateway.routes import Limits, Model, Replica


def model(*replicas: Replica, **limits: Any) -> Model:
    return Model(owner="ada", replicas=replicas, limits=Limits(**limits))


def replica(id: str, **more: Any) -> Replica:
    return Replica(id=id, address="n:1", certificate=id, **more)


def test_versions_share_by_weight_and_replicas_of_one_by_load() -> None:
    served = Served("m", model(replica("a", weight=80, version=1), replica("b", weight=20)))
    drawn = Counter(place.replica.id for place in (served.choose(()) for _ in range(2000)) if place)
    assert 300 < drawn["b"] < 500
    served = Served("m", model(replica("a"), replica("b")))
    served.places["a"].in_flight = 3
    assert {served.choose(()).replica.id for _ in range(50)} == {"b"}  # type: ignore[union-attr]


def test_draining_full_weightless_and_failed_ones_are_not_chosen() -> None:
    some = replica("a", draining=True), replica("b", weight=0), replica("c"), replica("d")
    served = Served("m", model(*some, in_flight=1))
    served.places["c"].in_flight = 1
    assert served.choose(()) is served.places["d"]
    assert served.choose({"d"}) is None
    served.places["c"].in_flight = 0
    served.places["d"].fail("it is gone")
    assert {served.choose(()).replica.id for _ in range(20)} == {"c"}  # type: ignore[union-attr]
    assert served.choose({"c"}) is served.places["d"]  # better than none


async def test_a_place_given_to_a_caller_who_has_left_is_given_back() -> None:
    places = Places(lambda name: None)
    places.apply({"m": model(replica("a"), in_flight=1)})
    served = places.models["m"]
    async with places.taken(served, ()):
        waiting = asyncio.create_task(places._wait(served, ()))
        await asyncio.sleep(0)
        assert len(served.waiting) == 1
    waiting.cancel()  # in the moment in which the place is given
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert served.places["a"].in_flight == 0 and not served.waiting


async def test_those_who_wait_are_served_in_order_and_bounded() -> None:
    woken: list[str] = []
    places = Places(woken.append)
    places.apply({"m": model(waiting=2, wake=5)})
    served = places.models["m"]
    order: list[int] = []

    async def ask(number: int) -> None:
        async with places.taken(served, ()):
            order.append(number)

    tasks = [asyncio.create_task(ask(number)) for number in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Refused, match="Too many requests wait"):
        await ask(2)
    assert woken == ["m", "m"]
    places.apply({"m": model(replica("a"), waiting=2, in_flight=1)})
    await asyncio.gather(*tasks)
    assert order == [0, 1]


async def test_a_removed_model_refuses_those_who_wait() -> None:
    places = Places(lambda name: None)
    places.apply({"m": model()})
    task = asyncio.create_task(places._wait(places.models["m"], ()))
    await asyncio.sleep(0)
    places.apply({})
    with pytest.raises(Refused) as refused:
        await task
    assert refused.value.status == 404


async def test_nobody_comes() -> None:
    places = Places(lambda name: None)
    expected = model(wake=0).model_copy(update={"expected": time.time() + 60})
    places.apply({"m": expected})
    with pytest.raises(Refused, match="is expected to answer at") as refused:
        await places._wait(places.models["m"], ())
    assert refused.value.status == 503 and 55 < (refused.value.retry_after or 0) <= 60
