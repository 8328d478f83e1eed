"""Suggestions for the resources of the next launch: pure, and careful.

Only what was measured long enough counts, and never less is suggested than the environment's own
default. More is suggested only for a session that ended for lack of it.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from portal.errors import InvalidRequest
from portal.launch.limits.limits import environment_limits
from portal.launch.request import Asked, option_keys
from portal.models import Frozen
from portal.models.catalog.environment import Environment, refusals_of
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.cluster.gpu_share import share_of, slice_of
from portal.models.session.resources import Memory, time_text
from portal.models.session.session import SessionRecord, SessionState
from portal.models.words import duration

from .efficiency import Efficiency, Source

_LONG_ENOUGH = 600.0  # minimum length of a session for a suggestion, in seconds
_MEASURED = 0.5  # minimum measured share of its GPU time
_LITTLE = 0.5  # GPUs: at most this share of them busy on average
_MARGIN = 1.5  # factor on a peak, and on a time
_MIB_OF_A_GB = 10**9 / 2**20  # MIG names slices in GB
_GPU_MEMORY_MARGIN = 1.2  # factor on a peak: a slice that is too small ends a training
_WORTH_IT = 0.75  # of what was requested: less is worth a suggestion
_GIB_STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_HOUR_STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 36, 48, 72, 96, 120, 168, 336, 720)


class Suggestion(Frozen):
    """Suggestion for the next launch. ``options`` are its complete ``user_options``, ``changes``
    those that differ from the last launch (None: omitted), ``words`` a sentence for each."""

    options: dict[str, Any]
    changes: dict[str, Any]
    words: tuple[str, ...]


def suggestion_for(
    record: SessionRecord,
    efficiency: Efficiency,
    environment: Environment | None,
    longest: int | None = None,
    slices: Collection[str] = (),
) -> Suggestion | None:
    """Suggest resources that fit better than those of this ended session; None: no suggestion.

    ``environment`` is the catalog's for the session's owner now (None: no longer offered), and
    ``longest`` the longest time that the session's partition allows, in seconds; ``slices`` are
    the cluster's types of MIG slices.
    """
    if environment is None or record.state is not SessionState.ENDED:
        return None
    changes: dict[str, Any] = {}
    words: list[str] = []
    for change in (
        _slice(record, efficiency, environment, slices) or _gpus(record, efficiency, environment),
        _memory(record, efficiency, environment),
        _time(record, efficiency, environment, longest),
    ):
        if change is not None:
            changes |= change[0]
            words.append(change[1])
    if not changes:
        return None
    options = {
        key: value
        for key, value in {**record.again, **changes}.items()
        if value is not None and key != "environment"
    }
    if not options.keys() <= set(option_keys()):
        return None  # the launch page has no such choice
    try:
        asked = Asked.parse(options).resources
    except InvalidRequest:
        return None  # options of an older version
    if environment_limits(asked, environment):
        return None
    return Suggestion(
        options={"environment": environment.name, **options}, changes=changes, words=tuple(words)
    )


def hint_for(record: SessionRecord, efficiency: Efficiency, environment: Environment | None) -> str:
    """Return a sentence on what a running session could do without the next time; "" if there is
    nothing to say yet. Its time is not considered before its end."""
    if environment is None or record.state is not SessionState.RUNNING:
        return ""
    changes = (_gpus(record, efficiency, environment), _memory(record, efficiency, environment))
    words = " ".join(change[1] for change in changes if change is not None)
    return f"Until now: {words[0].lower()}{words[1:]}" if words else ""


_Change = tuple[dict[str, Any], str] | None


def _gpus(record: SessionRecord, measured: Efficiency, environment: Environment) -> _Change:
    had, share = record.options.get("gpus"), measured.gpu_busy_share
    if not isinstance(had, int) or had < 1 or record.options.get("nodes", 1) != 1 or share is None:
        return None
    if (measured.time_used or 0) < _LONG_ENOUGH or (measured.gpu_measured_share or 0) < _MEASURED:
        return None
    if share > _LITTLE:
        return None
    # Sums do not show bursts: four GPUs that were busy for a quarter of the time look like one. So
    # the words say "on average", and the person decides.
    in_use = share * had
    enough = max(math.ceil(in_use - 0.05), environment.default.gpus)
    if enough >= had:
        return None
    source = _source_words(measured.gpu_source)
    advice = f"{enough} GPU{'' if enough == 1 else 's'} may be enough"
    if enough == 0:
        advice = "a session without GPUs may be enough"
    sentence = f"On average {_number(in_use)} of {had} GPU{'' if had == 1 else 's'} "
    sentence += f"{'were' if in_use != 1 else 'was'} busy{source}: {advice}."
    return {"gpus": enough, **({} if enough else {"gpu_type": None})}, sentence


_known_slices: tuple[object, frozenset[str]] = (None, frozenset())  # of the last answer of Slurm


def slices_of(snapshot: ClusterSnapshot | None) -> frozenset[str]:
    """Return the types of MIG slices on nodes that take jobs, computed once for each answer."""
    global _known_slices
    if snapshot is None:
        return frozenset()
    if _known_slices[0] is not snapshot.nodes:
        nodes = (node for node in snapshot.nodes.values() if node.usable)
        types = {pool.type for node in nodes for pool in node.gpus if pool.count}
        _known_slices = snapshot.nodes, frozenset(name for name in types if slice_of(name))
    return _known_slices[1]


def _slice(
    record: SessionRecord, measured: Efficiency, environment: Environment, slices: Collection[str]
) -> _Change:
    """Suggest the smallest slice for what one GPU did: its share of the processors and the memory
    must have been enough, and both must be known."""
    had, kind = record.options.get("gpus"), record.options.get("gpu_type")
    share, peak = measured.gpu_busy_share, measured.gpu_memory_peak
    if not isinstance(had, int) or had < 1 or record.options.get("nodes", 1) != 1:
        return None
    if share is None or not peak or share_of(kind):
        return None
    if (measured.time_used or 0) < _LONG_ENOUGH or (measured.gpu_measured_share or 0) < _MEASURED:
        return None
    in_use = share * had
    if in_use <= 0.05 and environment.default.gpus == 0:  # then no GPU is suggested
        return None
    before, refused = slice_of(kind), refusals_of(environment)
    fitting = []
    for name in slices:
        part = slice_of(name)
        if part is None or name in refused or name not in (environment.gpu_types or (name,)):
            continue
        enough = peak * _GPU_MEMORY_MARGIN <= part.memory * _MIB_OF_A_GB
        smaller = had > 1 or before is None or part < before
        if enough and in_use <= part.sevenths / 7 and smaller:
            fitting.append((part, name))
    if not fitting:
        return None
    part, name = min(fitting)
    what = f"{had} GPUs were" if had > 1 else "The GPU was"
    sentence = (
        f"{what} busy {in_use * 100 / had:.0f} % of the time{_source_words(measured.gpu_source)} "
        f"and held at most {_words(peak)} (as reported by the session): a slice "
        f"{name} with {part.memory} GB may be enough."
    )
    changes: dict[str, Any] = {"gpus": 1, "gpu_type": name}
    if "partition" in record.again:
        changes["partition"] = None  # the slice's own
    return changes, sentence


def _memory(record: SessionRecord, measured: Efficiency, environment: Environment) -> _Change:
    asked, peak = measured.memory_asked, measured.memory_peak
    if asked is None:
        return None
    if record.ending_code == "out_of_memory":
        more = _gib(max(peak or 0, asked) * _MARGIN)
        if environment.max_memory and more is not None:
            more = min(more, environment.max_memory)
        if more is None or more <= asked:
            return None
        return {"memory": str(Memory(more))}, (
            f"The session ran out of its {_words(asked)} of memory: request {_words(more)}."
        )
    if peak is None or (measured.time_used or 0) < _LONG_ENOUGH:
        return None
    less = _gib(peak * _MARGIN)
    if less is not None and environment.default.memory:
        less = max(less, environment.default.memory)
    if less is None or less > asked * _WORTH_IT:
        return None
    source = _source_words(measured.memory_source)
    return {"memory": str(Memory(less))}, (
        f"The session used at most {_words(peak)} of its {_words(asked)} of memory{source}: "
        f"{_words(less)} should be enough."
    )


def _time(
    record: SessionRecord, measured: Efficiency, environment: Environment, longest: int | None
) -> _Change:
    asked, used = measured.time_asked, measured.time_used
    if asked is None or used is None:
        return None
    if record.ending_code == "walltime":
        had = measured.time_limit or asked
        limits = [longest] if longest is not None else []
        if environment.max_time is not None:
            limits.append(environment.max_time)
        more = min([_hours(had * _MARGIN) or 0, *limits])
        if more <= asked:
            return None
        return {"time": time_text(more)}, (
            f"The session reached its time limit of {duration(had)}: request {duration(more)}."
        )
    if used < _LONG_ENOUGH or record.ending_code not in ("completed", "stopped"):
        return None  # a session on a failed node does not show how much time was needed
    less = _hours(used * _MARGIN)
    if less is None or less > asked * _LITTLE:
        return None
    return {"time": time_text(less)}, (
        f"The session ran for {duration(used)} of {duration(asked)}: a session of "
        f"{duration(less)} may start sooner."
    )


def _gib(mib: float) -> int | None:
    """Round MiB up to the next usual size; None above the largest."""
    return next((step * 1024 for step in _GIB_STEPS if step * 1024 >= mib), None)


def _hours(seconds: float) -> int | None:
    return next((step * 3600 for step in _HOUR_STEPS if step * 3600 >= seconds), None)


def _words(mib: int) -> str:
    if mib < 1024:
        return f"{mib} MB"
    return f"{mib // 1024} GB" if mib % 1024 == 0 else f"{mib / 1024:.1f} GB"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _source_words(source: Source | None) -> str:
    words = {
        Source.SESSION: " (as reported by the session)",
        Source.SIMULATED: " (simulated)",
    }
    return words.get(source, "") if source else ""
