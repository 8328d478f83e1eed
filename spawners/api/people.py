"""``/hub/api/portal/people``: whom the Hub knows, and from a POST on the people of a roster too, as
if they had logged in.

It answers the service's own token and nothing else. Who may log in is said by the authenticator,
which asks the directory; nobody is made here who could not come by themselves.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from jupyterhub import orm
from jupyterhub.scopes import get_scopes_for

from portal.errors import InvalidRequest, NotFound, PortalError
from portal.models.scope import COURSES_CREATE

from .moves import MovesBase

MAX_BODY = 1024 * 1024  # bytes; a roster of 5,000
_MOST = 5000
_AT_ONCE = 8  # questions to the directory
_NO_DIRECTORY = (
    "They have never logged in, and this site's authenticator tells nobody who there is: they log "
    "in once by themselves."
)


class PeopleHandler(MovesBase):
    """GET takes names (``?name=ada&name=grace``) or a group (``?group=NAME``); the answer is
    ``{"people": {NAME: {"teaches": BOOL, "mail": ADDRESS or null}}}``, of whom the Hub knows, and
    of a group's people the names alone.

    A POST's body is ``{"people": [NAME, …]}``, the answer ``{"made": [NAME, …], "refused": {NAME:
    why}}``. ``made`` are those whom the Hub knows from now on and did not before."""

    async def get(self) -> None:
        try:
            people = await self._known()
        except PortalError as error:
            self.refuse(error)
            return
        self.answer({"people": people})

    async def _known(self) -> dict[str, dict[str, Any]]:
        """Raises NotFound where there is no such group."""
        if group := self.get_query_argument("group", ""):
            found = orm.Group.find(self.db, group)
            if found is None:
                raise NotFound(f"The Hub has no group '{group}'.")
            return {user.name: {} for user in found.users}
        users = {name: self.find_user(name) for name in self.get_query_arguments("name")}
        return {name: await self._told(user) for name, user in users.items() if user is not None}

    async def _told(self, user: Any) -> dict[str, Any]:
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
        turns = asyncio.Semaphore(_AT_ONCE)
        made: list[str] = []
        refused: dict[str, str] = {}

        async def one(name: str) -> None:
            async with turns:
                if self.find_user(name) is not None:
                    return
                try:
                    await self._make(name)
                except PortalError as error:
                    refused[name] = error.message
                else:
                    made.append(name)

        await asyncio.gather(*map(one, names))
        self.answer({"made": sorted(made), "refused": refused})

    async def _make(self, name: str) -> None:
        """Raises PortalError with the reason why not."""
        model_of = getattr(self.authenticator, "model_of", None)
        if model_of is None:
            raise InvalidRequest(_NO_DIRECTORY)
        model = await model_of(name)
        # What JupyterHub itself does at a login: the user, groups, rights.
        await self.auth_to_user(model)

    def _names(self) -> list[str]:
        try:
            body = json.loads(self.request.body) if len(self.request.body) <= MAX_BODY else None
        except (ValueError, RecursionError):
            body = None
        names = body.get("people") if isinstance(body, dict) else None
        if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
            raise InvalidRequest("The body must be a JSON object with a list of names, 'people'.")
        if len(names) > _MOST:
            raise InvalidRequest(f"At most {_MOST} people at once.", "people")
        return list(dict.fromkeys(names))
