"""Search of a run: its points' parameters are chosen one after the other, by the results of the
points before. The session reads it from portal-run's options (portal_session/runs/search)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    StringConstraints,
    model_validator,
)

from .. import Frozen
from .run import Metric, MetricName, PointNumber

MOST_TRIALS = 1_000  # points: with more, to choose the next would take seconds
_MOST_PARAMETERS = 50
_MOST_CHOICES = 100
_WHOLE = 2**53  # larger numbers are not whole in JSON's readers


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("has characters that cannot be printed")
    return text


ParameterName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=100),
    AfterValidator(_printable),
    Field(examples=["lr"]),
]
ParameterValue = (
    StrictBool
    | StrictInt
    | Annotated[StrictFloat, Field(allow_inf_nan=False)]
    | Annotated[StrictStr, StringConstraints(max_length=1_000)]
    | None
)
_Number = Annotated[float, Field(ge=-1e300, le=1e300, allow_inf_nan=False)]
_Whole = Annotated[int, Field(ge=-_WHOLE, le=_WHOLE, strict=True)]


class Numbers(Frozen):
    """Parameter that is a number from ``low`` to ``high``. ``log``: its logarithm is spread evenly;
    ``step``: distance of the values, null: any."""

    kind: Literal["float"]
    name: ParameterName
    low: _Number
    high: _Number
    log: bool = False
    step: Annotated[float, Field(gt=0, le=1e300, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_range(self.low, self.high, self.log, self.step is not None)
        return self


class WholeNumbers(Frozen):
    """Parameter that is a whole number from ``low`` to ``high``. ``log``: its logarithm is spread
    evenly; ``step``: distance of the values."""

    kind: Literal["int"]
    name: ParameterName
    low: _Whole
    high: _Whole
    log: bool = False
    step: Annotated[int, Field(ge=1, le=_WHOLE, strict=True)] = 1

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_range(self.low, self.high, self.log, self.step != 1)
        return self


class Choice(Frozen):
    """Parameter that is one of ``choices``."""

    kind: Literal["choice"]
    name: ParameterName
    choices: Annotated[tuple[ParameterValue, ...], Field(min_length=1, max_length=_MOST_CHOICES)]


Searched = Annotated[Numbers | WholeNumbers | Choice, Field(discriminator="kind")]


class Direction(StrEnum):
    """Direction in which a metric is better."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"


class Search(Frozen):
    """Search for the best value of the ``metric``. ``seed``: of the choices."""

    parameters: Annotated[tuple[Searched, ...], Field(min_length=1, max_length=_MOST_PARAMETERS)]
    metric: MetricName
    direction: Direction
    seed: Annotated[int, Field(ge=0, lt=2**63, strict=True)] = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [parameter.name for parameter in self.parameters]
        if len(set(names)) < len(names):
            raise ValueError("names a parameter twice")
        return self

    def values(self, chosen: Mapping[str, float]) -> dict[str, ParameterValue]:
        """Return the parameters of a point. ``chosen``: as they are stored, by name; of a Choice,
        its number from 0."""
        return {
            parameter.name: parameter.choices[int(chosen[parameter.name])]
            if isinstance(parameter, Choice)
            else chosen[parameter.name]
            for parameter in self.parameters
        }


class BestTrial(Frozen):
    """Point whose metric has the best ``value`` so far, and its parameters."""

    point: PointNumber
    value: Metric
    parameters: Mapping[str, ParameterValue]


class SearchItem(Frozen):
    """Search as the user of its run sees it: names of the searched ``parameters``, the metric, its
    direction, and the best point among those that succeeded."""

    parameters: tuple[str, ...]
    metric: str
    direction: Direction
    best: BestTrial | None = None


def _check_range(low: float, high: float, log: bool, stepped: bool) -> None:
    if low > high:
        raise ValueError("has a 'low' above its 'high'")
    if log and low <= 0:
        raise ValueError("has a logarithmic range that does not begin above 0")
    if log and stepped:
        raise ValueError("has both 'log' and 'step'")
