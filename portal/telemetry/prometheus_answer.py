"""Query to Prometheus for an exporter's metrics, and the evaluation of its answer. Pure.

Prometheus's answers: prometheus.io, "HTTP API", instant queries.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from ..models.cluster.cluster import ClusterSnapshot, Node
from ..models.cluster.gpu import GpuReading
from .exporter import Exporter
from .gpu_holders import Gpu

_PART = "portal_part"  # label that says which part of the query a sample answers

_MOST_MEMORY = 4 * 1024 * 1024  # MiB. Excludes DCGM's "no value", which is near 2**63
_MOST_POWER = 10_000  # watts of a GPU; DCGM's "no value" is near 2**47
_UUID = re.compile(r"[A-Za-z0-9/_-]{0,96}")
_INDEX = re.compile(r"(?:nvidia)?([0-9]{1,4})")
_HOST = re.compile(r"\[(.+)\](?::[0-9]+)?|([^:]+)(?::[0-9]+)?|(.+)")


def times_of(exporter: Exporter) -> dict[str, str]:
    """Return the parts of the query for times, by Prometheus's clock, with their metrics."""
    return {f"time of {name}": name for name in (exporter.utilization, exporter.used)}


def metrics_of(exporter: Exporter) -> tuple[str, ...]:
    """Return the metrics of the query."""
    names = exporter.utilization, exporter.engine, exporter.used, exporter.free, exporter.power
    return tuple(name for name in names if name)


def query(exporter: Exporter, labels: Iterable[str]) -> str:
    """Build one PromQL query for times and metrics of ``exporter``, which Prometheus answers as of
    one moment: of several queries, some would be from before a scrape and some from after it. The
    times are needed because Prometheus returns samples up to five minutes old without saying so.

    ``labels`` are kept; other labels of the exporter (the model, a job, a container) would make
    the answer long, and split a GPU into several series.
    """
    by, uuid = ", ".join(sorted({*labels, "instance", *exporter.part_labels})), exporter.uuid_label
    times = times_of(exporter)
    parts = {
        **{time: f"max by ({by}, {uuid}) (timestamp({name}))" for time, name in times.items()},
        **{name: f"max by ({by}) ({name})" for name in metrics_of(exporter)},
    }
    return " or ".join(
        f'label_replace({part}, "{_PART}", "{name}", "instance", ".*")'
        for name, part in parts.items()
    )


class Row(TypedDict):
    """Sample: its labels, then the time of evaluation and the value."""

    metric: dict[str, str]
    value: tuple[float, float]  # Prometheus writes the second as text


class _Vector(TypedDict):
    resultType: Literal["vector"]
    result: list[Row]


class _Answer(TypedDict):
    status: Literal["success"]
    data: _Vector


_ANSWER = TypeAdapter(_Answer)


def vector(answer: bytes) -> list[Row]:
    """Parse the samples of an instant query's answer. Raises ValueError for anything else."""
    try:
        return _ANSWER.validate_json(answer)["data"]["result"]
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole answer"
        raise ValueError(f"{where}: {first['msg']}") from None


class Nodes:
    """Slurm nodes by the text of a label."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._named: dict[str, Node | None] = {}
        for node in snapshot.nodes.values():
            address = node.address.lower()
            # An address that several nodes share (in a demo) identifies none of them.
            self._named[address] = None if address in self._named else node
        self._named.update({node.name.lower(): node for node in snapshot.nodes.values()})
        self._found: dict[str, Node | None] = {}

    def find(self, text: str) -> Node | None:
        """Find the node of "gpu01", "gpu01.example.org", "10.0.0.7:9400" or "[fd00::7]:9400"."""
        if text not in self._found:
            match = _HOST.fullmatch(text.lower())
            host = next(part for part in match.groups() if part) if match else ""
            self._found[text] = self._named.get(host) or self._named.get(host.partition(".")[0])
        return self._found[text]


class Ages:
    """Ages of the newest samples of each series, in seconds, and of each GPU. ``timed``: metrics
    whose times are queried."""

    def __init__(self, timed: Collection[str]) -> None:
        self._timed = timed
        self.gpus: dict[Gpu, tuple[float, str]] = {}  # with the UUID that goes with it
        self._series: dict[tuple[str, Series], float] = {}

    def add_sample(self, metric: str, series: Series, gpu: Gpu, age: float, uuid: str) -> None:
        key = (metric, series)
        self._series[key] = min(age, self._series.get(key, math.inf))
        if gpu not in self.gpus or age < self.gpus[gpu][0]:
            self.gpus[gpu] = (age, uuid)

    def age_of(self, metric: str, series: Series) -> float:
        """Return the age of a metric's sample; without a time of its own, that of its scrape."""
        known = self._series.get((metric, series))
        if known is None:
            known = min(self._series.get((name, series), math.inf) for name in self._timed)
        return known


Series = tuple[str, str, str, str]  # node, instance, index and MIG instance, as the labels say
Parts = dict[str, dict[str, float]]  # of a GPU: its MIG instances ("": itself) -> metric -> value


def readings(
    exporter: Exporter,
    answer: bytes,
    snapshot: ClusterSnapshot,
    now: float,
    max_age: float,
    *,
    node_label: str,
    index_label: str,
) -> dict[Gpu, GpuReading]:
    """Return a reading for each GPU of the snapshot's nodes of which Prometheus knows something.

    ``answer`` is the answer to ``query`` of this ``exporter``; ``now`` is this machine's clock
    (Unix seconds). Samples older than ``max_age`` seconds are ignored. Raises ValueError for an
    invalid answer.
    """
    times, metrics = times_of(exporter), metrics_of(exporter)
    nodes, ages = Nodes(snapshot), Ages(times.values())
    by_node: dict[str, dict[int, Parts]] = {}
    rows = sorted(vector(answer), key=lambda row: row["metric"].get(_PART) not in times)
    for row in rows:  # the times first: they say which values count
        labels, (evaluated, value) = row["metric"], row["value"]
        name = labels.get(_PART, "")
        host, number = labels.get(node_label, ""), labels.get(index_label, "")
        instance, part = labels.get("instance", ""), exporter.part_of(labels)
        node, match = nodes.find(host or instance), _INDEX.fullmatch(number)
        if node is None or match is None or not math.isfinite(value):
            continue
        index, series = int(match[1]), (host, instance, number, part)
        if name in times:
            # Both times are by Prometheus's clock: this machine's may differ.
            age, uuid = max(0.0, evaluated - value), labels.get(exporter.uuid_label, "")
            ages.add_sample(times[name], series, (node.name, index), age, uuid)
        elif name in metrics and ages.age_of(name, series) <= max_age:
            parts = by_node.setdefault(node.name, {}).setdefault(index, {})
            values = parts.setdefault(part, {})
            # The same GPU twice (two exporters, two jobs that share it): the larger of both.
            values[name] = max(value, values.get(name, -math.inf))
    return {
        (name, index): _reading(exporter, name, index, parts, now, *ages.gpus[name, index])
        for name, gpus in by_node.items()
        for index, parts in _sure(gpus, snapshot.nodes[name]).items()
    }


def _sure(gpus: dict[int, Parts], node: Node) -> dict[int, Parts]:
    """Return the GPUs whose index, as the exporter counts, is Slurm's index.

    Slurm may count each MIG instance as a GPU, and then its indexes are not the exporter's.
    """
    count = sum(pool.count for pool in node.gpus)
    if any(set(parts) != {""} for parts in gpus.values()) and len(gpus) != count:
        return {}
    return {index: parts for index, parts in gpus.items() if index < count}


def _reading(
    exporter: Exporter,
    node: str,
    index: int,
    parts: Parts,
    now: float,
    age: float,
    uuid: str,
) -> GpuReading:
    mig = set(parts) != {""}
    whole = parts.get("", {})
    # In MIG mode the memory is in the instances, unless the exporter also has the GPU's own.
    memory = {exporter.used, exporter.free}
    holders = [whole] if whole.keys() & memory else list(parts.values())
    used = [_memory(values.get(exporter.used)) for values in holders]
    free = [_memory(values.get(exporter.free)) for values in holders]
    return GpuReading(
        node=node,
        index=index,
        at=now - age,
        source=exporter.name,
        uuid=uuid if _UUID.fullmatch(uuid) else "",
        utilization=None if mig else _utilization(exporter, whole),
        memory_used=_sum(used),
        memory_total=_sum(used + free),
        power=_power(whole.get(exporter.power)),
        mig=mig,
    )


def _utilization(exporter: Exporter, values: Mapping[str, float]) -> float | None:
    """Return the percentage of the first metric with a valid value; else None."""
    share = values.get(exporter.engine, math.nan)
    for percent in (values.get(exporter.utilization), 100 * share):
        if percent is not None and 0 <= percent <= 100:  # false for NaN
            return round(percent, 1)
    return None


def _power(value: float | None) -> float | None:
    """Return a valid value as watts; else None."""
    return round(value, 1) if value is not None and 0 <= value <= _MOST_POWER else None


def _memory(value: float | None) -> int | None:
    """Return a valid value as MiB; else None."""
    return int(value) if value is not None and 0 <= value <= _MOST_MEMORY else None


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
