"""Finding of a check: what it saw, its severity, and the fix; and the check itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from portal.errors import PortalError, SlurmUnavailable
from portal.models import Frozen

from .site import Blocked, Site


class Level(StrEnum):
    """Severity. ``failure``: the portal does not work, or not safely. ``warning``: a part of
    it."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"
    SKIPPED = "skipped"


class Finding(Frozen):
    """Finding of a check: ``found`` is what was seen, ``mend`` what to do about it (empty if all
    is well)."""

    id: str
    title: str
    level: Level
    found: str
    mend: str = ""


@dataclass(frozen=True)
class Result:
    """Return value of a check's function."""

    level: Level
    found: str
    mend: str = ""


def ok(found: str) -> Result:
    return Result(Level.OK, found)


def warning(found: str, mend: str) -> Result:
    return Result(Level.WARNING, found, mend)


def failure(found: str, mend: str) -> Result:
    return Result(Level.FAILURE, found, mend)


def skipped(reason: str, mend: str = "") -> Result:
    return Result(Level.SKIPPED, reason, mend)


def worst(results: list[Result]) -> Result:
    """Merge results into one of the worst level, which reports only those that are not OK, if
    any."""
    order = [Level.OK, Level.SKIPPED, Level.WARNING, Level.FAILURE]
    level = max((result.level for result in results), key=order.index)
    if level is Level.OK:
        return Result(level, "; ".join(result.found for result in results))
    bad = [result for result in results if result.level is not Level.OK]
    advice = dict.fromkeys(result.mend for result in bad if result.mend)
    return Result(level, "; ".join(result.found for result in bad), " ".join(advice))


Function = Callable[["Site"], Awaitable[Result]]


@dataclass(frozen=True)
class Check:
    """A single check of a site. ``run`` always ends, and always with a finding."""

    id: str
    title: str
    function: Function

    async def run(self, site: Site, seconds: float) -> Finding:
        """Run the check for at most ``seconds``. No answer is a failure."""
        try:
            result = await asyncio.wait_for(self.function(site), seconds)
        except TimeoutError:
            result = failure(
                f"no answer within {seconds:g} s", "Check whether the machine or a server hangs."
            )
        except Blocked as error:
            result = skipped(error.message)
        except SlurmUnavailable:
            result = skipped("Slurm does not answer: see 'Slurm answers'")
        except PortalError as error:
            result = failure(error.message, "")
        except Exception as error:  # one broken check must not hide what the others found
            result = failure(
                f"internal error of the check: {type(error).__name__}: {error}",
                "Report this as a bug, with the output of --json.",
            )
        return Finding(
            id=self.id, title=self.title, level=result.level, found=result.found, mend=result.mend
        )


def check(id: str, title: str) -> Callable[[Function], Check]:
    """Decorate an async function of a Site to make it a Check."""

    def make(function: Function) -> Check:
        return Check(id, title, function)

    return make
