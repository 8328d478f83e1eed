"""The question to Prometheus about the DCGM exporter's metrics, and what its answer means. Pure.

Metrics and labels: github.com/NVIDIA/dcgm-exporter, etc/default-counters.csv and
internal/pkg/rendermetrics. Prometheus's answers: prometheus.io, "HTTP API", instant queries.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from ..models.cluster import ClusterSnapshot, Node
from ..models.gpu import GpuReading
from .held import Gpu

SOURCE = "dcgm"
UTILIZATION = "DCGM_FI_DEV_GPU_UTIL"  # percent; not there, or 0, for MIG instances
ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"  # share, 0 to 1: where the exporter has no percent
USED = "DCGM_FI_DEV_FB_USED"  # MiB
FREE = "DCGM_FI_DEV_FB_FREE"  # MiB
METRICS = (UTILIZATION, ENGINE, USED, FREE)
TIMES = {f"time of {name}": name for name in (UTILIZATION, USED)}  # by Prometheus's clock
_PART = "portal_part"  # the label that says which part of the question a sample answers

_MOST_MEMORY = 4 * 1024 * 1024  # MiB. DCGM's "no value" is near 2**63; it must not pass for memory
_UUID = re.compile(r"[A-Za-z0-9/_-]{0,96}")
_INDEX = re.compile(r"(?:nvidia)?([0-9]{1,4})")
_HOST = re.compile(r"\[(.+)\](?::[0-9]+)?|([^:]+)(?::[0-9]+)?|(.+)")


def query(labels: Iterable[str]) -> str:
    """PromQL for the TIMES and the METRICS in one question, which Prometheus answers as of one
    moment: of several, some would be from before a scrape and some from after it. The times are
    asked for because Prometheus gives what is up to five minutes old, and does not say so.

    ``labels`` are kept; whatever else the exporter adds (the model, a job, a container) would make
    the answer long, and one GPU several series.
    """
    by = ", ".join(sorted({*labels, "instance", "GPU_I_ID"}))
    parts = {
        **{time: f"max by ({by}, UUID) (timestamp({name}))" for time, name in TIMES.items()},
        **{name: f"max by ({by}) ({name})" for name in METRICS},
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
    """How old the newest samples of each series are, in seconds, and of each GPU."""

    def __init__(self) -> None:
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
            known = min(self._series.get((name, series), math.inf) for name in TIMES.values())
        return known


Series = tuple[str, str, str, str]  # node, instance, index and MIG instance, as the labels say
Parts = dict[str, dict[str, float]]  # of a GPU: its MIG instances ("": itself) -> metric -> value


def readings(
    answer: bytes,
    snapshot: ClusterSnapshot,
    now: float,
    max_age: float,
    *,
    node_label: str,
    index_label: str,
) -> dict[Gpu, GpuReading]:
    """A reading for each GPU of the snapshot's nodes of which Prometheus knows something.

    ``answer`` is the answer to ``query``; ``now`` is this machine's clock (Unix seconds). A sample
    that is older than ``max_age`` seconds is none. Raises ValueError for an answer that is none.
    """
    nodes, ages = Nodes(snapshot), Ages()
    found: dict[str, dict[int, Parts]] = {}
    rows = sorted(vector(answer), key=lambda row: row["metric"].get(_PART) not in TIMES)
    for row in rows:  # the times first: they say which values count
        labels, (evaluated, value) = row["metric"], row["value"]
        name = labels.get(_PART, "")
        host, number = labels.get(node_label, ""), labels.get(index_label, "")
        instance, part = labels.get("instance", ""), labels.get("GPU_I_ID", "")
        node, match = nodes.find(host or instance), _INDEX.fullmatch(number)
        if node is None or match is None or not math.isfinite(value):
            continue
        index, series = int(match[1]), (host, instance, number, part)
        if name in TIMES:
            # Prometheus's clock on both sides: this machine's may differ.
            age, uuid = max(0.0, evaluated - value), labels.get("UUID", "")
            ages.add(TIMES[name], series, (node.name, index), age, uuid)
        elif name in METRICS and ages.of(name, series) <= max_age:
            parts = found.setdefault(node.name, {}).setdefault(index, {})
            values = parts.setdefault(part, {})
            # The same GPU twice (two exporters, two jobs that share it): the larger of both.
            values[name] = max(value, values.get(name, -math.inf))
    return {
        (name, index): _reading(name, index, parts, now, *ages.gpus[name, index])
        for name, gpus in found.items()
        for index, parts in _sure(gpus, snapshot.nodes[name]).items()
    }


def _sure(gpus: dict[int, Parts], node: Node) -> dict[int, Parts]:
    """The GPUs whose DCGM index is Slurm's index.

    Slurm may count each MIG instance as a GPU, and then its numbers are not the exporter's.
    """
    count = sum(pool.count for pool in node.gpus)
    if any(set(parts) != {""} for parts in gpus.values()) and len(gpus) != count:
        return {}
    return {index: parts for index, parts in gpus.items() if index < count}


def _reading(node: str, index: int, parts: Parts, now: float, age: float, uuid: str) -> GpuReading:
    mig = set(parts) != {""}
    whole = parts.get("", {})
    # In MIG mode the memory is in the instances, unless the exporter also has the GPU's own.
    holders = [whole] if whole.keys() & {USED, FREE} else list(parts.values())
    used = [_memory(values.get(USED)) for values in holders]
    free = [_memory(values.get(FREE)) for values in holders]
    return GpuReading(
        node=node,
        index=index,
        at=now - age,
        source=SOURCE,
        uuid=uuid if _UUID.fullmatch(uuid) else "",
        utilization=None if mig else _utilization(whole),
        memory_used=_sum(used),
        memory_total=_sum(used + free),
        mig=mig,
    )


def _utilization(values: Mapping[str, float]) -> float | None:
    """Percent, of the first metric that has one that can be; else None."""
    for percent in (values.get(UTILIZATION), 100 * values.get(ENGINE, math.nan)):
        if percent is not None and 0 <= percent <= 100:  # false for NaN
            return round(percent, 1)
    return None


def _memory(value: float | None) -> int | None:
    """MiB; None for what cannot be."""
    return int(value) if value is not None and 0 <= value <= _MOST_MEMORY else None


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
