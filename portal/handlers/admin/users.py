"""``api/v1/users``: users that the Hub knows, for those who manage them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from portal.errors import InvalidRequest
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.scope import USERS_MANAGE

from ..base.action import Action, Confirmation
from ..base.csv import MEDIA, MOST, CsvEndpoint
from ..base.endpoint import Endpoint, Operation, Query
from ..base.listing import Text
from ..base.paging import Page, PageQuery, page

USER = r"[^/]{1,255}"
_AT_ONCE = 500  # users in one request to the Hub
_Name = Annotated[str, Field(max_length=255)]


class UserFilter(Query):
    """Filters and order of users."""

    text: Annotated[Text, Field(description="Text contained in the name.")] = None
    group: Annotated[_Name, Field(description="Members of this group of the Hub.")] = ""
    role: Annotated[_Name, Field(description="Holders of this role of the Hub.")] = ""
    admin: Annotated[bool, Field(description="Admins of the Hub only.")] = False
    active: Annotated[bool, Field(description="Users with sessions only.")] = False
    sort: Literal[
        "name", "-name", "created", "-created", "last_activity", "-last_activity",
    ] = "name"  # fmt: skip

    def words(self, offset: int, limit: int) -> dict[str, Any]:
        """Return the query for the Hub."""
        given = {name: getattr(self, name) for name in UserFilter.model_fields}
        chosen = {name: 1 if value is True else value for name, value in given.items() if value}
        return {**chosen, "offset": offset, "limit": limit}


class UserQuery(PageQuery, UserFilter):
    """Filters, order and page of users."""


class UserItem(Frozen):
    """User of the Hub. Times are Unix seconds; null: never. ``seen_at`` is the last activity that
    the Hub knows of, ``sessions`` the number of sessions that run or start, with kernels and runs.
    """

    name: str
    admin: bool
    groups: tuple[str, ...]
    roles: tuple[str, ...]  # with those of the groups
    created_at: float | None
    seen_at: float | None
    sessions: int


class UserPage(Page[UserItem]):
    """Page of users. ``may``: scopes of the Hub for changes of users that you hold."""

    may: tuple[str, ...]


class AdminChange(Frozen):
    """New answer to whether a user is an admin of the Hub."""

    admin: bool


class Users(Endpoint):
    """List of users."""

    path = "users"

    @Operation("List users.", query=UserQuery, scope=USERS_MANAGE)
    async def on_get(self) -> UserPage:
        """Return the users that the Hub knows: those who have signed in, and those of rosters."""
        query = self.query
        answer = await self.parts.hub.users(
            query.words(query.offset, query.limit), on_behalf_of=self.person.name
        )
        shown = page(_items(answer), query, int(answer.get("total", 0)))
        return UserPage(**dict(shown), may=tuple(answer.get("may", ())))


class UsersCsv(CsvEndpoint):
    """Users as a file."""

    path = "users.csv"
    columns = tuple(UserItem.model_fields)
    times = frozenset({"created_at", "seen_at"})

    @Operation("The users as CSV.", query=UserFilter, scope=USERS_MANAGE, media=MEDIA)
    async def rows(self) -> Sequence[UserItem]:
        items: list[UserItem] = []
        total = 1
        while len(items) < total:
            answer = await self.parts.hub.users(
                self.query.words(len(items), _AT_ONCE), on_behalf_of=self.person.name
            )
            rows, total = _items(answer), int(answer.get("total", 0))
            if total > MOST:
                raise InvalidRequest(
                    f"The list has {total} users; a CSV file has at most {MOST}. Filter the list."
                )
            if not rows:
                break
            items += rows
        return items


class OneUser(Action):
    """User by name."""

    path = "users/{user}"
    parameters = {"user": USER}

    @Operation(
        "Change whether a user is an admin.",
        body=AdminChange,
        scope=USERS_MANAGE,
        errors=(409,),
    )
    async def on_patch(self, user: str) -> Confirmation:
        """Change the Hub's own admins; the Hub checks that you are one. At the next sign-in, the
        site's login may decide again."""
        admin = self.body.admin
        action = AuditAction.MAKE_ADMIN if admin else AuditAction.REMOVE_ADMIN
        async with self.audited(action, f"user {user}", user):
            await self.parts.hub.set_admin(user, admin, on_behalf_of=self.person.name)
        return self.done(f"{user} is {'now' if admin else 'no longer'} an admin.")

    @Operation("Delete a user.", scope=USERS_MANAGE, errors=(409,))
    async def on_delete(self, user: str) -> Confirmation:
        """Have the Hub forget a user without sessions: tokens end, and schedules of runs pause.
        Files, ended sessions and the account itself stay."""
        async with self.audited(AuditAction.DELETE_USER, f"user {user}", user):
            await self.parts.hub.delete_user(user, on_behalf_of=self.person.name)
        return self.done(f"{user} is deleted.")


def _items(answer: Mapping[str, Any]) -> list[UserItem]:
    return [UserItem.model_validate(row) for row in answer.get("users", ())]


ENDPOINTS = (Users, UsersCsv, OneUser)
