"""The question to Prometheus about an exporter's metrics, and what its answer means. Pure.

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

_PART = "portal_part"  # the label that says which part of the question a sample answers

_MOST_MEMORY = 4 * 1024 * 1024  # MiB. DCGM's "no value" is near 2**63; it must not pass for memory
_UUID = re.compile(r"[A-Za-z0-9/_-]{0,96}")
_INDEX = re.compile(r"(?:nvidia)?([0-9]{1,4})")
_HOST = re.compile(r"\[(.+)\](?::[0-9]+)?|([^:]+)(?::[0-9]+)?|(.+)")


def times_of(exporter: Exporter) -> dict[str, str]:
    """The parts of the question that ask for times, by Prometheus's clock, and their metrics."""
    return {f"time of {name}": name for name in (exporter.utilization, exporter.used)}


def metrics_of(exporter: Exporter) -> tuple[str, ...]:
    """The metrics that the question asks for."""
    names = (exporter.utilization, exporter.engine, exporter.used, exporter.free)
    return tuple(name for name in names if name)


def query(exporter: Exporter, labels: Iterable[str]) -> str:
    """PromQL for times and metrics of ``exporter`` in one question, which Prometheus answers as of
    one moment: of several, some would be from before a scrape and some from after it. The times are
    asked for because Prometheus gives what is up to five minutes old, and does not say so.

    ``labels`` are kept; whatever else the exporter adds (the model, a job, a container) would make
    the answer long, and one GPU several series.
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
    """One sample: its labels, then the moment of evaluation and the value."""

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
    """The samples of an instant query's answer. Raises ValueError for anything else."""
    try:
        return _ANSWER.validate_json(answer)["data"]["result"]
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "all of it"
        raise ValueError(f"{where}: {first['msg']}") from None


class Nodes:
    """Which Slurm node a label means."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._named: dict[str, Node | None] = {}
        for node in snapshot.nodes.values():
            address = node.address.lower()
            # Where nodes share an address (a demo), it names none of them.
            self._named[address] = None if address in self._named else node
        self._named.update({node.name.lower(): node for node in snapshot.nodes.values()})
        self._found: dict[str, Node | None] = {}

    def find(self, text: str) -> Node | None:
        """The node of "gpu01", "gpu01.example.org", "10.0.0.7:9400" or "[fd00::7]:9400"."""
        if text not in self._found:
            match = _HOST.fullmatch(text.lower())
            host = next(part for part in match.groups() if part) if match else ""
            self._found[text] = self._named.get(host) or self._named.get(host.partition(".")[0])
        return self._found[text]


class Ages:
    """Ages of the newest samples of each series, in seconds, and of each GPU. ``timed``: the
    metrics whose times are asked for."""

    def __init__(self, timed: Collection[str]) -> None:
        self._timed = timed
        self.gpus: dict[Gpu, tuple[float, str]] = {}  # with the UUID that goes with it
        self._series: dict[tuple[str, Series], float] = {}

    def add(self, metric: str, series: Series, gpu: Gpu, age: float, uuid: str) -> None:
        key = (metric, series)
        self._series[key] = min(age, self._series.get(key, math.inf))
        if gpu not in self.gpus or age < self.gpus[gpu][0]:
            self.gpus[gpu] = (age, uuid)

    def of(self, metric: str, series: Series) -> float:
        """A metric without a time of its own is as old as its scrape."""
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
    """A reading for each GPU of the snapshot's nodes of which Prometheus knows something.

    ``answer`` is the answer to ``query`` of this ``exporter``; ``now`` is this machine's clock
    (Unix seconds). A sample that is older than ``max_age`` seconds is none. Raises ValueError for
    an answer that is none.
    """
    times, metrics = times_of(exporter), metrics_of(exporter)
    nodes, ages = Nodes(snapshot), Ages(times.values())
    found: dict[str, dict[int, Parts]] = {}
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
            # Prometheus's clock on both sides: this machine's may differ.
            age, uuid = max(0.0, evaluated - value), labels.get(exporter.uuid_label, "")
            ages.add(times[name], series, (node.name, index), age, uuid)
        elif name in metrics and ages.of(name, series) <= max_age:
            parts = found.setdefault(node.name, {}).setdefault(index, {})
            values = parts.setdefault(part, {})
            # The same GPU twice (two exporters, two jobs that share it): the larger of both.
            values[name] = max(value, values.get(name, -math.inf))
    return {
        (name, index): _reading(exporter, name, index, parts, now, *ages.gpus[name, index])
        for name, gpus in found.items()
        for index, parts in _sure(gpus, snapshot.nodes[name]).items()
    }


def _sure(gpus: dict[int, Parts], node: Node) -> dict[int, Parts]:
    """The GPUs whose index, as the exporter counts, is Slurm's index.

    Slurm may count each MIG instance as a GPU, and then its numbers are not the exporter's.
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
        mig=mig,
    )


def _utilization(exporter: Exporter, values: Mapping[str, float]) -> float | None:
    """Percent, of the first metric that has one that can be; else None."""
    share = values.get(exporter.engine, math.nan)
    for percent in (values.get(exporter.utilization), 100 * share):
        if percent is not None and 0 <= percent <= 100:  # false for NaN
            return round(percent, 1)
    return None


def _memory(value: float | None) -> int | None:
    """MiB; None for what cannot be."""
    return int(value) if value is not None and 0 <= value <= _MOST_MEMORY else None


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
