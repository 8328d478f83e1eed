"""Use of GPUs and memory by a job over time."""

from __future__ import annotations

from collections.abc import Mapping

from .. import Frozen

Values = tuple[int | None, ...]  # None: not known


class JobUse(Frozen):
    """Means over equal stretches of ``seconds`` from ``began_at`` (Unix seconds) on.

    ``gpu`` is the utilisation of the job's GPUs in percent, ``gpu_memory`` that of all of them
    together and ``memory`` the host's, as far as the session itself reports it, in MiB.
    ``gpus``: the utilisation of each GPU of a job with several, by its node and Slurm's index there
    ("gpu01:0"); the first 32 of more. ``sources`` are those of the readings, separated by commas:
    "dcgm", "session", "simulated"…
    """

    job_id: str
    began_at: int
    seconds: int
    sources: str = ""
    gpu: Values = ()
    gpu_memory: Values = ()
    memory: Values = ()
    gpus: Mapping[str, Values] = {}
    last_at: float
