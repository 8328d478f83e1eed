"""Differences between a run in a project's file and its repetition. Pure.

A repetition is identical only if each condition that the file knows is known here, and equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from portal.models import Frozen
from portal.models.catalog.environment import Environment
from portal.models.session.run_conditions import Packages, RunConditions, Software

from .document import BestValues, Contents, FileEnvironment, FileRun

_UNKNOWN = "not known"
_MOST_PACKAGES = 30
_WORDS = {
    "script": "Script",
    "image": "Image",
    "kernel": "Kernel",
    "gpus": "GPUs",
    "driver": "GPU driver",
    "slurm": "Slurm",
    "commit": "git commit",
}


class Difference(Frozen):
    """Condition that differs: ``what`` it is, how it was, and how it is ``here``; both in words."""

    what: str
    was: str
    here: str


def before_start(
    contents: Contents,
    run: FileRun,
    environments: Mapping[str, Environment],
    script: str | None,
) -> list[Difference]:
    """Return what will differ, as far as that is known before a run starts. ``script``: the digest
    of the file in the folder, None if no session could say it."""
    found: list[Difference] = []
    known = {each.name: each for each in contents.environments}.get(run.environment)
    here = environments.get(run.environment)
    if here is None:
        found.append(Difference(what="Environment", was=run.environment, here="there is none"))
    else:
        digest = run.conditions.image or (known.digest if known else "")
        found += _changed("Image", digest, here.digest or "")
        if known is not None and not digest:
            found += _of_environment(known, here)
    if script is not None:
        found += _changed("Script", run.conditions.script, script)
    return found


def after_end(
    contents: Contents,
    run: FileRun,
    environment: str,
    now: RunConditions | None,
    metrics: Mapping[str, BestValues],
    succeeded: Sequence[Mapping[str, Any]],
) -> list[Difference]:
    """Return what differs between a run of the file and its repetition in this ``environment``,
    whose conditions are None if it has not reported them. ``succeeded``: the parameters of those of
    its points that have."""
    now = now or RunConditions()
    found = _changed("Environment", run.environment, environment)
    if len(succeeded) != len(run.points):
        was, here = (f"{len(each)} succeeded" for each in (run.points, succeeded))
        found.append(Difference(what="Points", was=was, here=here))
    elif [dict(point) for point in succeeded] != [dict(point) for point in run.points]:
        found.append(Difference(what="Parameters", was="as in the file", here="others"))
    for name, what in _WORDS.items():
        found += _changed(what, getattr(run.conditions, name), getattr(now.conditions, name))
    for which, conditions in (("was", run.conditions), ("here", now.conditions)):
        if conditions.differs:
            sides = {"was": "", "here": "", which: "uncommitted changes"}
            found.append(Difference(what="git state", **sides))
    found += _of_software(contents.software_of(run), now.software)
    for name, best in run.metrics.items():
        now_best = metrics.get(name)
        found += _changed(
            f"Metric {name}", _in_words(best), _in_words(now_best) if now_best else ""
        )
    return found


def _changed(what: str, was: str, here: str) -> list[Difference]:
    """Return the difference of a condition, [] without one or if the file does not know it."""
    if not was or was == here:
        return []
    return [Difference(what=what, was=_short(was), here=_short(here) or _UNKNOWN)]


def _of_environment(known: FileEnvironment, here: Environment) -> Iterator[Difference]:
    yield from _changed("Kind of the environment", str(known.kind), str(here.kind))
    yield from _changed("Modules", ", ".join(known.modules), ", ".join(here.modules))


def _of_software(was: Software, here: Software) -> Iterator[Difference]:
    yield from _changed("Python", was.python, here.python)
    if not was.packages:
        return
    if not here.packages:
        yield Difference(what="Packages", was=f"{len(was.packages)}", here=_UNKNOWN)
        return
    before, now = _versions(was.packages), _versions(here.packages)
    names = sorted({*before, *now}, key=str.lower)
    changed = [name for name in names if before.get(name) != now.get(name)]
    for name in changed[:_MOST_PACKAGES]:
        was_, here_ = (versions.get(name, "not installed") for versions in (before, now))
        yield Difference(what=f"Package {name}", was=was_, here=here_)
    if more := len(changed) - _MOST_PACKAGES:
        if more > 0:
            yield Difference(what="More packages", was=f"{more} others", here="other versions")


def _versions(packages: Packages) -> dict[str, str]:
    pairs = [each.partition("==") for each in packages]
    return {name: version for name, _, version in pairs}


def _in_words(best: BestValues) -> str:
    lowest, highest = repr(best.lowest), repr(best.highest)
    return lowest if lowest == highest else f"{lowest} to {highest}"


def _short(text: str) -> str:
    return text[:19] if text.startswith("sha256:") else text


def unknown_of(run: FileRun, contents: Contents) -> Sequence[str]:
    """Return what the file does not say of a run, so that nothing can be compared with it."""
    missing = [what for name, what in _WORDS.items() if not getattr(run.conditions, name)]
    if run.conditions.gpus == "none" and "GPU driver" in missing:
        missing.remove("GPU driver")
    if not contents.software_of(run).packages:
        missing.append("Packages")
    return missing
