"""``POST /hub/api/portal/people``: the Hub knows the people of a roster, as if they had logged in.

It answers the service's own token and nothing else. Who may log in is said by the authenticator,
which asks the directory; nobody is made here who could not come by themselves.
"""

from __future__ import annotations

import asyncio
import json

from portal.errors import InvalidRequest, PortalError

from .moves import MovesBase

MAX_BODY = 1024 * 1024  # bytes; a roster of 5,000
_MOST = 5000
_AT_ONCE = 8  # questions to the directory
_NO_DIRECTORY = (
    "They have never logged in, and this site's authenticator tells nobody who there is: they log "
    "in once by themselves."
)


class PeopleHandler(MovesBase):
    """The body is ``{"people": [NAME, …]}``, the answer ``{"made": [NAME, …], "refused": {NAME:
    why}}``. ``made`` are those whom the Hub knows from now on and did not before."""

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
