"""Choice of a point's parameters by those of the points before it and their results: Optuna's
tree-structured Parzen estimator. Pure, and slow: it belongs into a thread."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from portal.models.session.run import PointState
from portal.models.session.search import BestTrial, Choice, Direction, Numbers, Search
from portal.work.run.tables.points import PointKeys

_ENDED = frozenset({PointState.SUCCEEDED, PointState.FAILED, PointState.LOST})


class Trial(NamedTuple):
    """Point of a search."""

    number: int
    chosen: Mapping[str, float]  # for it (`Search.values`)
    value: float | None = None  # of the metric; None while it runs, and if it ``failed``
    failed: bool = False
    pruned: bool = False  # it ended early, so that this is not its result


def trials_of(
    search: Search, chosen: Mapping[int, Mapping[str, float]], keys: Iterable[PointKeys]
) -> list[Trial]:
    """Return the trials. ``chosen``: by the points' numbers; ``keys``: of points that have
    reported. The value is the last one that the point has logged; a point that has succeeded
    without one, and was not pruned, counts as failed."""
    points = {key.number: key for key in keys}
    trials = []
    for number, parameters in sorted(chosen.items()):
        key, value = points.get(number), None
        if key is not None and key.state is PointState.SUCCEEDED:
            value = key.metrics.get(search.metric)
        pruned = key is not None and key.state is PointState.SUCCEEDED and key.pruned
        failed = key is not None and key.state in _ENDED and value is None and not pruned
        trials.append(Trial(number, parameters, value, failed, pruned))
    return trials


def best_of(search: Search, trials: Iterable[Trial]) -> BestTrial | None:
    """Return the best point; None if none has a result yet. Of equal ones, the first counts."""
    sign = -1 if search.direction is Direction.MAXIMIZE else 1
    valued = [(sign * trial.value, trial) for trial in trials
              if trial.value is not None and not trial.pruned]  # fmt: skip
    if not valued:
        return None
    _, best = min(valued, key=lambda pair: pair[0])
    value = best.value if best.value is not None else 0.0
    return BestTrial(point=best.number, value=value, parameters=search.values(best.chosen))


def choose(search: Search, trials: Sequence[Trial], number: int) -> dict[str, float]:
    """Return what is chosen for the point ``number``. The same arguments give the same choice.

    Points that still run count as bad ones, so that those that run at the same time differ
    (Optuna's ``constant_liar``). The first ten are chosen at random.
    """
    # Loaded here: half a second that neither the service's start nor the Hub needs.
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.filterwarnings("ignore", module="optuna")  # of experimental options, and of steps
    # A study that is built anew would begin its random numbers anew too.
    seed = random.Random(f"{search.seed} {number}").getrandbits(32)  # noqa: S311 - not a secret
    sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    study = optuna.create_study(direction=search.direction.value, sampler=sampler)
    ranges = {parameter.name: _range(optuna, parameter) for parameter in search.parameters}
    states = optuna.trial.TrialState
    for trial in trials:
        state = states.RUNNING
        if trial.failed or trial.value is not None:
            state = states.FAIL if trial.failed else states.COMPLETE
        if trial.pruned:
            state = states.PRUNED
        seen = {0: trial.value} if trial.pruned and trial.value is not None else None
        study.add_trial(
            optuna.trial.create_trial(
                params=dict(trial.chosen),
                distributions=ranges,
                value=trial.value,
                state=state,
                intermediate_values=seen,
            )
        )
    return dict(study.ask(fixed_distributions=ranges).params)


def _range(optuna: Any, parameter: Any) -> Any:
    """Return the distribution of a parameter; a choice is its number, since Optuna takes 1 and True
    for one value."""
    distributions = optuna.distributions
    if isinstance(parameter, Choice):
        return distributions.CategoricalDistribution(range(len(parameter.choices)))
    kind = distributions.IntDistribution
    if isinstance(parameter, Numbers):
        kind = distributions.FloatDistribution
    return kind(parameter.low, parameter.high, log=parameter.log, step=parameter.step)
