"""Resources that a session requests from Slurm.

Inside the portal memory is MiB, time is seconds, counts are integers. At its edges (forms, REST,
YAML, the databases) they are text, "16G" and "2:00:00": pydantic reads and writes that.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, GetCoreSchemaHandler, StringConstraints, field_validator
from pydantic_core import CoreSchema, core_schema

from .. import Frozen

_AMOUNT = "[1-9][0-9]{0,6}"
MEMORY = rf"^{_AMOUNT}(M|G|T)$"
MEMORY_TYPED = rf"{_AMOUNT} *[MGTmgt]([Ii]?[Bb])?"  # as users type it; also HTML's pattern
TIME = r"^([0-9]{1,3}-)?[0-9]{1,3}:[0-5][0-9]:[0-5][0-9]$"
SLURM_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}$"  # no leading dash: never an option

# Node features, all of which a node must have: the only form of sbatch(1) --constraint allowed.
FEATURES = r"^[A-Za-z0-9_][A-Za-z0-9_.:+-]{0,62}(&[A-Za-z0-9_][A-Za-z0-9_.:+-]{0,62}){0,7}$"

SlurmName = Annotated[str, StringConstraints(pattern=SLURM_NAME)]

_UNITS = {"M": 1, "G": 1024, "T": 1024 * 1024}
_A_DAY = 86_400
_MOST_HOURS = 999  # before the first colon, in TIME


def memory_mib(text: str) -> int:
    """Convert "512M", "4G" or "1T" to MiB. Raises ValueError for anything else."""
    if not re.fullmatch(MEMORY, text):
        raise ValueError(f"{text!r} is not a memory size such as '4G'")
    return int(text[:-1]) * _UNITS[text[-1]]


def memory_of_typed(text: str) -> str:
    """Return "16G" for "16 GiB"; text that is no memory size is returned unchanged."""
    return re.sub("[ IB]", "", text.upper()) if re.fullmatch(MEMORY_TYPED, text) else text


def time_seconds(text: str) -> int:
    """Convert "2:00:00" or "1-00:00:00" to seconds. Raises ValueError for anything else."""
    if not re.fullmatch(TIME, text):
        raise ValueError(f"{text!r} is not a time such as '2:00:00'")
    days, _, clock = text.rpartition("-")
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def time_text(seconds: int) -> str:
    """Format a number of seconds as "H:MM:SS"."""
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"


class _Quantity(int):
    """Number with a unit, which is text at the edges: in models, ``str()`` and f-strings.

    ``Memory("1024M")`` and ``Memory(1024)`` are equal; the text keeps its original spelling.
    """

    PATTERN: ClassVar[str]
    NUMBER: ClassVar[staticmethod[[str], int]]  # of such a text
    written: str

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse text as a person writes it. Raises ValueError."""
        number = cls(cls.NUMBER(text))
        number.written = text
        return number

    def _text(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return getattr(self, "written", "") or self._text()

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else str(self)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = core_schema.str_schema(pattern=cls.PATTERN)

        def check(value: Any, as_text: core_schema.ValidatorFunctionWrapHandler) -> _Quantity:
            return value if isinstance(value, cls) else cls.read(as_text(value))

        return core_schema.no_info_wrap_validator_function(
            check,
            text,
            serialization=core_schema.plain_serializer_function_ser_schema(str, return_schema=text),
        )


class Memory(_Quantity):
    """Memory in MiB; "512M", "4G" or "1T" as text."""

    PATTERN, NUMBER = MEMORY, staticmethod(memory_mib)

    def _text(self) -> str:
        unit = next(unit for unit in "TGM" if self % _UNITS[unit] == 0)
        return f"{self // _UNITS[unit]}{unit}"


class Duration(_Quantity):
    """Duration in seconds; "2:00:00" or "1-00:00:00" as text."""

    PATTERN, NUMBER = TIME, staticmethod(time_seconds)

    def _text(self) -> str:
        if self // 3600 <= _MOST_HOURS:
            return time_text(self)
        return f"{self // _A_DAY}-{time_text(self % _A_DAY)}"


class Resources(Frozen):
    """Resources that a session requests. None or 0: the site's and Slurm's defaults apply.

    ``memory`` is per node, "4G"; ``time`` is "H:MM:SS" or "D-HH:MM:SS"; ``gpus`` counts per node.
    """

    gpus: Annotated[int, Field(ge=0, le=4096, strict=True)] = 0
    gpu_type: SlurmName | None = None
    cpus: Annotated[int, Field(ge=1, le=65536, strict=True)] | None = None
    memory: Memory | None = None
    time: Duration | None = None
    partition: SlurmName | None = None
    account: SlurmName | None = None
    qos: SlurmName | None = None
    reservation: SlurmName | None = None
    nodes: Annotated[int, Field(ge=1, le=4096, strict=True)] = 1
    constraint: Annotated[str, StringConstraints(pattern=FEATURES)] | None = None

    @field_validator("time")
    @classmethod
    def _not_zero(cls, value: Duration | None) -> Duration | None:
        # sbatch(1): a time of zero asks for no limit at all.
        if value is not None and value < 60:
            raise ValueError("a time shorter than a minute")
        return value

    def given(self) -> dict[str, Any]:
        """Return the values that were given, typed: neither defaults nor None."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {
            name: value
            for name, value in values.items()
            if name in self.model_fields_set and value is not None
        }
