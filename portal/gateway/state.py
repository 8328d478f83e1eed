"""State, changes and metrics of the gateway, told to the service on a Unix socket of its own."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from .callers import Callers
from .places import Place, Places, Served

SOCKET = "gateway.sock"
_POLL = 25.0  # seconds for which a question about changes is held
_KEPT = 1000  # models whose last change is remembered


class Changes:
    """Models at which a request began to wait without a replica, by the number of the change."""

    def __init__(self) -> None:
        self.now = 0
        self._last: dict[str, int] = {}
        self._event = asyncio.Event()

    def note(self, name: str) -> None:
        """Note that a request waits at a model without a replica."""
        self.now += 1
        self._last.pop(name, None)
        self._last[name] = self.now
        while len(self._last) > _KEPT:
            del self._last[next(iter(self._last))]
        self._event.set()
        self._event = asyncio.Event()

    async def since(self, number: int, patience: float) -> dict[str, Any]:
        """Return the models that changed after ``number``, at the latest after ``patience``; a
        number of an earlier gateway, which is higher than ours, is as good as none."""
        number = number if number <= self.now else 0
        if number == self.now:
            event = self._event
            try:
                async with asyncio.timeout(patience):
                    await event.wait()
            except TimeoutError:
                pass
        names = [name for name, at in self._last.items() if at > number]
        return {"now": self.now, "models": names}


class StateServer:
    """Server on the socket, which only the gateway's account can open."""

    def __init__(self, places: Places, callers: Callers, changes: Changes) -> None:
        self._places, self._callers, self._changes = places, callers, changes
        self._registry = CollectorRegistry()
        self._registry.register(_Metrics(places, callers))
        self._began = time.time()
        self._runner: web.ServerRunner | None = None

    async def start(self, directory: Path) -> None:
        """Listen in ``directory``. A gateway that is being replaced keeps its own socket, but its
        name is this one's from now on."""
        self._runner = web.ServerRunner(web.Server(self._handle, access_log=None))
        await self._runner.setup()
        new = directory / f".{SOCKET}.{os.getpid()}"
        new.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            await web.UnixSite(self._runner, str(new)).start()
        finally:
            os.umask(before)
        new.replace(directory / SOCKET)

    async def stop(self) -> None:
        """End all connections."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/state":
            return web.json_response(self.view())
        if request.path == "/changes":
            since = request.query.get("since", "0")
            number = int(since) if since.isdecimal() and len(since) < 16 else 0
            return web.json_response(await self._changes.since(number, _POLL))
        if request.path == "/metrics":
            body = generate_latest(self._registry)
            return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
        return web.json_response({"error": {"message": "Not here."}}, status=404)

    def view(self) -> dict[str, Any]:
        """Return what `/state` says."""
        models = {name: _model(served) for name, served in self._places.models.items()}
        return {
            "since": self._began,
            "changes": self._changes.now,
            "routes_written_at": self._places.written_at,
            "in_flight": self._callers.in_flight,
            "refusals": {str(status): n for status, n in self._callers.refusals.items()},
            "models": models,
        }


def _model(served: Served) -> dict[str, Any]:
    places = served.places.values()
    return {
        "in_flight": sum(place.in_flight for place in places),
        "waiting": len(served.waiting),
        "requests": served.requests,
        "errors": served.errors,
        "tokens": served.tokens,
        "latency": served.latencies.view(),
        "replicas": {place.replica.id: _place(place) for place in places},
    }


def _place(place: Place) -> dict[str, Any]:
    return {
        "in_flight": place.in_flight,
        "requests": place.requests,
        "errors": place.errors,
        "errors_in_a_row": place.in_a_row,
        "last_failure": place.last_failure,
        "last_failure_at": place.last_failure_at or None,
        "latency": place.latencies.view(),
    }


class _Metrics:
    """Numbers of the state for Prometheus, without names of replicas, which do not come again."""

    def __init__(self, places: Places, callers: Callers) -> None:
        self._places, self._callers = places, callers

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> Iterator[Any]:
        prefix, labels = "portal_gateway_", ["model"]
        in_flight = GaugeMetricFamily(
            prefix + "requests_in_flight", "Requests at replicas", labels=labels
        )
        waiting = GaugeMetricFamily(
            prefix + "requests_waiting", "Requests that wait for a replica", labels=labels
        )
        answers = CounterMetricFamily(
            prefix + "answers", "Answers of programs", labels=["model", "status"]
        )
        errors = CounterMetricFamily(
            prefix + "errors", "Requests that replicas failed", labels=labels
        )
        tokens = CounterMetricFamily(
            prefix + "tokens", "Tokens that programs say they made", labels=labels
        )
        latency = HistogramMetricFamily(
            prefix + "request_seconds", "Seconds of answered requests", labels=labels
        )
        for name, served in self._places.models.items():
            in_flight.add_metric([name], sum(place.in_flight for place in served.places.values()))
            waiting.add_metric([name], len(served.waiting))
            errors.add_metric([name], served.errors)
            tokens.add_metric([name], served.tokens)
            for status, number in served.statuses.items():
                answers.add_metric([name, str(status)], number)
            buckets = served.latencies.cumulative()
            latency.add_metric([name], buckets, sum_value=served.latencies.sum)
        refusals = CounterMetricFamily(
            prefix + "refusals", "Requests that the gateway refused", labels=["status"]
        )
        for status, number in self._callers.refusals.items():
            refusals.add_metric([str(status)], number)
        yield from (in_flight, waiting, answers, errors, tokens, latency, refusals)
