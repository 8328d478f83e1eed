"""Use of GPUs and memory by a run over time: the mean and the spread of its jobs. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from portal.models import Frozen
from portal.models.cluster.job_use import JobUse, Values

_MOST = 120  # stretches
_MINUTE = 60


class Spread(Frozen):
    """Values of the jobs at each moment: their mean, and their 10th and 90th percentile, which are
    the lowest and the highest value of up to five jobs."""

    mean: Values = ()
    low: Values = ()
    high: Values = ()


class RunUse(Frozen):
    """Use of a run over equal stretches of ``seconds`` from ``began_at`` (Unix seconds) on, at most
    120: what each of its ``jobs`` that was measured in a stretch used, as in their own use.
    ``sources`` are those of the readings, separated by commas. ``last_at`` is 0 if nothing was
    measured."""

    began_at: int = 0
    seconds: int = _MINUTE
    last_at: float = 0.0
    jobs: int = 0
    sources: str = ""
    gpu: Spread = Spread()
    gpu_memory: Spread = Spread()
    memory: Spread = Spread()


def run_use(uses: Sequence[JobUse]) -> RunUse:
    """Return the use of a run from that of its jobs, which may have several parts each."""
    if not uses:
        return RunUse()
    began_at, last_at = min(use.began_at for use in uses), max(use.last_at for use in uses)
    minutes = math.ceil((last_at - began_at) / _MINUTE / _MOST)
    seconds = _MINUTE * max(1, minutes)
    count = max(1, math.ceil((last_at - began_at) / seconds))

    def spread(values_of: Callable[[JobUse], Values]) -> Spread:
        jobs = {use.job_id: [[0.0, 0] for _ in range(count)] for use in uses}
        for use in uses:
            sums = jobs[use.job_id]
            for index, value in enumerate(values_of(use)):
                if value is None:
                    continue
                start = use.began_at + index * use.seconds - began_at
                end = start + use.seconds
                # A stretch has what begins in it, and goes on in it.
                for at in range(start // seconds, min(count, math.ceil(end / seconds))):
                    sums[at][0] += value
                    sums[at][1] += 1
        stretches = [
            sorted(total / number for total, number in column if number)
            for column in zip(*jobs.values(), strict=True)
        ]
        return Spread(
            mean=tuple(round(sum(all_) / len(all_)) if all_ else None for all_ in stretches),
            low=tuple(_percentile(all_, 0.1) for all_ in stretches),
            high=tuple(_percentile(all_, 0.9) for all_ in stretches),
        )

    return RunUse(
        began_at=began_at,
        seconds=seconds,
        last_at=last_at,
        jobs=len({use.job_id for use in uses}),
        sources=",".join(sorted({name for use in uses for name in use.sources.split(",") if name})),
        gpu=spread(lambda use: use.gpu),
        gpu_memory=spread(lambda use: use.gpu_memory),
        memory=spread(lambda use: use.memory),
    )


def _percentile(values: Sequence[float], share: float) -> int | None:
    """Return the value that this share of the sorted ``values`` lie below; None without any."""
    return round(values[round(share * (len(values) - 1))]) if values else None
