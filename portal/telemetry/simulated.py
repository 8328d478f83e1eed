"""Simulated readings for a demo without GPUs: plausible, and the same for the same moment. A job
with the word "idle" or "busy" in its name is just that (a session's includes its environment's).

Simulated readings are marked: each one's source is "simulated", and pages show it.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from hashlib import blake2b

from ..models.cluster.cluster import ClusterSnapshot, Job, Node
from ..models.cluster.gpu import GpuReading
from .gpu_holders import Gpu, held
from .settings import TelemetrySettings

SOURCE = "simulated"
IDLE = 0.25  # share of jobs that hold GPUs and do nothing with them
BURSTS = 0.35  # share that works now and then, as a person at a notebook does
_STEP = 20  # seconds for which a GPU's figures stay; each GPU changes at its own moment
_MEMORY = {"v100": 32768, "a100": 81920, "h100": 81559, "h200": 143771, "l40s": 46068}  # MiB
_OTHER_MEMORY = 24576
_IDLE_POWER, _FULL_POWER = 45, 290  # watts


class Simulated:
    """Source of simulated readings."""

    title = "The simulation"
    simulated = True
    pause = 0.0

    def __init__(self, settings: TelemetrySettings) -> None:
        pass

    async def readings(self, snapshot: ClusterSnapshot, max_age: int) -> dict[Gpu, GpuReading]:
        return await asyncio.to_thread(simulated, snapshot, time.time())


def simulated(snapshot: ClusterSnapshot, at: float) -> dict[Gpu, GpuReading]:
    """Return a reading of each GPU that a job holds, at ``at`` (Unix seconds); of no other."""
    types = {name: _types(node) for name, node in snapshot.nodes.items()}
    return {
        gpu: _reading(gpu, job, types.get(gpu[0], {}).get(gpu[1], ""), at)
        for gpu, job in held(snapshot).items()
    }


def _types(node: Node) -> dict[int, str]:
    """Return the type of each GPU index: Slurm counts the GPUs of a node pool by pool."""
    kinds = [pool.type for pool in node.gpus for _ in range(pool.count)]
    return dict(enumerate(kinds))


def chance(*words: object) -> float:
    """Return a number from 0 to 1, always the same for the same words."""
    digest = blake2b(repr(words).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / 2**32


def _reading(gpu: Gpu, job: Job | None, kind: str, at: float) -> GpuReading:
    node, index = gpu
    name = f"{job.id}/{job.submit_time}" if job else f"{node}/{index}"
    character, pace, phase, size = (
        chance(word, name) for word in ("work", "pace", "phase", "size")
    )
    step = int(at / _STEP + chance("step", node, index))
    period = 400 + 1100 * pace  # seconds
    wave = math.sin(math.tau * (step * _STEP / period + phase))
    noise = chance("noise", node, index, step)
    words = re.split("[^a-z]+", job.name.lower()) if job else []
    if "idle" in words:
        character = 0.0
    elif "busy" in words:
        character = 1.0
    if character < IDLE:
        load, filled = 0.0, 0.02
    elif character < IDLE + BURSTS:
        load, filled = (45 + 35 * wave + 10 * noise if wave > 0 else 2 * noise), 0.35
    else:
        load, filled = 90 + 4 * wave + 5 * noise, 0.82
    total = _MEMORY.get(kind.lower(), _OTHER_MEMORY)
    return GpuReading(
        node=node,
        index=index,
        at=at,
        source=SOURCE,
        utilization=float(round(min(100.0, max(0.0, load)))),
        memory_used=int(total * (filled + 0.05 * size)),
        memory_total=total,
        power=float(round(_IDLE_POWER + load * (_FULL_POWER - _IDLE_POWER) / 100)),
    )
