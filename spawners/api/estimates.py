"""Estimates of a session's start: the launch page's route, and the record of what was known."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from jupyterhub.apihandlers import APIHandler
from jupyterhub.scopes import needs_scope
from tornado import web

from portal.errors import InvalidRequest, NotAllowed, PortalError
from portal.launch.request import Asked, LaunchRequest, option_keys, options_from_fields
from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.session.estimate import StartAnswer

from ..launch.launch import considered
from ..session import SessionSpawner

MAX_BODY = 8192  # bytes: a filled-in launch form is a tenth of it

_notes: set[asyncio.Task[None]] = set()  # asyncio itself keeps only weak references


class EstimateHandler(APIHandler):
    """``POST /hub/api/portal/estimates/NAME`` with the fields of the launch form as a JSON object:
    estimated start of a session of that person with this choice."""

    @needs_scope("start:servers")
    async def post(self, user_name: str) -> None:
        """Respond 200 with a StartAnswer, also for a choice that is not allowed; 400, 429 and 503
        say in ``message`` what is wrong."""
        user = self.find_user(user_name)
        if user is None:
            raise web.HTTPError(404)
        spawner = user.spawners[""]
        if not hasattr(spawner, "shared"):
            raise web.HTTPError(404)  # another spawner class of the site
        try:
            spawner.shared.estimates.admit(self.current_user.name)
            answer = await self._answer(spawner)
        except PortalError as error:
            raise web.HTTPError(error.status, error.message) from None
        self.finish(answer.model_dump_json())

    def _record_activity(self, obj: Any, timestamp: Any = None) -> bool:
        """Record nothing: a page asks by itself, and storing it would be a commit each."""
        return False

    async def _answer(self, spawner: SessionSpawner) -> StartAnswer:
        asked = Asked.parse(options_from_fields(self._fields()))
        estimates = spawner.shared.estimates
        try:
            request, snapshot, associations = await considered(spawner, asked)
        except NotAllowed as error:
            return estimates.refusal(error)
        return await estimates.answer(request, spawner.person, snapshot, associations)

    def _fields(self) -> dict[str, str | int]:
        """Return the fields of the form; refuse those that are no options of a session."""
        body = self.request.body
        try:
            fields = json.loads(body) if len(body) <= MAX_BODY else None
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise InvalidRequest("The body must be a JSON object with the fields of the form.")
        for name, value in fields.items():
            if name not in option_keys():
                raise InvalidRequest(
                    f"The options are: {', '.join(option_keys())}.", field=str(name)[:60]
                )
            if type(value) not in (str, int):
                raise InvalidRequest(f"'{name}' must be text or a whole number.", field=name)
        return fields


def note(spawner: SessionSpawner, request: LaunchRequest, session_id: str) -> None:
    """Record what is known of the start of the session that was just submitted. Returns at once;
    errors are logged, and no launch waits for it."""
    snapshot = spawner.shared.cluster.last
    if snapshot is None:
        return
    task = asyncio.ensure_future(_note(spawner, request, session_id, snapshot))
    _notes.add(task)
    task.add_done_callback(_notes.discard)


async def _note(
    spawner: SessionSpawner, request: LaunchRequest, session_id: str, snapshot: ClusterSnapshot
) -> None:
    shared, now, name = spawner.shared, time.time(), spawner.user.name
    try:
        associations = await shared.cluster.associations(name)
        known = shared.estimates.known(request.resources, name, snapshot, associations)
        source = known.basis.value or "unknown"
        await shared.store.estimates.add_estimate(session_id, now, known.starts_at, source)
    except PortalError as error:
        spawner.log.debug("The estimate of session %s is not recorded: %s", session_id, error)
    except Exception:
        spawner.log.exception("The estimate of session %s is not recorded", session_id)
