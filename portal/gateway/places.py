"""Places of requests at replicas: which replica takes the next one, and who waits for one."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass, field

from .errors import Refused
from .latencies import Latencies
from .routes import Model, Replica

_ASIDE = 30.0  # seconds, at most, for which a replica that failed comes last
_SUCCESSOR = 15.0  # seconds for which a request whose replica failed waits for another one
_RETRY_AFTER = 10.0  # seconds, where nobody knows when a replica will be there


@dataclass
class Place:
    """Replica with what it does now and has done since the gateway's start."""

    replica: Replica
    in_flight: int = 0
    requests: int = 0
    errors: int = 0
    in_a_row: int = 0
    aside_until: float = 0.0
    last_failure: str = ""
    last_failure_at: float = 0.0
    latencies: Latencies = field(default_factory=Latencies)

    def fail(self, words: str) -> None:
        """Note a failure: for some seconds, other replicas come first."""
        self.errors += 1
        self.in_a_row += 1
        self.aside_until = time.monotonic() + min(_ASIDE, 2.0 ** min(self.in_a_row, 10))
        self.last_failure, self.last_failure_at = words, time.time()

    def succeed(self) -> None:
        """Note an answer."""
        self.in_a_row, self.aside_until = 0, 0.0


@dataclass(eq=False)
class _Waiting:
    future: asyncio.Future[Place]
    but: Collection[str]


class Served:
    """Model with its places, and the requests that wait for one."""

    def __init__(self, name: str, model: Model) -> None:
        self.name, self.model = name, model
        self.places: dict[str, Place] = {}
        self.waiting: deque[_Waiting] = deque()
        self.requests = self.errors = self.tokens = 0
        self.statuses: Counter[int] = Counter()
        self.latencies = Latencies()
        self.apply(model)

    def apply(self, model: Model) -> None:
        """Take what the service says now; requests that wait go to new replicas at once."""
        self.model = model
        places = {}
        for replica in model.replicas:
            place = self.places.get(replica.id)
            if place is None or place.replica.certificate != replica.certificate:
                place = Place(replica)
            place.replica = replica
            places[replica.id] = place
        self.places = places
        self.serve_waiting()

    @property
    def usable(self) -> bool:
        """True if there is a replica that takes new requests, though it may be full."""
        return any(_takes(place) for place in self.places.values())

    def choose(self, but: Collection[str]) -> Place | None:
        """Return the least loaded replica of a version that is drawn by weight; None if all are
        full, draining or in ``but``. Those that failed a moment ago come last."""
        most = self.model.limits.in_flight
        free = [
            place
            for id, place in self.places.items()
            if _takes(place) and place.in_flight < most and id not in but
        ]
        now = time.monotonic()
        free = [place for place in free if place.aside_until <= now] or free
        if not free:
            return None
        weights = [place.replica.weight for place in free]
        (drawn,) = random.choices(free, weights)  # noqa: S311 - no secret
        same = [place for place in free if place.replica.version == drawn.replica.version]
        random.shuffle(same)  # equally loaded ones take turns
        return min(same, key=lambda place: (place.in_flight + 1) / place.replica.weight)

    def serve_waiting(self) -> None:
        """Give places to the requests that have waited longest."""
        for waiting in list(self.waiting):
            if waiting.future.done():
                self.waiting.remove(waiting)
            elif (place := self.choose(waiting.but)) is not None:
                self.waiting.remove(waiting)
                place.in_flight += 1
                waiting.future.set_result(place)

    def release(self, place: Place) -> None:
        """Give a place back."""
        place.in_flight -= 1
        self.serve_waiting()


class Places:
    """Places of all models. ``on_wait`` is called when a request begins to wait at a model
    without a replica."""

    def __init__(self, on_wait: Callable[[str], None]) -> None:
        self._on_wait = on_wait
        self.models: dict[str, Served] = {}
        self.written_at = 0.0

    def apply(self, models: Mapping[str, Model], written_at: float = 0.0) -> None:
        """Take what the service wrote at that time (Unix seconds). Requests that wait at a removed
        model are refused."""
        self.written_at = written_at
        for name in self.models.keys() - models.keys():
            for waiting in self.models.pop(name).waiting:
                if not waiting.future.done():
                    waiting.future.set_exception(Refused(404, f"Model '{name}' has been removed."))
        for name, model in models.items():
            if name in self.models:
                self.models[name].apply(model)
            else:
                self.models[name] = Served(name, model)

    @contextlib.asynccontextmanager
    async def taken(self, served: Served, but: Collection[str]) -> AsyncIterator[Place]:
        """Hold a place at a replica that is not in ``but``; wait for it if need be.

        Raises Refused if too many requests wait, or none is there in time.
        """
        place = None if served.waiting else served.choose(but)
        if place is not None:
            place.in_flight += 1
        else:
            place = await self._wait(served, but)
        try:
            yield place
        finally:
            served.release(place)

    async def _wait(self, served: Served, but: Collection[str]) -> Place:
        limits, sleeps = served.model.limits, not served.usable
        if len(served.waiting) >= limits.waiting:
            words = f"Too many requests wait for model '{served.name}'. Try again in a moment."
            raise Refused(503, words, _RETRY_AFTER)
        waiting = _Waiting(asyncio.get_running_loop().create_future(), but)
        served.waiting.append(waiting)
        if sleeps:
            self._on_wait(served.name)
        served.serve_waiting()
        place: Place | None = None
        try:
            async with asyncio.timeout(min(limits.wake, _SUCCESSOR) if but else limits.wake):
                place = await waiting.future
        except TimeoutError:
            raise _nobody_came(served) from None
        finally:
            if waiting in served.waiting:
                served.waiting.remove(waiting)
            # A place may be given in the moment in which the caller leaves.
            if place is None and _was_given(waiting.future):
                served.release(waiting.future.result())
        return place


def _was_given(future: asyncio.Future[Place]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def _takes(place: Place) -> bool:
    return not place.replica.draining and place.replica.weight > 0


def _nobody_came(served: Served) -> Refused:
    expected = served.model.expected
    left = expected - time.time() if expected is not None else 0.0
    if expected is not None and left > 0:
        at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(expected))
        words = f"is expected to answer at {at}. Try again then."
        return Refused(503, f"Model '{served.name}' {words}", left)
    full = "is busy" if served.usable else "is not running now; its start was requested"
    return Refused(503, f"Model '{served.name}' {full}. Try again in a moment.", _RETRY_AFTER)
