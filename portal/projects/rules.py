"""Rules of the site for projects: what they cannot be, and what needs an admin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import inf

from portal.errors import InvalidRequest
from portal.models.cluster.cluster import Association
from portal.models.person import Person

from .models import Project
from .settings import Projects

_ADDRESSES = ("new", "import")  # of pages and the API, in the place of a project's name
_SIZES = ("gpus", "nodes", "cpus", "memory", "time")


@dataclass(frozen=True)
class ProjectRules:
    """Validation of projects. ``has_account`` returns whether Slurm has an account of a name, and
    ``associations`` those of a user, both None if that is unknown; ``known``: the names of the
    environments in the catalog that a user sees."""

    settings: Projects
    has_account: Callable[[str], Awaitable[bool | None]]
    associations: Callable[[str], Awaitable[Sequence[Association] | None]]
    known: Callable[[Person], Awaitable[Collection[str]]]

    async def check(self, project: Project, by: Person, before: Project | None = None) -> None:
        """Raise InvalidRequest for the first thing that the project cannot be, as ``by`` writes it
        to replace ``before``. Raises SlurmUnavailable."""
        if project.name in _ADDRESSES:
            raise InvalidRequest(
                f"The name '{project.name}' is reserved. Choose another name.", "name"
            )
        kept = set(before.environments) if before else set()
        if missing := sorted({*project.environments} - kept - {*await self.known(by)}):
            raise InvalidRequest(
                f"There is no environment '{missing[0]}' that you may use. Remove it from the "
                "project.",
                "environments",
            )
        for field in ("default", "largest"):
            resources = getattr(project, field)
            if resources.account:
                raise InvalidRequest(
                    "The account of a project is set by 'account', not by its resources.",
                    f"{field}.account",
                )
        same = before is not None and before.account == project.account
        if project.account and not same and await self.has_account(project.account) is False:
            raise InvalidRequest(f"Slurm has no account '{project.account}'.", "account")

    async def for_admins(
        self, project: Project, by: Person, members: int, before: Project | None = None
    ) -> str:
        """Return why an admin must approve the project, a sentence; "" if the policy does.
        ``members``: their number; ``before``: what is approved already. Raises SlurmUnavailable."""
        more = list(_more(before, project))
        if self.settings.approval != "policy":
            if before is not None and not more:
                return ""
            what = f" more of: {', '.join(more)}" if before else " the project"
            return f"An admin of the portal must approve{what}."
        if "roster_group" in more:
            return (
                "Members from a group of the directory need the approval of an admin of the portal."
            )
        largest = self.settings.largest_budget
        if "budget" in more and (project.budget is None or project.budget > largest):
            return (
                f"A budget of more than {largest:g} GPU-hours, or none, needs the approval of an "
                "admin of the portal."
            )
        if members > self.settings.largest_members:
            return (
                f"More than {self.settings.largest_members} members need the approval of an admin "
                "of the portal."
            )
        if "account" in more and project.account and not await self._may_charge(project, by):
            return (
                f"Projects that are charged to the account '{project.account}' need the approval "
                "of an admin of the portal."
            )
        return ""

    async def _may_charge(self, project: Project, by: Person) -> bool:
        account, patterns = project.account or "", self.settings.accounts
        if patterns and not any(fnmatchcase(account, pattern) for pattern in patterns):
            return False
        own = await self.associations(by.name)
        return own is not None and any(row.account == account for row in own)


def _more(before: Project | None, project: Project) -> Iterator[str]:
    """Yield the fields in which a project is more than ``before``; None: nothing was approved."""
    if project.roster_group and (before is None or project.roster_group != before.roster_group):
        yield "roster_group"
    if before is None:
        yield from ("budget", "account")
        return
    if _number(project.budget) > _number(before.budget):
        yield "budget"
    if project.account != before.account:
        yield "account"
    if project.ends != before.ends and (
        project.ends is None or (before.ends is not None and project.ends > before.ends)
    ):
        yield "ends"
    for field in ("default", "largest"):
        new, old = getattr(project, field), getattr(before, field)
        for size in _SIZES:
            if _number(getattr(new, size)) > _number(getattr(old, size)):
                yield f"{field}.{size}"


def _number(value: float | None) -> float:
    return inf if value is None else float(value)
