"""Shares of runs: other users see a run that is shared with them, and can repeat it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from portal.errors import InvalidRequest, NotFound
from portal.handlers.base.action import Confirmation, SessionAction
from portal.handlers.base.endpoint import Operation
from portal.handlers.base.paging import Page, PageQuery, page
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.work.run.tables.shares import RunShareTable

from .runs import RUN_ID, RunAction, RunItem

_MOST = 200  # users of a run
_LOGIN = r"[^\s\x00-\x1f\x7f,:/*]{1,255}"


class Share(Frozen):
    """Share of a run with a ``user``, by login name."""

    user: Annotated[
        str,
        StringConstraints(pattern=rf"^{_LOGIN}$", strip_whitespace=True),
        Field(examples=["grace"]),
    ]


class Shares(Frozen):
    """Users with whom a run is shared, in alphabetical order."""

    users: tuple[str, ...]


class SharedRuns(RunAction):
    """Runs of others that are shared with the user."""

    path = "shared-runs"
    in_spaces = False

    @Operation("List the runs that are shared with you.", query=PageQuery)
    async def on_get(self) -> Page[RunItem]:
        """Return them, newest first, with the number of points in each state."""
        runs, total = await self.parts.store.table(RunShareTable).with_user(
            self.person.name, offset=self.query.offset, limit=self.query.limit
        )
        return page(await self.items(runs), self.query, total)


class _OwnRun(RunAction):
    """Base class: the owner decides, and not a program in one of the owner's sessions."""

    def check_hub_user(self, model: dict[str, Any]) -> dict[str, Any]:
        return SessionAction.check_hub_user(self, model)


class RunShares(_OwnRun):
    """Users with whom a run of the user is shared."""

    path = "runs/{run}/shares"
    parameters = {"run": RUN_ID}

    @Operation("List the users with whom one of your runs is shared.")
    async def on_get(self, run: str) -> Shares:
        """Return their login names."""
        own_run = await self.own(run)
        return Shares(
            users=tuple(await self.parts.store.table(RunShareTable).users(own_run.user, own_run.id))
        )

    @Operation("Share one of your runs with a user.", body=Share)
    async def on_post(self, run: str) -> Confirmation:
        """Let the user see the run and its points, and repeat it under their own limits.

        The portal gives no access to files: to repeat the run, the user must be able to read its
        folder.
        """
        own_run, user = await self.own(run), self.body.user
        async with self.audited(
            AuditAction.SHARE_RUN, f"run {own_run.id}", own_run.user, f"With {user}."
        ):
            if user == own_run.user:
                raise InvalidRequest("This run is already yours. Enter another user.", "user")
            if (
                len(await self.parts.store.table(RunShareTable).users(own_run.user, own_run.id))
                >= _MOST
            ):
                raise InvalidRequest(f"A run can be shared with at most {_MOST} users.", "user")
            if user not in await self.parts.hub.people([user]):
                raise InvalidRequest(
                    f"The portal does not know the user '{user}'. Check the user name; the user "
                    "must have logged in at least once.",
                    "user",
                )
            await self.parts.store.table(RunShareTable).share(own_run.user, own_run.id, user)
        return self.done(f"The run is shared with {user}.")


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
