"""``/hub/api/portal/users``: users that the Hub knows, for the portal's page of users.

It accepts the service's own token and nothing else. JupyterHub's list of users reads every user's
servers into memory; this one reads a page. A change needs the rights that JupyterHub would demand,
held by the user for whom the service asks, not by the service.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from jupyterhub import orm
from jupyterhub.roles import assign_default_roles
from jupyterhub.scopes import get_scopes_for
from jupyterhub.utils import maybe_future
from sqlalchemy import Select, func, select
from sqlalchemy.orm import selectinload

from portal.errors import Conflict, InvalidRequest, NotAllowed, NotFound, PortalError

from ..lifecycle.stop_reason import FOR_HEADER
from .moves import MAX_BODY, MovesBase

_MOST = 500  # users of one page
_SORTS = {name: getattr(orm.User, name) for name in ("name", "created", "last_activity")}
# Not EXISTS: the servers of a user have no index, and 10,000 users would hold up the Hub for 9 s.
_ACTIVE = orm.User.id.in_(select(orm.Spawner.user_id).where(orm.Spawner.server_id.is_not(None)))


class UsersHandler(MovesBase):
    """Handler of GET.

    Query: ``text`` (contained in the name), ``group``, ``role``, ``admin=1``, ``active=1`` (with a
    server that runs or starts), ``sort``, ``offset``, ``limit``. The response has the page's
    "users", the "total", and "may", the scopes for changes that the asking user holds; times are
    Unix seconds.
    """

    def get(self) -> None:
        try:
            query = self._query()
        except PortalError as error:
            self.refuse(error)
            return
        total = self.db.scalar(select(func.count()).select_from(query.subquery()))
        rows = self.db.scalars(self._page(query)).all()
        sessions = self._sessions(row.id for row in rows)
        users = [_model(row, sessions.get(row.id, 0)) for row in rows]
        self.answer({"users": users, "total": total, "may": sorted(self._may())})

    def _query(self) -> Select[Any]:
        word = self.get_query_argument
        query = select(orm.User)
        if text := word("text", ""):
            query = query.where(orm.User.name.icontains(text, autoescape=True))
        if group := word("group", ""):
            query = query.where(orm.User.groups.any(orm.Group.name == group))
        if role := word("role", ""):
            of_group = orm.User.groups.any(orm.Group.roles.any(orm.Role.name == role))
            query = query.where(orm.User.roles.any(orm.Role.name == role) | of_group)
        if word("admin", ""):
            query = query.where(orm.User.admin)
        if word("active", ""):
            query = query.where(_ACTIVE)
        return query

    def _page(self, query: Select[Any]) -> Select[Any]:
        sort = self.get_query_argument("sort", "name")
        column = _SORTS.get(sort.removeprefix("-"), orm.User.name)
        order = column.desc() if sort.startswith("-") else column.asc()
        offset, limit = (
            int(self.get_query_argument(name, usual))
            for name, usual in (("offset", "0"), ("limit", "50"))
        )
        query = query.order_by(order.nulls_last(), orm.User.name)
        groups = selectinload(orm.User.groups).selectinload(orm.Group.roles)
        query = query.options(groups, selectinload(orm.User.roles))
        return query.offset(max(0, offset)).limit(min(max(1, limit), _MOST))

    def _sessions(self, ids: Iterable[int]) -> dict[int, int]:
        """Return the number of servers that run or start, by the user's id."""
        owner = orm.Spawner.user_id
        query = select(owner, func.count()).where(owner.in_(list(ids)))
        counted = query.where(orm.Spawner.server_id.is_not(None)).group_by(owner)
        return {row[0]: row[1] for row in self.db.execute(counted)}

    def _may(self) -> set[str]:
        actor = _actor(self)
        return {"admin:users", "delete:users"} & get_scopes_for(actor) if actor else set()


class UserHandler(MovesBase):
    """``/hub/api/portal/users/USER``: make an admin or no admin of a user (PATCH with
    ``{"admin": BOOL}``), and have the Hub forget a user without sessions (DELETE)."""

    async def patch(self, name: str) -> None:
        try:
            admin = self._admin()
            user = self._user(name, "admin:users")
        except PortalError as error:
            self.refuse(error)
            return
        user.admin = admin
        assign_default_roles(self.db, entity=user.orm_user)
        self.db.commit()
        self.answer({"name": user.name, "admin": admin})

    async def delete(self, name: str) -> None:
        try:
            user = self._user(name, "delete:users")
            if any(spawner.active for spawner in user.all_spawners()):
                raise Conflict(f"{name} has sessions. Stop them first, then delete the user.")
        except PortalError as error:
            self.refuse(error)
            return
        # As JupyterHub itself does (apihandlers/users.py).
        await maybe_future(self.authenticator.delete_user(user))
        await user.delete_spawners()
        self.users.delete(user)
        self.answer({"name": name})

    def _user(self, name: str, scope: str) -> Any:
        """Return the user to change. Raises NotFound, and NotAllowed as JupyterHub would."""
        actor = _actor(self)
        if actor is None or scope not in get_scopes_for(actor) or not actor.admin:
            raise NotAllowed("Only an admin of the Hub can do this.")
        user = self.find_user(name)
        if user is None:
            raise NotFound(f"The Hub has no user '{name}'.")
        if user.name == actor.name:
            raise Conflict("You cannot do this to yourself. Ask another admin.")
        return user

    def _admin(self) -> bool:
        try:
            body = json.loads(self.request.body) if len(self.request.body) <= MAX_BODY else None
        except (ValueError, RecursionError):
            body = None
        admin = body.get("admin") if isinstance(body, dict) else None
        if not isinstance(admin, bool):
            raise InvalidRequest("The body must be a JSON object with 'admin', true or false.")
        return admin


def _actor(handler: MovesBase) -> orm.User | None:
    """Return the user for whom the service asks."""
    return orm.User.find(handler.db, unquote(handler.request.headers.get(FOR_HEADER, "")))


def _model(row: Any, sessions: int) -> dict[str, Any]:
    roles = {role.name for held in (row, *row.groups) for role in held.roles}
    return {
        "name": row.name,
        "admin": bool(row.admin),
        "groups": sorted(group.name for group in row.groups),
        "roles": sorted(roles),
        "created_at": _seconds(row.created),
        "seen_at": _seconds(row.last_activity),
        "sessions": sessions,
    }


def _seconds(at: datetime | None) -> float | None:
    """Return Unix seconds of a time in the Hub's database, which is in UTC without saying so."""
    return at.replace(tzinfo=UTC).timestamp() if at else None
