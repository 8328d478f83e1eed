"""Metrics of endpoints and of their gateway for Prometheus; without their names, which users
choose."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any, get_args

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from portal.gateway.latencies import BOUNDS
from portal.store import Store

from .bodies import EndpointState
from .details import endpoint_state, states_of
from .figures import counts_of
from .gateway import Gateway, GatewayState
from .tables import EndpointReplicaTable, EndpointTable

_COUNTERS = {
    "requests": "Requests that the gateway has forwarded.",
    "errors": "Requests that replicas failed.",
    "tokens": "Tokens that programs say they made.",
}


class EndpointMetrics:
    """Metrics of all endpoints together. The counters are sums over models, which come and go, so
    only what a model's own grew by is added."""

    def __init__(self, store: Store, gateway: Gateway) -> None:
        self._store, self._gateway = store, gateway
        self._began = 0.0
        self._last: dict[str, Counter[Any]] = {}
        self._total: Counter[Any] = Counter()

    async def collect(self) -> AsyncIterator[Metric]:
        """Yield the metrics; none of a gateway that is not offered. Raises StoreUnavailable."""
        if not self._gateway.offered:
            return
        state = await self._gateway.state()
        yield GaugeMetricFamily(
            "portal_gateway_up",
            "Whether the gateway of endpoints answers.",
            value=float(state is not None),
        )
        if state is not None:
            for metric in self._of_gateway(state):
                yield metric
        endpoints = await self._store.table(EndpointTable).every()
        replicas = states_of(await self._store.table(EndpointReplicaTable).living())
        number = Counter(endpoint_state(each, replicas[each.name]) for each in endpoints)
        family = GaugeMetricFamily("portal_endpoints", "Endpoints by state.", labels=("state",))
        for name in get_args(EndpointState):
            family.add_metric([name], number[name])
        yield family

    def _of_gateway(self, state: GatewayState) -> list[Metric]:
        self._add(state)
        found: list[Metric] = []
        for name, text in (("in_flight", "are at a replica"), ("waiting", "wait for a replica")):
            waiting = sum(int(model.get(name) or 0) for model in state.models.values())
            found.append(
                GaugeMetricFamily(
                    f"portal_gateway_requests_{name}", f"Requests that {text}.", value=waiting
                )
            )
        for name, text in _COUNTERS.items():
            found.append(
                CounterMetricFamily(f"portal_gateway_{name}", text, value=self._total[name])
            )
        refusals = CounterMetricFamily(
            "portal_gateway_refusals", "Requests that the gateway refused.", labels=("status",)
        )
        for status, refused in state.refusals.items():
            refusals.add_metric([status], refused)
        found.append(refusals)
        buckets, total = [], 0
        for index, bound in enumerate((*map(str, BOUNDS), "+Inf")):
            total += self._total[index]
            buckets.append((bound, total))
        found.append(
            HistogramMetricFamily(
                "portal_gateway_request_seconds",
                "Time of answered requests, from their place at a replica.",
                buckets=buckets,
                sum_value=self._total["sum"],
            )
        )
        return found

    def _add(self, state: GatewayState) -> None:
        if state.began != self._began:
            self._began, self._last = state.began, {}
        new = {name: _counts(model) for name, model in state.models.items()}
        for name, counts in new.items():
            before = self._last.get(name, Counter())
            fell = counts["requests"] < before["requests"]  # it was away, and begins anew
            self._total.update(counts if fell else counts - before)
        self._last = new


def _counts(model: Mapping[str, Any]) -> Counter[Any]:
    """Return a model's counters by name, and its answers by the index of their bound."""
    latency = model.get("latency") or {}
    counts: Any = Counter({name: int(model.get(name) or 0) for name in _COUNTERS})
    counts.update(dict(enumerate(counts_of(latency))))
    counts["sum"] = float(latency.get("sum") or 0.0)
    return counts
