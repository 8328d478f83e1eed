"""The moves of running sessions, as the Hub told them last.

The Hub does the moving; the service asks for it, and shows how it goes. While a move is under way
one question a second serves everybody who looks, and none is asked while there is none.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from portal.cache import SharedAnswers
from portal.errors import HubUnavailable, PortalError
from portal.hubapi import HubApi
from portal.launch.fields import KEPT, DialogField
from portal.models import Frozen
from portal.models.session.move import LIVE, Move
from portal.models.session.session import SessionRecord

_WHILE_LIVE = 1.0  # seconds between two questions
_AFTERWARDS = 60.0  # the Hub forgets a move some minutes after its end
_FAILED = 5.0  # seconds until the next try when the Hub did not answer


class BeforeMove(Frozen):
    """What to know of a session before it moves. ``busy``: the kernels that compute, by the names
    of their notebooks; null where its server does not say. ``options`` are the session's own,
    ``gpu_types`` what the cluster has. ``fields``: what is asked for; ``kept``: which of the
    session's options stay where nothing else is said."""

    move: Move | None = None
    busy: tuple[str, ...] | None = None
    options: dict[str, Any] = {}
    gpu_types: tuple[str, ...] = ()
    fields: tuple[DialogField, ...] = ()
    kept: tuple[str, ...] = ("environment", *KEPT)


def options_of(record: SessionRecord) -> dict[str, Any]:
    """The ``user_options`` of a session."""
    return {"environment": record.environment, **record.options}


class Moves:
    """One a service. Sessions are named by their ids; a session that has moved has a new one."""

    def __init__(self, hub: HubApi, log: logging.Logger) -> None:
        self._hub, self._log = hub, log
        self._known: dict[str, Move] = {}
        self._due = 0.0  # time.monotonic(); the first question is asked at once
        self._asking: asyncio.Task[None] | None = None
        self._before = SharedAnswers[str, dict[str, Any]](ttl=0.0, keep=False)

    def of(self, session_id: str) -> Move | None:
        """The session's move as it is known now; a newer answer is fetched behind the scenes."""
        self._ask_if_due()
        return self._known.get(session_id)

    def moving(self, session_id: str) -> bool:
        """Whether a job waits to take this session's place."""
        move = self.of(session_id)
        return move is not None and move.state in LIVE

    def expects(self, job_id: str) -> bool:
        """Whether this job is to take a session's place, so that it is no session yet."""
        self._ask_if_due()
        return any(move.job_id == job_id and move.state in LIVE for move in self._known.values())

    async def before(self, record: SessionRecord) -> BeforeMove:
        """Asks the Hub, and through it the session's server: once at a time for one session, since
        that server may be slow or silent. Raises NotFound, HubUnavailable."""
        answer = self._before.of(record.id)
        said = await answer.get(lambda: self._hub.move(record.user, record.server))
        try:
            found = BeforeMove(**said, options=options_of(record))
        except ValidationError:
            raise HubUnavailable("The Hub's answer about this session cannot be read.") from None
        self._note(record.id, found.move)
        return found

    async def begin(
        self, record: SessionRecord, options: Mapping[str, Any], on_behalf_of: str
    ) -> Move:
        """Have a job with the resources in ``options`` queued, to take the session's place.

        Raises what the Hub says: InvalidRequest, NotAllowed, Conflict, NotFound, SlurmRefused,
        SlurmUnavailable, HubUnavailable.
        """
        said = await self._hub.begin_move(
            record.user, record.server, options, on_behalf_of=on_behalf_of
        )
        return self._noted(record.id, said)

    async def cancel(self, record: SessionRecord, on_behalf_of: str) -> Move:
        """Call it off. Raises Conflict when there is none or it is too late, HubUnavailable."""
        said = await self._hub.cancel_move(record.user, record.server, on_behalf_of=on_behalf_of)
        return self._noted(record.id, said)

    # -------------------------------------------------------------------------------------------

    def _noted(self, session_id: str, said: Mapping[str, Any]) -> Move:
        try:
            move = Move(**said)
        except ValidationError:
            raise HubUnavailable("The Hub's answer about this session cannot be read.") from None
        self._note(session_id, move)
        return move

    def _note(self, session_id: str, move: Move | None) -> None:
        if move is None:
            self._known.pop(session_id, None)
        else:
            self._known[session_id] = move
            if move.state in LIVE:
                self._due = min(self._due, time.monotonic() + _WHILE_LIVE)

    def _ask_if_due(self) -> None:
        if self._asking is None and time.monotonic() >= self._due:
            self._asking = asyncio.ensure_future(self._ask())
            self._asking.add_done_callback(self._asked)

    def _asked(self, _: asyncio.Task[None]) -> None:
        self._asking = None

    async def _ask(self) -> None:
        try:
            said = await self._hub.moves()
            self._known = {one["session"]: Move(**one["move"]) for one in said}
        except PortalError as error:  # what was known stays
            self._log.debug("Moves are asked for again: %s", error)
            self._due = time.monotonic() + _FAILED
        except Exception:
            self._log.exception("The Hub's moves cannot be read")
            self._due = time.monotonic() + _AFTERWARDS
        else:
            live = any(move.state in LIVE for move in self._known.values())
            pause = _WHILE_LIVE if live else _AFTERWARDS if self._known else float("inf")
            self._due = time.monotonic() + pause
