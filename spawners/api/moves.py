"""Routes by which the portal's service moves sessions to other resources.

They accept the service's own token and nothing else: it has checked who asks, and writes the audit
log. Requests are checked here once more, as a launch of the session's owner.
"""

from __future__ import annotations

import json
from typing import Any

from jupyterhub import orm
from jupyterhub.apihandlers import APIHandler
from tornado import web

from portal.errors import InvalidRequest, NotFound, PortalError

from ..launch.refusals import refusal_headers
from ..lifecycle.stop_reason import SERVICE, asked_by
from ..resize.handover import busy_kernels

MAX_BODY = 4096  # bytes


class MovesBase(APIHandler):
    """Base class of the routes for the portal's service."""

    def check_xsrf_cookie(self) -> None:
        """Skip the check: only a service's token is accepted."""

    async def prepare(self) -> None:
        await super().prepare()
        who = self.current_user
        if not isinstance(who, orm.Service) or who.name != SERVICE:
            raise web.HTTPError(403, "Only the portal's service may call this.")

    def answer(self, model: Any, status: int = 200) -> None:
        self.set_status(status)
        self.finish(json.dumps(model))

    def refuse(self, error: PortalError) -> None:
        """Respond with the error's message; its code is the reason, as in those to launches."""
        self.set_status(error.status, error.code)
        for name, value in refusal_headers(error).items():
            self.set_header(name, value)
        self.finish(json.dumps({"status": error.status, "message": error.message}))


class MovesHandler(MovesBase):
    """``GET /hub/api/portal/moves``: moves that are under way, or were a few minutes ago."""

    def get(self) -> None:
        moves = []
        for user in self.users.values():
            for spawner in user.spawners.values():
                if hasattr(spawner, "moving") and spawner.moving.notified:
                    model = spawner.moving.shown().model_dump(mode="json")
                    record = spawner.history.record
                    moves.append({"session": record.id if record else "", "move": model})
        self.answer({"moves": moves})


class MoveHandler(MovesBase):
    """``/hub/api/portal/moves/USER/SERVER``: begin (POST with user_options), cancel (DELETE), and
    read the move and the kernels that compute (GET)."""

    async def get(self, user: str, server: str) -> None:
        try:
            spawner = self._spawner(user, server)
        except PortalError as error:
            self.refuse(error)
            return
        move = spawner.moving.shown()
        busy = await busy_kernels(spawner) if spawner.ready and spawner.serves else None
        self.answer({"move": move.model_dump(mode="json") if move else None, "busy": busy})

    async def post(self, user: str, server: str) -> None:
        try:
            move = await self._spawner(user, server).moving.begin(self._options(), asked_by(self))
        except PortalError as error:
            self.refuse(error)
            return
        self.answer(move.model_dump(mode="json"), 202)

    async def delete(self, user: str, server: str) -> None:
        try:
            move = await self._spawner(user, server).moving.cancel(asked_by(self))
        except PortalError as error:
            self.refuse(error)
            return
        self.answer(move.model_dump(mode="json"))

    def _spawner(self, name: str, server: str) -> Any:
        user = self.find_user(name)
        if user is None or server not in user.orm_user.orm_spawners:
            raise NotFound("There is no such session.")
        spawner = user.spawners[server]
        if not hasattr(spawner, "moving"):
            raise NotFound("This session is not one of the portal's.")
        return spawner

    def _options(self) -> dict[str, Any]:
        try:
            options = json.loads(self.request.body) if len(self.request.body) <= MAX_BODY else None
        except (ValueError, RecursionError):
            options = None
        if not isinstance(options, dict):
            raise InvalidRequest("The body must be a JSON object with resources.")
        return options
