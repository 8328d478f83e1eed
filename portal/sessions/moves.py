"""Moves of running sessions to other resources, as the Hub last reported them.

The Hub moves a session; the service requests it and shows its progress. While a move is under way,
one request a second serves all viewers; otherwise the Hub is not asked.
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
from portal.launch.choices.dialog_fields import DialogField
from portal.launch.fields import INHERITED
from portal.models import Frozen
from portal.models.cluster.cluster import Job
from portal.models.session.move import LIVE, Move
from portal.models.session.resources import Duration, Memory
from portal.models.session.session import SessionRecord

_WHILE_LIVE = 1.0  # seconds between two requests
_AFTERWARDS = 60.0  # the Hub forgets a move some minutes after its end
_FAILED = 5.0  # seconds until the next try when the Hub did not answer


class BeforeMove(Frozen):
    """State of a session before it moves. ``busy``: kernels that compute, by the names of their
    notebooks; null: its server does not say. ``options`` are the session's own, ``gpu_types`` the
    cluster's. ``fields``: the dialog's; ``kept``: options that stay unless given anew."""

    move: Move | None = None
    busy: tuple[str, ...] | None = None
    options: dict[str, Any] = {}
    gpu_types: tuple[str, ...] = ()
    fields: tuple[DialogField, ...] = ()
    kept: tuple[str, ...] = ("environment", *INHERITED)


def options_of(record: SessionRecord) -> dict[str, Any]:
    """Return the ``user_options`` of a session, as they would be asked for again."""
    return record.again


def options_now(record: SessionRecord, job: Job | None) -> dict[str, Any]:
    """Return ``options_of`` with what its job holds: the time as extended, and the type, CPUs and
    memory that the launch left to defaults."""
    if job is None:
        return options_of(record)
    held: dict[str, Any] = {"gpu_type": job.gpu_type} if job.gpus else {}
    if len(job.nodes) == 1:  # Slurm's numbers are of all nodes
        held |= {"cpus": job.cpus, "memory": job.memory and str(Memory(job.memory))}
    limit = {"time": str(Duration(job.time_limit))} if job.time_limit else {}
    given = {name: value for name, value in held.items() if value}
    return {**given, **options_of(record), **limit}


class Moves:
    """Moves of all sessions, one instance per service. Sessions are identified by their ids; a
    session that has moved has a new one."""

    def __init__(self, hub: HubApi, log: logging.Logger) -> None:
        self._hub, self._log = hub, log
        self._known: dict[str, Move] = {}
        self._due = 0.0  # time.monotonic(); the first request is sent at once
        self._asking: asyncio.Task[None] | None = None
        self._before = SharedAnswers[str, dict[str, Any]](ttl=0.0, keep=False)

    def move_of(self, session_id: str) -> Move | None:
        """Return the session's move as known now; a newer answer is fetched in the background."""
        self._ask_if_due()
        return self._known.get(session_id)

    def moving(self, session_id: str) -> bool:
        """Return True if a job waits to take this session's place."""
        move = self.move_of(session_id)
        return move is not None and move.state in LIVE

    def expects(self, job_id: str) -> bool:
        """Return True if this job is to take a session's place, so that it is no session yet."""
        self._ask_if_due()
        return any(move.job_id == job_id and move.state in LIVE for move in self._known.values())

    async def before(self, record: SessionRecord) -> BeforeMove:
        """Ask the Hub, and through it the session's server: one request at a time for each
        session, since that server may be slow or silent. Raises NotFound, HubUnavailable."""
        shared = self._before.for_key(record.id)
        response = await shared.get(lambda: self._hub.move(record.user, record.server))
        try:
            before = BeforeMove(**response, options=options_of(record))
        except ValidationError:
            raise HubUnavailable("The Hub's answer about this session cannot be read.") from None
        self._note(record.id, before.move)
        return before

    async def begin(
        self, record: SessionRecord, options: Mapping[str, Any], on_behalf_of: str
    ) -> Move:
        """Queue a job with the resources in ``options``, to take the session's place.

        Raises the Hub's errors: InvalidRequest, NotAllowed, Conflict, NotFound, SlurmRefused,
        SlurmUnavailable, HubUnavailable.
        """
        response = await self._hub.begin_move(
            record.user, record.server, options, on_behalf_of=on_behalf_of
        )
        return self._noted(record.id, response)

    async def cancel(self, record: SessionRecord, on_behalf_of: str) -> Move:
        """Cancel the move. Raises Conflict if there is none or it is too late, HubUnavailable."""
        response = await self._hub.cancel_move(
            record.user, record.server, on_behalf_of=on_behalf_of
        )
        return self._noted(record.id, response)

    # -------------------------------------------------------------------------------------------

    def _noted(self, session_id: str, response: Mapping[str, Any]) -> Move:
        try:
            move = Move(**response)
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
            response = await self._hub.moves()
            self._known = {entry["session"]: Move(**entry["move"]) for entry in response}
        except PortalError as error:  # what was known stays
            self._log.debug("The Hub's moves could not be read, trying again: %s", error)
            self._due = time.monotonic() + _FAILED
        except Exception:
            self._log.exception("The Hub's moves cannot be read")
            self._due = time.monotonic() + _AFTERWARDS
        else:
            live = any(move.state in LIVE for move in self._known.values())
            pause = _WHILE_LIVE if live else _AFTERWARDS if self._known else float("inf")
            self._due = time.monotonic() + pause
