"""Spawner that runs each notebook server as a Slurm job.

It takes its structure, and the settings that sites know, from batchspawner's SlurmSpawner; Slurm
is queried through the one shared watcher, and jobs are submitted through ``portal.launch``.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any, NoReturn

from jupyterhub import orm
from sqlalchemy import bindparam, func, select
from traitlets import default

from portal.errors import (
    ConfigurationError,
    PortalError,
    SlurmUnavailable,
    StartFailed,
)
from portal.launch.request import LaunchRequest
from portal.models.cluster.array import ArrayJob
from portal.models.cluster.cluster import Job, JobState
from portal.sessions.ending import Ending, explain

from .api import estimates
from .launch.job_log import log_tail, make_log
from .launch.refusals import refusal
from .launch.resubmit import lost, reason_of, submit_again
from .launch.submit import submit_once
from .launch.user_options import UserOptions
from .lifecycle import stop_reason
from .lifecycle.progress import Progress
from .lifecycle.reports import token_scopes
from .lifecycle.session_history import SessionHistory
from .lifecycle.wait_for_server import JobOver, NoServer, SilentNode, address_of
from .resize.resize import SessionResize
from .web import hosts

_NEWEST_TOKEN = select(func.max(orm.APIToken.id)).where(
    orm.APIToken.user_id == bindparam("user"), orm.APIToken.prefix == bindparam("prefix")
)


class PortalSpawner(UserOptions):
    """Spawner of sessions in environments on Slurm. ``user_options`` keys: see ``option_keys``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._stopping = False
        self._came_back = False  # the Hub was restarted under this session
        self.history = SessionHistory(self)
        self.moving = SessionResize(self, self.history, self.wait_for_server)
        hosts.move_away(self)
        self._expect_launch()

    def _expect_launch(self) -> None:
        """Query slurmdbd ahead, while the Hub prepares a launch, for what its check needs. The Hub
        makes a spawner when a person comes or launches."""
        if self.user is None:
            return
        with contextlib.suppress(RuntimeError):  # no event loop: not in a Hub that serves
            asyncio.get_running_loop()
            self.shared.cluster.expect_launches()

    # -- who and what ---------------------------------------------------------------------

    def get_env(self) -> dict[str, str]:
        """Return JupyterHub's variables of the session."""
        return hosts.with_callback(self, super().get_env())

    @default("server_token_scopes")
    def _server_token_scopes_default(self) -> Any:
        return token_scopes  # no coroutine function: see hub_patches/spawn_queue.py

    # -- start ----------------------------------------------------------------------------

    async def start(self) -> str:
        """Submit the job and wait for its server; return the server's URL."""
        if self.trace is None:
            return await self._start()
        with self.trace.until_end():
            return await self._start()

    async def _start(self) -> str:
        if self.trace is not None:
            self.trace.step("sbatch")
        request, self._request = self._request, None
        if request is None:
            raise refusal(
                ConfigurationError(
                    "This session was not checked: 'apply_user_options' of the spawner was "
                    "replaced in the Hub's configuration. Ask an admin to remove that setting."
                )
            )
        self.ip, self.port = self.listen_address, 0
        self.ending = None
        self.posted_port, self._ready, self._stopping, self._came_back = 0, False, False, False
        self._port_posted.clear()
        self.progress_state = Progress(request.kind.space)
        hosts.tell_logins(self)
        self.token_id = self._token_row()
        try:
            self.log_name = await make_log(self.log_directory, self.account)
            self.job_id = await submit_once(self, request)
        except PortalError as error:
            self.history.refused(request, error)
            raise refusal(error) from None
        try:
            self.history.submitted(request)
            record = self.history.record
            session = record.id if record is not None else self.name
            if self.trace is not None:
                self.trace.step("queued")
                self.trace.note(session=session, job_id=self.job_id)
            self.log.info(
                "%s: job %s is submitted",
                self._log_name,
                self.job_id,
                extra={"user": self.user.name, "session": session, "job_id": self.job_id},
            )
            if request.kind.estimated and self.history.record is not None:
                estimates.note(self, request, self.history.record.id)
            # Before anything else: a Hub that dies now must find the job again.
            await self.store_state()
            self.submitted.set()
            self.history.note()
            self.progress_state.submitted(self.job_id)
            return await self.wait_for_server(request)
        except PortalError as error:
            raise refusal(error) from None

    def _token_row(self) -> int:
        """Return the id of the session's token, which was just made; 0 without one. The Hub's own
        query for it loads everything related to it."""
        prefix = self.api_token[: orm.APIToken.prefix_length]
        of_user = {"user": self.user.orm_user.id, "prefix": prefix}
        return self.user.db.scalar(_NEWEST_TOKEN, of_user) or 0

    async def move_certs(self, paths: dict[str, str]) -> dict[str, str]:
        """Leave the certificates with the Hub: the job's environment carries their content."""
        return paths

    @default("ssl_alt_names")
    def _ssl_alt_names_default(self) -> Any:
        return _node_names

    def knows_token(self, token_id: int) -> bool:
        """Return True if this is the token of the session's server, or of its successor's."""
        successor = self.moving.current
        return token_id == self.token_id or (
            successor is not None and successor.live and successor.token_id == token_id
        )

    async def accept_port(self, token_id: int, number: int) -> None:
        """Accept the port that a server posted; store it before the response is sent."""
        if not self.moving.accept_port(token_id, number):
            self.posted_port = number
            self._port_posted.set()
        await self.store_state()

    async def wait_for_server(self, request: LaunchRequest | None = None) -> str:
        """Return the URL of the session's server, once its job runs and it has posted its port.

        ``request``: is submitted again, once, if its job is lost or its node does not answer.
        Raises StartFailed with the ending's message if the job ends first.
        """
        while True:
            try:
                address = await address_of(
                    self.watch,
                    self._port_posted,
                    interval=self.watch_interval,
                    patience=self.server_timeout,
                    see=self._see,
                    elsewhere=request is not None,
                )
                return self._found(address)
            except JobOver as error:
                if isinstance(error.job, ArrayJob) and error.job.state is JobState.COMPLETED:
                    return self._found(self.watch.address())  # sooner than it was looked at
                log = await self._log_tail()
                if request is None or not lost(error.job, log, serves=self.serves):
                    await self._record_ending(error.job)
                    message = self.ending.message if self.ending else "The job ended."
                    raise StartFailed(message) from None
                again, request, why = request, None, reason_of(error.job)
            except SilentNode as error:
                assert request is not None
                again, request = request, None
                if await self._log_tail() or not await self._cancelled():
                    continue  # it runs there, and will post its port
                why = f"{error.node} does not answer Slurm, so job {error.job.id} was cancelled"
            except NoServer as error:
                await self._give_up(error.message)
            await self._submit_again(again, why)

    async def _cancelled(self) -> bool:
        """Cancel the job; return whether it is surely over."""
        try:
            return await self.end_job(self.watch, gently=False)
        except PortalError as error:
            self.log.warning("%s: job %s: %s", self._log_name, self.job_id, error.message)
            return False

    async def _submit_again(self, request: LaunchRequest, why: str) -> None:
        self.log.warning("%s: %s. Submitting it again.", self._log_name, why)
        self.progress_state.say(f"{why}. Submitting it again")
        self.posted_port = 0
        self._port_posted.clear()
        try:
            self.job_id = await submit_again(self, request)
        except PortalError as error:
            await self._give_up(f"{why}. It could not be submitted again: {error.message}")
        self._watch = None  # a Slurm that lost its state counts its jobs anew
        self.history.resubmitted()
        await self.store_state()
        self.progress_state.submitted(self.job_id, why)

    def _see(self, job: Job | None, over: bool) -> None:
        if self.watch.snapshot is not None:
            self.progress_state.see(job, self.watch.snapshot, self.watch.position)
        if job is not None and job.state.running and not over:
            if self.trace is not None:
                self.trace.step("starting")
            self.history.running(job)
            if not self.serves:
                self._port_posted.set()  # nothing else is awaited

    def _found(self, address: str) -> str:
        url = super()._found(address)
        self.history.ready(self.job)
        return url

    async def _give_up(self, message: str) -> NoReturn:
        log = await self._log_tail()
        self.ending = Ending(code="start_failed", message=message, log=log, job_id=self.job_id)
        self.history.stopping(self.ending)
        raise StartFailed(message)

    async def get_url(self) -> str:
        """Return the server's URL. After a restart of the Hub, wait for a job that is still
        pending, so that ``http_timeout`` does not cancel it."""
        if not self.server_address:
            try:
                return await self.wait_for_server()
            except PortalError as error:
                self.log.warning("Session of %s: %s", self._log_name, error)
                # The Hub polls the URL next: make it fail at once.
                self.http_timeout = 1
                return "http://127.0.0.1:9"
        return self._found(self.server_address)

    # -- run, stop, end -------------------------------------------------------------------

    async def poll(self) -> int | None:
        """Return None while the job lives or nothing is known of it, else its exit code."""
        if not self.job_id:
            return 0
        asked = self.job_id
        try:
            job, over = await self.watch.job_since(time.monotonic() - self.poll_interval)
        except SlurmUnavailable:
            return None
        if job is None or not over or self.job_id != asked:
            return None
        await self._record_ending(job)
        if self.ending is not None and self.moving.session_over(self.ending):
            return None
        return job.exit_code or 0

    async def stop(self, now: bool = False) -> None:
        """Cancel the job and wait until it is over (unless ``now``)."""
        if not self.job_id:
            return
        self._stopping = True
        self.moving.forget()
        if self.ending is None:
            self.ending = self._why_stopped()
            self.history.stopping(self.ending)
            await self.store_state()
        try:
            await self.end_job(self.watch, gently=self._ready, now=now)
        except PortalError as error:
            raise refusal(error) from None

    def _why_stopped(self) -> Ending:
        reason = stop_reason.reason(
            stop_reason.asker(),
            self.user.name,
            ready=self._ready,
            answers=not self._waiting_for_response,
            came_back=self._came_back,
            http_timeout=self.http_timeout,
            why=stop_reason.why(),
            noun=self.kind.words.noun,
        )
        return self._dated(reason, time.time()).model_copy(update={"job_id": self.job_id})

    def _dated(self, ending: Ending, at: float) -> Ending:
        """Return the ending with its time and the session's id, for the page that shows it."""
        record = self.history.record
        return ending.model_copy(update={"at": at, "session": record.id if record else ""})

    async def _record_ending(self, job: Job) -> None:
        if self.ending is None or self.ending.job_id != job.id:
            log = await self._log_tail()
            owner = self.user.name
            ending = explain(
                job,
                log,
                stopped=self._stopping,
                ready=self._ready,
                owner=owner,
                about=self.kind.words,
            )
            self.ending = self._dated(ending, job.end_time or time.time())
            self.history.ended(job, self.ending)
            await self.store_state()

    async def _log_tail(self) -> str:
        return await log_tail(self.log_directory, self.log_name)

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """Yield events that say what is happening, for the progress page."""
        async for event in self.progress_state.events():
            yield event

    # -- state ----------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Return the state that must outlive the Hub: JSON values, no secret."""
        whole = {"record": self.history.state(), "moving": self.moving.state()}
        return super().get_state() | {key: value for key, value in whole.items() if value}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the session from what ``get_state`` returned."""
        super().load_state(state)
        self._came_back = self._ready
        self.history.load(state.get("record"))
        self.moving.load(state.get("moving"))

    def clear_state(self) -> None:
        """Forget the job, but not the last options and the reason of the ending."""
        self.moving.forget()
        self.history.left()
        super().clear_state()


async def _node_names(spawner: PortalSpawner) -> list[str]:
    """Return all nodes' names for a server's certificate, made before Slurm chooses the node."""
    snapshot = await spawner.shared.cluster.snapshot()
    names = set()
    for node in snapshot.nodes.values():
        kind = "IP" if node.address.replace(".", "").isdigit() or ":" in node.address else "DNS"
        names.add(f"{kind}:{node.address}")
    return sorted(names)
