"""Shares of runs: other users, and those who are in a project or a group, see a run that is shared
with them, and can repeat it."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, StringConstraints, model_validator

from portal.errors import InvalidRequest, NotFound
from portal.handlers.base.action import Confirmation, SessionAction
from portal.handlers.base.endpoint import Operation, Query
from portal.handlers.base.paging import Page, PageQuery, page
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.plain_text import PLAIN_LINE
from portal.models.session.run import Run
from portal.models.space import SpaceName
from portal.work.run.seen import viewer_of
from portal.work.run.tables.shares import RunShareTable, TeamKind

from .runs import RUN_ID, RunAction, RunItem

_MOST = 200  # users of a run
_MOST_TEAMS = 50  # projects and groups of a run
_LOGIN = r"[^\s\x00-\x1f\x7f,:/*]{1,255}"
GroupName = Annotated[str, StringConstraints(min_length=1, max_length=255), *PLAIN_LINE]


class _With(Frozen):
    """Base class of what names whom a run is shared with."""

    project: SpaceName | None = Field(None, description="Project that you are in.")
    group: GroupName | None = Field(None, description="Group of the Hub that you are in.")

    @property
    def team(self) -> tuple[TeamKind, str] | None:
        """Kind and name of the project or the group; None if none is named."""
        if self.project is not None:
            return "project", self.project
        return None if self.group is None else ("group", self.group)

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        names = type(self).model_fields
        if sum(getattr(self, name) is not None for name in names) != 1:
            raise ValueError(f"exactly one of {', '.join(sorted(names))} is needed")
        return self


class Share(_With):
    """Share of a run with one of: a ``user``, by login name; a ``project``; a ``group``."""

    user: (
        Annotated[
            str,
            StringConstraints(pattern=rf"^{_LOGIN}$", strip_whitespace=True),
            Field(examples=["grace"]),
        ]
        | None
    ) = None


class TeamQuery(_With, Query):
    """Project or group, one of them."""


class Shares(Frozen):
    """Users, projects and groups of the Hub with whom a run is shared, in alphabetical order.
    ``project``: the run is for this one, whose members see it anyway; "" for none. ``my_projects``
    and ``my_groups``: those that you can share with."""

    users: tuple[str, ...]
    projects: tuple[str, ...]
    groups: tuple[str, ...]
    project: str
    my_projects: tuple[str, ...]
    my_groups: tuple[str, ...]


class SharedRuns(RunAction):
    """Runs of others that the user may see."""

    path = "shared-runs"
    in_spaces = False

    @Operation("List the runs that are shared with you.", query=PageQuery)
    async def on_get(self) -> Page[RunItem]:
        """Return them, newest first, with the number of points in each state: those that users
        share with you, a project or a group that you are in, and those for your projects."""
        viewer = await viewer_of(self.parts.memberships, self.person)
        runs, total = await self.parts.store.table(RunShareTable).with_user(
            viewer, offset=self.query.offset, limit=self.query.limit
        )
        return page(await self.items(runs), self.query, total)


class _OwnRun(RunAction):
    """Base class: the owner decides, and not a program in one of the owner's sessions."""

    def check_hub_user(self, model: dict[str, Any]) -> dict[str, Any]:
        return SessionAction.check_hub_user(self, model)


class RunShares(_OwnRun):
    """Users, projects and groups with whom a run of the user is shared."""

    path = "runs/{run}/shares"
    parameters = {"run": RUN_ID}

    @Operation("List with whom one of your runs is shared.")
    async def on_get(self, run: str) -> Shares:
        """Return users, projects and groups, and those that it can be shared with."""
        own_run, table = await self.own(run), self.parts.store.table(RunShareTable)
        teams = await table.teams(own_run.user, own_run.id)
        viewer = await viewer_of(self.parts.memberships, self.person)
        return Shares(
            users=tuple(await table.users(own_run.user, own_run.id)),
            projects=tuple(name for kind, name in teams if kind == "project"),
            groups=tuple(name for kind, name in teams if kind == "group"),
            project=own_run.project,
            my_projects=tuple(sorted(viewer.projects)),
            my_groups=tuple(sorted(viewer.groups)),
        )

    @Operation("Share one of your runs with a user, a project or a group.", body=Share)
    async def on_post(self, run: str) -> Confirmation:
        """Let the user see the run and its points, and repeat it under their own limits; or all who
        are in a project or a group of the Hub, as long as they are. You must be in it.

        The portal gives no access to files: to repeat the run, a user must be able to read its
        folder.
        """
        own_run, asked = await self.own(run), self.body
        async with self.audited(
            AuditAction.SHARE_RUN,
            f"run {own_run.id}",
            own_run.user,
            f"With {_whom(asked.user, asked.team)}.",
        ):
            table = self.parts.store.table(RunShareTable)
            if asked.team is None:
                await self._check_user(own_run, asked.user)
                await table.share(own_run.user, own_run.id, asked.user)
            else:
                await self._check_team(own_run, *asked.team)
                await table.share_with(own_run.user, own_run.id, *asked.team)
        return self.done(f"The run is shared with {_whom(asked.user, asked.team)}.")

    async def _check_user(self, run: Run, user: str) -> None:
        """Raise InvalidRequest for one that it cannot be shared with."""
        table = self.parts.store.table(RunShareTable)
        if user == run.user:
            raise InvalidRequest("This run is already yours. Enter another user.", "user")
        if len(await table.users(run.user, run.id)) >= _MOST:
            raise InvalidRequest(f"A run can be shared with at most {_MOST} users.", "user")
        if user not in await self.parts.hub.people([user]):
            raise InvalidRequest(
                f"The portal does not know the user '{user}'. Check the user name; the user "
                "must have logged in at least once.",
                "user",
            )

    async def _check_team(self, run: Run, kind: TeamKind, name: str) -> None:
        """Raise InvalidRequest for a project or group that it cannot be shared with."""
        viewer = await viewer_of(self.parts.memberships, self.person)
        mine = viewer.projects if kind == "project" else viewer.groups
        if name not in mine:
            raise InvalidRequest(
                f"You are not in a {kind} '{name}'. A run can be shared with a {kind} that you "
                "are in.",
                kind,
            )
        if (kind, name) == ("project", run.project):
            raise InvalidRequest(
                f"This run is for the project '{name}', so its members see it already.", kind
            )
        if len(await self.parts.store.table(RunShareTable).teams(run.user, run.id)) >= _MOST_TEAMS:
            raise InvalidRequest(
                f"A run can be shared with at most {_MOST_TEAMS} projects and groups.", kind
            )

    @Operation("Stop sharing one of your runs with a project or a group.", query=TeamQuery)
    async def on_delete(self, run: str) -> Confirmation:
        """Hide the run from those who are in it. Repetitions that they have started are theirs, and
        stay."""
        own_run, team = await self.own(run), self.query.team
        async with self.audited(
            AuditAction.UNSHARE_RUN, f"run {own_run.id}", own_run.user, f"With {_whom(None, team)}."
        ):
            table = self.parts.store.table(RunShareTable)
            if not await table.unshare_with(own_run.user, own_run.id, *team):
                raise NotFound(f"This run is not shared with {_whom(None, team)}.")
        return self.done(f"The run is no longer shared with {_whom(None, team)}.")


def _whom(user: str | None, team: tuple[TeamKind, str] | None) -> str:
    """Return in words with whom a run is shared."""
    return user or "" if team is None else f"the {team[0]} '{team[1]}'"


class RunShare(_OwnRun):
    """Share of a run of the user with another user."""

    path = "runs/{run}/shares/{user}"
    parameters = {"run": RUN_ID, "user": _LOGIN}

    @Operation("Stop sharing one of your runs with a user.")
    async def on_delete(self, run: str, user: str) -> Confirmation:
        """Hide the run from the user. Repetitions that they have started are theirs, and stay."""
        own_run = await self.own(run)
        async with self.audited(
            AuditAction.UNSHARE_RUN, f"run {own_run.id}", own_run.user, f"With {user}."
        ):
            if not await self.parts.store.table(RunShareTable).unshare(
                own_run.user, own_run.id, user
            ):
                raise NotFound(f"This run is not shared with {user}.")
        return self.done(f"The run is no longer shared with {user}.")


ENDPOINTS = (SharedRuns, RunShares, RunShare)
