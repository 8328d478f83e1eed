"""GPUs that a member of a space has at once: the session's, and those of its kernels in jobs of
their own, of its runs, and of replicas. A space gives each member as many as its largest session
has; points of runs without GPUs have its CPUs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from portal.launch.kinds import stored_kind
from portal.launch.kinds.jupyterlab import JupyterLab
from portal.launch.kinds.kind import OtherLaunch
from portal.models.session.run import AskedRun
from portal.models.space import Space
from portal.models.words import count

from .kernel.kind import JobKernel
from .replicas.kind import ReplicaKind
from .run.kind import OPTION as OPTION_OF_RUN
from .run.kind import Run, asked_run


class Launched(Protocol):
    """Session that waits or runs: a record, or an `OtherLaunch` (kind.py)."""

    @property
    def work(self) -> str:
        """Name of its kind."""

    @property
    def space(self) -> str:
        """Space that it belongs to; "" for none."""

    @property
    def options(self) -> Mapping[str, Any]:
        """Its ``user_options``."""


class MemberGpus(NamedTuple):
    """Number of GPUs that a member of a space has, in the session, its kernels, its runs, and the
    replicas of endpoints and workers of clusters."""

    session: int = 0
    kernels: int = 0
    runs: int = 0
    replicas: int = 0


def most_gpus(space: Space) -> int:
    """Return the maximum number of GPUs that a member of the space has at once."""
    return max(space.default.gpus, space.largest.gpus) * space.default.nodes


def held_gpus(space: Space, launches: Iterable[Launched]) -> MemberGpus:
    """Return the GPUs of a member's ``launches`` that wait or run. Those outside of the space do
    not count."""
    launches = list(launches)
    session = kernels = replicas = 0
    for launch in launches:
        gpus = _number(launch.options.get("gpus")) if launch.space == space.name else 0
        if launch.work == JupyterLab.name:
            session += gpus * space.default.nodes
        elif launch.work == JobKernel.name:
            kernels += gpus
        elif gpus and issubclass(stored_kind(launch.work), ReplicaKind):
            replicas += gpus
    return MemberGpus(session, kernels, held_by_runs(space, launches, "gpus"), replicas)


def held_by_runs(space: Space, launches: Iterable[Launched], resource: str) -> int:
    """Return how many GPUs, or CPUs of points without GPUs, the runs of the space among
    ``launches`` have at most at the same time: a run that starts after another one is not beside
    it."""
    left: dict[str, tuple[AskedRun, int]] = {}
    for launch in launches:
        in_space = (launch.work, launch.space) == (Run.name, space.name)
        run = asked_run(launch.options) if in_space else None
        if run is not None:
            gpus = _number(launch.options.get("gpus"))
            cpus = 0 if gpus else _number(launch.options.get("cpus"))
            each = gpus if resource == "gpus" else cpus
            left[run.id] = run, each * at_once(run)

    def most(id_: str) -> int:
        """Return the number for a run and those after it."""
        _, own = left.pop(id_)
        later = [other for other, (run, _) in left.items() if run.after == id_]
        return max(own, sum(most(other) for other in later if other in left))

    roots = [id_ for id_, (run, _) in left.items() if run.after not in left]
    total = sum(most(id_) for id_ in roots)
    while left:  # runs after each other, of which one was started again
        total += most(next(iter(left)))
    return total


def at_once(run: AskedRun) -> int:
    """Return the number of a run's points that run at once."""
    return min(run.at_once, run.tasks)


def too_many(space: Space, wanted: int, held: MemberGpus, *, beside: bool, points: int = 1) -> str:
    """Return why a member who has ``held`` GPUs cannot have ``wanted`` more; "" if they can.
    ``beside``: they are for a kernel or a run, else for the session; ``points``: of a run, those
    that run at once."""
    most = most_gpus(space)
    if not wanted or wanted + sum(held) <= most:
        return ""
    gives = f"The {space.called} allows each member {count(most, 'GPU')} at once"
    words = (
        *("your session has", "your kernels have", "your runs have"),
        "your endpoints and clusters have",
    )
    holders = [f"{who} {number}" for who, number in zip(words, held, strict=True) if number]
    need = f"{points} points at once need {wanted}" if points > 1 else ""
    if not holders:
        return f"{gives}; {need}. Run fewer at once." if need else f"{gives}, not {wanted}."
    ways = ["run fewer points at once"] if need else []
    ways += ["shut down a kernel"] if held.kernels else []
    ways += ["stop a run"] if held.runs else []
    ways += ["end an endpoint or a cluster"] if held.replicas else []
    ways += ["give your session fewer GPUs"] if held.session and beside else []
    way = " or ".join(ways) or "ask for fewer GPUs"
    facts = f"{gives}: {_listed(holders)}. {f'{need}. ' if need else ''}"
    return f"{facts}{way[0].upper()}{way[1:]} first."


def too_many_points(
    space: Space,
    run: AskedRun,
    gpus: int,
    cpus: int,
    launches: Sequence[Launched],
    most_cpus: int | None,
) -> str:
    """Return why a member with these other ``launches`` cannot have a run of the space, whose
    points have ``gpus`` and ``cpus`` each; "" if they can. ``most_cpus``: of a session, which is
    also the limit of all points without GPUs that run at once; None: there is none."""
    options = {OPTION_OF_RUN: run, "gpus": gpus, "cpus": cpus}
    own = OtherLaunch(Run.name, space.name, options)
    with_own, held = [*launches, own], held_gpus(space, launches)
    wanted = held_gpus(space, with_own).runs - held.runs
    if reason := too_many(space, wanted, held, beside=True, points=at_once(run)):
        return reason
    held_cpus = held_by_runs(space, launches, "cpus")
    wanted = held_by_runs(space, with_own, "cpus") - held_cpus
    return _too_many_cpus(space, most_cpus, wanted, held_cpus)


def _too_many_cpus(space: Space, most: int | None, wanted: int, held: int) -> str:
    if most is None or not wanted or wanted + held <= most:
        return ""
    others = f", and your other runs have {held}" if held else ""
    return (
        f"The {space.called} allows the points of a member's runs {count(most, 'CPU')} at "
        f"once. Those of this run need {wanted}{others}. Run fewer points at once, or request "
        "fewer CPUs for each."
    )


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
