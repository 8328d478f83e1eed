"""``/hub/api/portal/people``: people known to the Hub, with those of a roster after a POST, as if
they had logged in.

It accepts the service's own token and nothing else. The authenticator decides who may log in, and
asks the directory; nobody is added here who could not log in by themselves.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from jupyterhub import orm
from jupyterhub.scopes import get_scopes_for

from portal.directory.login import may_log_in
from portal.errors import InvalidRequest, NotFound, PortalError
from portal.models.scope import COURSES_CREATE

from .moves import MovesBase

MAX_BODY = 1024 * 1024  # bytes; a roster of 5,000
_MOST = 5000
_AT_ONCE = 8  # questions to the directory
_NO_DIRECTORY = (
    "The user has never signed in, and this site's authenticator cannot look up users. The "
    "user must sign in once."
)


class PeopleHandler(MovesBase):
    """Handler of GET and POST.

    GET takes names (``?name=ada&name=grace``) or a group (``?group=NAME``); the response is
    ``{"people": {NAME: {"teaches": BOOL, "mail": ADDRESS or null}}}`` for those known to the Hub,
    and for a group's people the names alone. With ``login=1`` each has "may_log_in" too.

    A POST's body is ``{"people": [NAME, …]}``, the response ``{"made": [NAME, …], "refused":
    {NAME: why}}``. ``made`` are those who are new to the Hub."""

    async def get(self) -> None:
        try:
            people = await self._known()
        except PortalError as error:
            self.refuse(error)
            return
        self.answer({"people": people})

    async def _known(self) -> dict[str, dict[str, Any]]:
        """Return the requested people. Raises NotFound if there is no such group."""
        if group := self.get_query_argument("group", ""):
            orm_group = orm.Group.find(self.db, group)
            if orm_group is None:
                raise NotFound(f"The Hub has no group '{group}'.")
            return {user.name: {} for user in orm_group.users}
        users = {name: self.find_user(name) for name in self.get_query_arguments("name")}
        known = {name: user for name, user in users.items() if user is not None}
        people = {name: await self._model_of(user) for name, user in known.items()}
        if self.get_query_argument("login", ""):
            for name, user in known.items():
                people[name]["may_log_in"] = await may_log_in(self.authenticator, user)
        return people

    async def _model_of(self, user: Any) -> dict[str, Any]:
        mail_in = getattr(self.authenticator, "mail_in", None)
        return {
            "teaches": COURSES_CREATE in get_scopes_for(user.orm_user),
            "mail": mail_in(await user.get_auth_state()) if mail_in else None,
        }

    async def post(self) -> None:
        try:
            names = self._names()
        except PortalError as error:
            self.refuse(error)
            return
        limit = asyncio.Semaphore(_AT_ONCE)
        created: list[str] = []
        refused: dict[str, str] = {}

        async def make(name: str) -> None:
            async with limit:
                if self.find_user(name) is not None:
                    return
                try:
                    await self._make(name)
                except PortalError as error:
                    refused[name] = error.message
                else:
                    created.append(name)

        await asyncio.gather(*map(make, names))
        self.answer({"made": sorted(created), "refused": refused})

    async def _make(self, name: str) -> None:
        """Add a person to the Hub. Raises PortalError with the reason if that fails."""
        model_of = getattr(self.authenticator, "model_of", None)
        if model_of is None:
            raise InvalidRequest(_NO_DIRECTORY)
        model = await model_of(name)
        # As JupyterHub itself does at a login: the user, groups, rights.
        await self.auth_to_user(model)

    def _names(self) -> list[str]:
        try:
            body = json.loads(self.request.body) if len(self.request.body) <= MAX_BODY else None
        except (ValueError, RecursionError):
            body = None
        names = body.get("people") if isinstance(body, dict) else None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InvalidRequest("The body must be a JSON object with a list of names, 'people'.")
        if len(names) > _MOST:
            raise InvalidRequest(f"At most {_MOST} users in one request.", "people")
        return list(dict.fromkeys(names))
