"""Results of benchmarks: what a point has logged of them, read and compared. Pure."""

from __future__ import annotations

import hashlib
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, StringConstraints, ValidationError

from portal.errors import InvalidRequest
from portal.models import Frozen
from portal.models.cluster.cluster import Job
from portal.models.session.run_logged import Logged

from .specifications import Peak

FALL = 0.1  # part by which a result must be worse to be told, at least
EARLIER = 5  # runs with which a result is compared
_DEVIATIONS = 3.0  # by which a fall must exceed what the repeats of both runs leave open
MODULE = "benchmark_results.py"  # beside the scripts, which all use it
SCRIPTS = ("chexnet-scaling", "collectives", "storage", "throughput", "time-to-accuracy")
COLUMNS = ("name", "value", "unit", "gpus", "conditions", "peak", "operations", "spread")
_TABLE = re.compile(r"benchmark ([a-z0-9-]{1,40}) ([0-9a-f]{16})")
_SMALLER_IS_BETTER = frozenset({"s", "ms", "µs", "epochs"})
# Products and ratios of these are numbers, too.
_Positive = Annotated[float, Field(ge=1e-30, le=1e30, allow_inf_nan=False, strict=True)]


class ReportedResult(Frozen):
    """Result as a script reports it (deploy/environments/starters/benchmark_results.py)."""

    name: Annotated[str, StringConstraints(pattern=r"^\S.{0,99}$")]
    value: _Positive
    unit: Annotated[str, StringConstraints(pattern=r"^\S{1,20}$")]
    gpus: Annotated[int, Field(ge=0, le=100_000, strict=True)] | None
    conditions: Annotated[str, StringConstraints(max_length=200)]
    peak: Peak
    operations: Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False, strict=True)]
    spread: Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False, strict=True)]


class BenchmarkResult(Frozen):
    """Result at this site. ``user`` and ``run``: the run that has it; ``version`` of the
    environment, 0: not known; ``gpu_type``: "" where no GPUs did the work; ``simulated``: CPUs did
    it in the place of simulated GPUs; ``spread``: standard error of the value, as a part of it, 0:
    it was not repeated; ``before``: the median of the newest earlier runs, None without one;
    ``threshold``: the part by which the value must be worse to be a fall; ``at``: Unix seconds."""

    user: str
    run: str
    benchmark: str
    environment: str
    version: int
    gpu_type: str
    gpus: int
    nodes: str
    name: str
    value: float
    unit: str
    conditions: str
    peak: Peak
    operations: float
    simulated: bool
    spread: float = 0.0
    before: float | None = None
    threshold: float = FALL
    at: float

    @property
    def key(self) -> tuple[object, ...]:
        """Values that two results share that can be compared."""
        return (self.benchmark, self.environment, self.gpu_type, self.gpus, self.name, self.unit,
                self.conditions, self.simulated)  # fmt: skip

    @property
    def fall(self) -> float:
        """Part by which it is worse than those before: 0.1 is 10 % less, or 10 % more time. 0:
        it is not, or by less than ``threshold``."""
        if self.before is None:
            return 0.0
        change = self.value / self.before - 1.0
        worse = change if self.unit in _SMALLER_IS_BETTER else -change
        return worse if worse >= self.threshold - 1e-9 else 0.0

    def compared(self, earlier: Sequence[BenchmarkResult]) -> BenchmarkResult:
        """Return this result beside those of ``earlier`` runs that can be compared.

        It must be worse by more than what chance does: 4K blocks and latencies of small messages
        differ from run to run by more than 10 %.
        """
        if not earlier:
            return self
        values = [result.value for result in earlier]
        before = statistics.median(values)
        apart = (max(values) - min(values)) / before
        errors = math.hypot(self.spread, statistics.median(each.spread for each in earlier))
        threshold = max(FALL, apart, _DEVIATIONS * errors)
        return self.model_copy(update={"before": before, "threshold": threshold})


class LoggedResults(NamedTuple):
    """Results in a point's tables: the name of the ``benchmark``, and its script's ``digest``."""

    benchmark: str
    digest: str
    results: list[ReportedResult]


def logged_results(logged: Logged) -> Iterator[LoggedResults]:
    """Yield the results that a point has logged. Raises InvalidRequest for a table that is not in
    the form of benchmarks."""
    for name, rows in logged.tables.items():
        if match := _TABLE.fullmatch(name):
            yield LoggedResults(match[1], match[2], _read(name, rows))


def _read(name: str, rows: Sequence[Sequence[Any]]) -> list[ReportedResult]:
    if tuple(rows[0]) != COLUMNS:
        raise InvalidRequest(f"The columns of '{name}' must be {', '.join(COLUMNS)}.")
    try:
        return [
            ReportedResult.model_validate(dict(zip(COLUMNS, row, strict=True))) for row in rows[1:]
        ]
    except (ValidationError, ValueError):
        raise InvalidRequest(f"A row of '{name}' is no result of a benchmark.") from None


def digests(folder: Path) -> dict[str, str]:
    """Return the digests of the scripts in ``folder`` by benchmark, as the scripts report them.
    Blocks. Raises OSError."""
    module = (folder / MODULE).read_bytes()
    return {
        name: hashlib.sha256((folder / f"{name}.py").read_bytes() + module).hexdigest()[:16]
        for name in SCRIPTS
    }


def placed(
    reported: ReportedResult, job: Job, *, simulated: bool, about: Mapping[str, Any]
) -> BenchmarkResult:
    """Return a result with what Slurm says of its point's ``job``. ``simulated``: the site's GPUs
    are; ``about``: the other fields. Raises InvalidRequest for more GPUs than the job had."""
    used = reported.gpus or 0
    if used > job.gpus:
        raise InvalidRequest(
            f"'{reported.name}' is said to be of {used} GPUs; its job had {job.gpus}."
        )
    # Frameworks find no simulated GPUs: what CPUs did stands for all of the job's.
    played = simulated and job.gpus > 0 and reported.gpus is not None
    gpus = job.gpus if played else used
    return BenchmarkResult(
        **reported.model_dump(exclude={"gpus"}),
        # "gpu" is what Slurm has where it knows no types.
        gpu_type=(job.gpu_type or "gpu") if gpus else "",
        gpus=gpus,
        nodes=",".join(job.nodes),
        simulated=played,
        **about,
    )


def falls(results: Sequence[BenchmarkResult]) -> list[str]:
    """Return a sentence for each result that is worse than the one before, the worst first."""
    fallen = sorted((each for each in results if each.fall), key=lambda each: -each.fall)
    return [
        f"{each.name} ({each.conditions}): {each.value:.4g} {each.unit}, before {each.before:.4g}, "
        f"which is {each.fall:.0%} worse."
        for each in fallen
    ]
