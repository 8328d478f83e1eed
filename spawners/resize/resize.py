"""Change of a running session's resources: a second job is queued, and takes its place.

The session goes on while the job waits, starts, and until its server answers. Any failure before
that leaves the session as it was. The second job is part of the spawner's state, so that the next
Hub goes on where this one ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from jupyterhub import orm
from jupyterhub.utils import AnyTimeoutError, wait_for_http_server
from pydantic import ValidationError

from portal.errors import Conflict, PortalError, SlurmUnavailable, StartFailed
from portal.models.cluster.cluster import Job
from portal.models.session.move import LIVE, Move, MoveState
from portal.sessions.ending import Ending, explain

from ..form import words
from ..launch.job_log import log_tail
from ..launch.launch import launch_request
from ..lifecycle.job_watch import JobWatch
from ..lifecycle.session_history import SessionHistory
from ..lifecycle.wait_for_server import JobOver, NoServer, address_of
from ..session import SessionSpawner
from ..session_server import client_tls
from .handover import hand_over
from .jobs_to_end import JobsToEnd
from .queueing import queue_successor, whole_options
from .successor import Successor

# The session was ended on purpose: no other job takes its place.
_ON_PURPOSE = frozenset({"completed", "stopped", "cancelled"})
_REMEMBERED = 600.0  # seconds for which an ended move is still shown
_ARRIVED = (MoveState.READY, MoveState.SWITCHING)


class SessionResize:
    """Move of one spawner's session. ``current``: the last one, over or not.

    ``wait_for_server`` returns once the session's server is there, or raises StartFailed.
    """

    def __init__(
        self,
        spawner: SessionSpawner,
        history: SessionHistory,
        wait_for_server: Callable[[], Awaitable[object]],
    ) -> None:
        self._spawner, self._history = spawner, history
        self._wait_for_server = wait_for_server
        self.current: Successor | None = None
        self._over_at = float("-inf")  # time of its end, by time.monotonic()
        self._leaving = JobsToEnd(spawner)
        self._beginning = False
        self._token = ""  # of the new server; it never leaves this process's memory
        self._announced = asyncio.Event()
        self._watch: JobWatch | None = None
        self._task: asyncio.Task[None] | None = None

    # -- requests -------------------------------------------------------------------------------

    @property
    def live(self) -> bool:
        """Return True if a job waits to take the session's place."""
        return self.current is not None and self.current.live

    @property
    def notified(self) -> bool:
        """Return True if the last move is shown: it is under way, or was a few minutes ago."""
        over = time.monotonic() - self._over_at
        return self.live or (self.current is not None and over < _REMEMBERED)

    def shown(self) -> Move | None:
        """Return the last move as it is shown; None if there was none."""
        if self.current is None:
            return None
        job = self._watch.job if self._watch and self.current.live else None
        waiting = job is not None and job.state.pending
        return self.current.move(
            job.start_time if job and waiting else None,
            self._watch.position if self._watch and waiting else None,
        )

    async def begin(self, options: Mapping[str, Any], by: str) -> Move:
        """Queue a job with the resources in ``options`` to take the session's place.

        ``by`` asks for it. Raises PortalError with the reason; no job is left then.
        """
        asked = whole_options(self._spawner.last_options, options)
        self._free()
        self._beginning = True
        try:
            request = await launch_request(self._spawner, asked, runs=True)
            self._free(beginning=True)  # the session may have ended meanwhile
            session = self._spawner.token_id
            self.current, self._token = await queue_successor(self._spawner, request, by)
        finally:
            self._beginning = False
        if not self._spawner.ready or self._spawner.token_id != session:
            # Whoever stopped it while sbatch was at work could not know of the new job.
            self.forget()
            raise Conflict("The session was stopped meanwhile, so its resources are not changed.")
        self._spawner.log.info(
            "%s moves to job %s, requested by %s", self._spawner._log_name, self.current.job_id, by
        )
        await self._spawner.store_state()
        self._follow()
        return self.current.move()

    async def cancel(self, by: str) -> Move:
        """Cancel the move. Raises Conflict if there is none, or if it is too late."""
        if self.current is None or not self.current.live:
            raise Conflict("This session's resources are not being changed.")
        if self.current.state in _ARRIVED:
            raise Conflict("It is too late to cancel: the session is switching to the new job.")
        who = "You" if by == self._spawner.user.name else by
        await self._call_off(
            MoveState.CANCELLED,
            f"{who} cancelled the change of resources. The session continues unchanged.",
        )
        return self.current.move()

    def accept_port(self, token_id: int, number: int) -> bool:
        """Accept the new server's port, if that token is its own; return whether it is."""
        if self.current is None or not self.current.live or self.current.token_id != token_id:
            return False
        self.current = self.current.model_copy(update={"port": number})
        self._announced.set()
        return True

    # -- what happens to the session meanwhile --------------------------------------------------

    def session_over(self, ending: Ending) -> bool:
        """Handle the end of the session's job while another waits for its place; return whether
        that one is the session from now on. It is not if somebody wanted the end."""
        spawner, successor = self._spawner, self.current
        if successor is None or not successor.live or spawner.pending == "stop":
            return False
        if successor.state in _ARRIVED:
            return True
        if ending.code in _ON_PURPOSE:
            return False
        self._unfollow()
        self._history.moved(successor, None)
        spawner.become(successor, self._token)
        spawner.log.info("%s is now job %s", spawner._log_name, successor.job_id)
        self._say(
            MoveState.DONE,
            f"The session ended ({ending.message.rstrip('.')}) while job {successor.job_id} "
            "waited. That job is now the session.",
        )
        self._task = asyncio.ensure_future(self._arrive())
        return True

    def forget(self) -> None:
        """Drop the move of a session that is being stopped: no other job takes its place."""
        self._unfollow()  # also a move that is done but whose server is not there yet
        if self.live and self.current is not None:
            self._revoke()
            self._leaving.add_job(self.current.job_id)
        self._leaving.end()
        self.current, self._token, self._watch = None, "", None

    # -- what must outlive the Hub --------------------------------------------------------------

    def state(self) -> dict[str, Any] | None:
        """Return the move for the spawner's own state; None if there is nothing to keep."""
        if self.current is None and not self._leaving.ids:
            return None
        return {
            "successor": self.current.model_dump(mode="json") if self.current else None,
            "leaves": list(self._leaving.ids),
        }

    def load(self, state: Mapping[str, Any] | None) -> None:
        """Restore what ``state`` returned. A move that was under way goes on."""
        state = state or {}
        self._leaving.ids = tuple(str(job_id) for job_id in state.get("leaves", ()))
        try:
            successor = state.get("successor")
            self.current = Successor(**successor) if successor else None
        except ValidationError:
            self._spawner.log.error("The move of %s cannot be read", self._spawner._log_name)
            self.current = None
        if self.current is not None and self.current.ended_at is not None:
            self._over_at = time.monotonic() - max(0.0, time.time() - self.current.ended_at)
        self._leaving.end()
        if self.live and self.current is not None:
            # The last Hub did not make the switch, which begins anew.
            self._say(MoveState.QUEUED, self.current.words)
            if self.current.port:
                self._announced.set()
            self._follow()

    # -- the beginning --------------------------------------------------------------------------

    def _free(self, *, beginning: bool = False) -> None:
        """Raise Conflict if no move can begin."""
        spawner = self._spawner
        if not spawner.serves:
            raise Conflict(
                "A kernel's resources cannot be changed. Start another kernel with the resources "
                "that you need."
            )
        if not spawner.ready or not spawner.server_address:
            raise Conflict("This session is not running, so its resources cannot be changed.")
        if self.live or (self._beginning and not beginning):
            job = f": job {self.current.job_id} waits" if self.live and self.current else ""
            raise Conflict(
                f"This session's resources are already being changed{job}. Cancel that change "
                "first."
            )

    # -- the way --------------------------------------------------------------------------------

    def _follow(self) -> None:
        assert self.current is not None
        spawner = self._spawner
        if not self.current.port:
            self._announced.clear()
        self._watch = JobWatch(
            spawner.shared.cluster, self.current.job_id, spawner.account, spawner.log
        )
        self._task = asyncio.ensure_future(self._go(self._watch))

    def _unfollow(self) -> None:
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        self._task = None

    async def _go(self, watch: JobWatch) -> None:
        """Follow the new job from the queue to the switch."""
        try:
            address = await self._server(watch)
            await self._switch(address, watch.job)
        except PortalError as error:
            await self._failed(error.message)
        except Exception:
            self._spawner.log.exception("The move of %s failed", self._spawner._log_name)
            await self._failed("The portal had an internal error; the Hub's log has the details.")

    async def _server(self, watch: JobWatch) -> str:
        """Return the address of the new server, once it answers."""
        spawner = self._spawner
        while True:
            try:
                address = await address_of(
                    watch,
                    self._announced,
                    interval=spawner.watch_interval,
                    patience=spawner.server_timeout,
                    see=self._see,
                )
                break
            except SlurmUnavailable:
                continue
            except NoServer as error:
                raise StartFailed(error.message) from None
            except JobOver as error:
                raise StartFailed(await self._why(error.job)) from None
        url = self._url(address)
        try:
            await wait_for_http_server(
                f"{url}api", timeout=spawner.http_timeout, ssl_context=client_tls(spawner)
            )
        except AnyTimeoutError:
            raise StartFailed(
                f"The new job's server did not answer within {spawner.http_timeout} s."
            ) from None
        return address

    def _see(self, job: Job | None, over: bool) -> None:
        if job is None or over or self.current is None:
            return
        position = self._watch.position if self._watch else None
        if job.state.running:
            where = f" on {', '.join(job.nodes)}" if job.nodes else ""
            sentence = f"Job {job.id} is starting{where}. The session continues."
            self._say(MoveState.STARTING, sentence)
        else:
            waits = words.pending(job, position)
            self._say(MoveState.QUEUED, f"Job {job.id}: {waits}. The session continues.")

    async def _why(self, job: Job) -> str:
        assert self.current is not None
        spawner = self._spawner
        log = await log_tail(spawner.log_directory, self.current.log_name)
        return explain(job, log, ready=False, owner=spawner.user.name).message

    async def _switch(self, address: str, job: Job | None) -> None:
        """Let the old server save, then lead the address to the new one, which answers."""
        spawner = self._spawner
        await self._checked()
        self._say(MoveState.READY, "The new job is ready: open pages are being saved.")
        await spawner.store_state()
        await hand_over(spawner, self._url(address), spawner.move_patience)
        self._say(MoveState.SWITCHING, "The session is switching to the new job.")
        switched = await self._commit(address, job)
        if not switched:  # the session was stopped meanwhile, which has ended the move
            return
        await self._route()
        self._leaving.end()

    async def _commit(self, address: str, job: Job | None) -> bool:
        """Store the switch in the Hub's database, in one commit; return whether it was made."""
        done = False

        def change() -> None:
            nonlocal done
            spawner, successor = self._spawner, self.current
            if successor is None or not successor.live or not spawner.ready:
                return
            what = words.resources(spawner, successor.options)
            sentence = f"Switched to job {successor.job_id}: {what}."
            old = Ending(code="moved", message=sentence, job_id=spawner.job_id)
            self._leaving.add_job(spawner.job_id)
            self._history.moved(successor, old)
            spawner.become(successor, self._token)
            spawner.watch.job = job
            spawner.answers_at(address)
            self._say(MoveState.DONE, sentence)
            spawner.write_state()
            done = True

        await self._spawner.shared.commits.store(self._spawner.user.db, change)
        return done

    async def _arrive(self) -> None:
        """Wait for the new server after the old job ended too early: until then there is none."""
        spawner = self._spawner
        try:
            await spawner.store_state()
            await self._wait_for_server()
            await spawner.shared.commits.store(spawner.user.db, self._arrived)
            await self._route()
        except PortalError as error:
            spawner.log.warning("Session of %s: %s", spawner._log_name, error)
            self._leaving.add_job(spawner.job_id)  # the Hub's next poll finds that it is over
            self._leaving.end()
        except Exception:
            spawner.log.exception("The new job of %s cannot be followed", spawner._log_name)

    def _arrived(self) -> None:
        self._spawner.answers_at(self._spawner.server_address)
        self._spawner.write_state()

    async def _checked(self) -> None:
        """Wait while a Hub that has just been started checks its sessions itself."""
        while self._spawner.pending == "check":  # noqa: ASYNC110  JupyterHub has no event for it
            await asyncio.sleep(0.1)

    async def _route(self) -> None:
        """Lead the session's address to its present server."""
        spawner = self._spawner
        await self._checked()
        try:
            await spawner.user.settings["proxy"].add_user(spawner.user, spawner.name)
        except Exception:
            # The Hub compares all routes with its database every few minutes.
            spawner.log.exception("The route of %s could not be changed", spawner._log_name)

    # -- the end --------------------------------------------------------------------------------

    async def _failed(self, reason: str) -> None:
        await self._call_off(MoveState.FAILED, f"{reason} The session continues unchanged.")

    async def _call_off(self, state: MoveState, sentence: str) -> None:
        successor = self.current
        if successor is None or not successor.live:
            return
        self._unfollow()
        self._revoke()
        self._leaving.add_job(successor.job_id)
        self._say(state, sentence)
        self._spawner.log.info("%s does not move: %s", self._spawner._log_name, sentence)
        await self._spawner.store_state()
        self._leaving.end()

    def _revoke(self) -> None:
        """Revoke the token of a server that will not be the session's."""
        db = self._spawner.user.db
        row = db.get(orm.APIToken, self.current.token_id) if self.current else None
        if row is not None:
            db.delete(row)
            db.commit()
        self._token = ""

    def _say(self, state: MoveState, sentence: str) -> None:
        if self.current is not None and self.current.live:
            ended = {} if state in LIVE else {"ended_at": time.time()}
            if ended:
                self._over_at = time.monotonic()
            self.current = self.current.model_copy(
                update={"state": state, "words": sentence, **ended}
            )

    def _url(self, address: str) -> str:
        """Return the new server's address, with the session's own path."""
        assert self.current is not None
        spawner = self._spawner
        return f"{spawner.url_at(address, self.current.port)}{spawner.server.base_url}"
