"""Resources: what a session asks Slurm for, in the words of ``user_options``."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, StringConstraints, field_validator

from . import Frozen

MEMORY = r"^[1-9][0-9]{0,6}(M|G|T)$"
TIME = r"^([0-9]{1,3}-)?[0-9]{1,3}:[0-5][0-9]:[0-5][0-9]$"
SLURM_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}$"  # no leading dash: never an option

SlurmName = Annotated[str, StringConstraints(pattern=SLURM_NAME)]


class Resources(Frozen):
    """What a session asks for. None or 0 leaves the choice to the site's and Slurm's defaults.

    ``memory`` is per node, "4G"; ``time`` is "H:MM:SS" or "D-HH:MM:SS"; ``gpus`` counts per node.
    """

    gpus: Annotated[int, Field(ge=0, le=4096, strict=True)] = 0
    gpu_type: SlurmName | None = None
    cpus: Annotated[int, Field(ge=1, le=65536, strict=True)] | None = None
    memory: Annotated[str, StringConstraints(pattern=MEMORY)] | None = None
    time: Annotated[str, StringConstraints(pattern=TIME)] | None = None
    partition: SlurmName | None = None
    account: SlurmName | None = None
    qos: SlurmName | None = None
    reservation: SlurmName | None = None
    nodes: Annotated[int, Field(ge=1, le=4096, strict=True)] = 1

    @field_validator("time")
    @classmethod
    def _not_zero(cls, value: str | None) -> str | None:
        # sbatch(1): a time of zero asks for no limit at all.
        if value is not None and time_seconds(value) < 60:
            raise ValueError("a time shorter than a minute")
        return value


def memory_mib(text: str) -> int:
    """MiB of "512M", "4G" or "1T". Raises ValueError for anything else."""
    if not re.fullmatch(MEMORY, text):
        raise ValueError(f"{text!r} is not a memory size such as '4G'")
    return int(text[:-1]) * {"M": 1, "G": 1024, "T": 1024 * 1024}[text[-1]]


def time_seconds(text: str) -> int:
    """Seconds of "2:00:00" or "1-00:00:00". Raises ValueError for anything else."""
    if not re.fullmatch(TIME, text):
        raise ValueError(f"{text!r} is not a time such as '2:00:00'")
    days, _, clock = text.rpartition("-")
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def time_text(seconds: int) -> str:
    """ "H:MM:SS" of a number of seconds."""
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
