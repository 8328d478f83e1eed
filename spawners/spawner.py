"""The spawner: one notebook server is one Slurm job.

From batchspawner's SlurmSpawner it takes the shape and the settings that sites know; what asks
Slurm goes through the one shared watcher, what is submitted through ``portal.launch``.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NoReturn

from jupyterhub import orm
from jupyterhub.utils import utcnow
from sqlalchemy import bindparam, func, select
from traitlets import Instance, default

from portal import disk
from portal.errors import (
    ConfigurationError,
    PortalError,
    SlurmUnavailable,
    StartFailed,
)
from portal.launch.request import LaunchRequest
from portal.models.cluster.cluster import Job
from portal.models.person import Person
from portal.sessions.ending import Ending, explain

from .api import estimates
from .context import Shared
from .host.accounts import home_of
from .launch.job_log import log_tail, make_log
from .launch.resubmit import lost, reason_of, submit_again
from .launch.submit import submit_once
from .launch.user_options import LaunchDoor, refusal
from .lifecycle import stop_reason
from .lifecycle.job_watch import JobWatch
from .lifecycle.progress import Progress
from .lifecycle.reports import token_scopes
from .lifecycle.session_history import SessionHistory
from .lifecycle.wait_for_server import JobOver, NoServer, SilentNode, address_of
from .resize.resize import Moving
from .resize.successor import Successor
from .web import hosts

_NEWEST_TOKEN = select(func.max(orm.APIToken.id)).where(
    orm.APIToken.user_id == bindparam("user"), orm.APIToken.prefix == bindparam("prefix")
)
_LAUNCH = 10.0  # seconds: within that, what a launch knows of an account is not asked again


class PortalSpawner(LaunchDoor):
    """Starts sessions in environments on Slurm. ``user_options`` keys: see ``OPTION_KEYS``."""

    ending = Instance(Ending, allow_none=True, help="Why the last session ended.")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.api_token: str
        self.last_options: dict[str, Any] = {}  # validated: what "the same again" means
        self.prefill: dict[str, Any] = {}  # what a link asks for; shown once
        self.posted_port = 0
        self.token_id = 0
        self.server_address = ""
        self._stopping = False
        self._ready = False
        self._port_posted = asyncio.Event()
        self.submitted = asyncio.Event()  # Slurm has the job, and the Hub's database its id
        self.log_name = ""
        self._home, self._home_until = "", float("-inf")
        self._came_back = False  # the Hub was restarted under this session
        self.history = SessionHistory(self)
        self.moving = Moving(self)
        self._watch: JobWatch | None = None
        self.progress_state = Progress()
        hosts.move_away(self)
        self._expect_launch()

    def _expect_launch(self) -> None:
        """The Hub makes a spawner when a person comes or launches: what the check of the launch
        needs from slurmdbd is asked for while the Hub prepares it."""
        if self.user is None:
            return
        with contextlib.suppress(RuntimeError):  # no event loop: not in a Hub that serves
            asyncio.get_running_loop()
            self.shared.cluster.expect_launches()

    # -- who and what ---------------------------------------------------------------------

    @property
    def shared(self) -> Shared:
        """The Hub's one watcher, catalog and form."""
        return Shared.of(self.config)

    @property
    def account(self) -> str:
        """The account that the session's job belongs to."""
        return str(self.user.name)

    @property
    def watch(self) -> JobWatch:
        """The session's job, as the shared watcher sees it."""
        if self._watch is None or self._watch.job_id != self.job_id:
            self._watch = JobWatch(self.shared.cluster, self.job_id, self.account, self.log)
        return self._watch

    @property
    def job(self) -> Job | None:
        """The session's job as it was seen last; None without one."""
        return self.watch.job if self.job_id else None

    @property
    def last_ending(self) -> dict[str, Any] | None:
        """Why the last session ended, for the pages: ``code``, ``message``, ``log``, ``job_id``."""
        return self.ending.model_dump() if self.ending else None

    @property
    def person(self) -> Person:
        """The owner of this session."""
        groups = tuple(sorted(group.name for group in self.user.groups))
        return Person(name=self.user.name, admin=bool(self.user.admin), groups=groups)

    async def home(self) -> str:
        """The owner's home directory. Raises NotAllowed when the account does not exist here,
        Unavailable when nobody can say."""
        if time.monotonic() > self._home_until:  # a launch asks when it is checked and submitted
            name, shared = self.user.name, self.shared
            self._home = await home_of(name, shared.blocking, self.account_timeout, shared.services)
            self._home_until = time.monotonic() + _LAUNCH
        return self._home

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        """Nothing of the account: batchspawner looks it up here, which can stop the event loop,
        and Slurm and sudo set USER, HOME and SHELL themselves."""
        return env

    def get_env(self) -> dict[str, str]:
        """JupyterHub's variables of the session."""
        return hosts.with_callback(self, super().get_env())

    @default("server_token_scopes")
    def _server_token_scopes_default(self) -> Any:
        return token_scopes  # what is awaited here must not be: see hub_patches/spawn_queue.py

    # -- start ----------------------------------------------------------------------------

    async def start(self) -> str:
        """Submit the job and wait for its server; returns its URL."""
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
        self.progress_state = Progress()
        hosts.tell_logins(self)
        self.token_id = self._token_row()
        try:
            await asyncio.to_thread(disk.ensure_space, self.log_directory, Path.cwd())
            self.log_name = await make_log(self.log_directory, self.account)
            self.job_id = await submit_once(self, request)
        except PortalError as error:
            self.history.refused(request, error.message)
            raise refusal(error) from None
        try:
            self.history.submitted(request)
            if request.kind.estimated:
                estimates.note(self, request)
            # Before anything else: a Hub that dies now must find the job again.
            await self.store_state()
            self.submitted.set()
            self.history.note()
            self.progress_state.submitted(self.job_id)
            return await self.wait_for_server(request)
        except PortalError as error:
            raise refusal(error) from None

    def _token_row(self) -> int:
        """The number of the session's token, which was made a moment ago; 0 without one. The Hub's
        own question for it reads everything that hangs on it."""
        prefix = self.api_token[: orm.APIToken.prefix_length]
        of_user = {"user": self.user.orm_user.id, "prefix": prefix}
        return self.user.db.scalar(_NEWEST_TOKEN, of_user) or 0

    async def move_certs(self, paths: dict[str, str]) -> dict[str, str]:
        """Leave the certificates with the Hub: their content travels to the job's environment."""
        return paths

    @default("ssl_alt_names")
    def _ssl_alt_names_default(self) -> Any:
        return _node_names

    def knows_token(self, token_id: int) -> bool:
        """Whether this is the token of the session's server, or of the one that will be."""
        successor = self.moving.current
        return token_id == self.token_id or (
            successor is not None and successor.live and successor.token_id == token_id
        )

    async def accept_port(self, token_id: int, number: int) -> None:
        """Take the port that a server posted, and store it before the answer goes out."""
        if not self.moving.accept_port(token_id, number):
            self.posted_port = number
            self._port_posted.set()
        await self.store_state()

    async def wait_for_server(self, request: LaunchRequest | None = None) -> str:
        """The URL of the session's server, once its job runs and it has posted its port.

        ``request``: is submitted again, once, where its job is lost or its node does not answer.
        Raises StartFailed with the ending's words when the job ends first.
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
                if request is None or not lost(error.job, await self._log_tail()):
                    await self._record_ending(error.job)
                    words = self.ending.message if self.ending else "The job ended."
                    raise StartFailed(words) from None
                again, request, why = request, None, reason_of(error.job)
            except SilentNode as error:
                assert request is not None
                again, request = request, None
                if await self._log_tail() or not await self._cancelled():
                    continue  # it runs there, and says its port itself
                why = f"{error.node} does not answer Slurm, so job {error.job.id} was cancelled"
            except NoServer as error:
                await self._give_up(error.message)
            await self._submit_again(again, why)

    async def _cancelled(self) -> bool:
        """Cancel the job; whether it is surely over."""
        try:
            return await self.end_job(self.watch, gently=False)
        except PortalError as error:
            self.log.warning("%s: job %s: %s", self._log_name, self.job_id, error.message)
            return False

    async def _submit_again(self, request: LaunchRequest, why: str) -> None:
        self.log.warning("%s: %s. It is submitted again.", self._log_name, why)
        self.progress_state.say(f"{why}. It is submitted again")
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
            self.history.running(job)

    def _found(self, address: str) -> str:
        self._ready = True
        self.server_address = address
        self.ip, self.port = address, self.posted_port
        self.history.ready(self.job)
        return self.url_at(address, self.posted_port)

    def url_at(self, address: str, number: int) -> str:
        """The URL, without a path, of a server of this session that listens on port ``number``."""
        scheme = "https" if self.internal_ssl else "http"
        return f"{scheme}://{f'[{address}]' if ':' in address else address}:{number}"

    async def _give_up(self, message: str) -> NoReturn:
        log = await self._log_tail()
        self.ending = Ending(code="start_failed", message=message, log=log, job_id=self.job_id)
        self.history.stopping(self.ending)
        raise StartFailed(message)

    def become(self, successor: Successor, token: str) -> None:
        """From now on the session's job is this one. ``token``: its server's; "" where the Hub
        knows it no longer. To be called within a commit, and then ``answers_at``."""
        db, old = self.user.db, self.token_id
        self.job_id, self.log_name = successor.job_id, successor.log_name
        self.token_id, self.api_token = successor.token_id, token
        self.posted_port, self.server_address = successor.port, ""
        self._ready, self.ending = False, None
        (self._port_posted.set if successor.port else self._port_posted.clear)()
        self.last_options = dict(successor.options)
        self.user_options = dict(successor.options)
        new = db.get(orm.APIToken, successor.token_id)
        client = self.orm_spawner.oauth_client
        if client is not None and new is not None:
            # Its secret is its server's token, of which both keep the same kind of hash
            # (jupyterhub/orm.py, Hashed; oauth/provider.py, authenticate_client).
            client.secret = new.hashed
        before = db.get(orm.APIToken, old)
        if before is not None:
            db.delete(before)

    def answers_at(self, address: str) -> None:
        """The session's new server is there. To be called within a commit."""
        self._found(address)
        self.orm_spawner.started = utcnow(with_tz=False)
        self.server.ip, self.server.port = address, self.posted_port

    async def get_url(self) -> str:
        """The server's URL. After a restart of the Hub this waits for a job that is still
        pending, so that ``http_timeout`` does not cancel it."""
        if not self.server_address:
            try:
                return await self.wait_for_server()
            except PortalError as error:
                self.log.warning("Session of %s: %s", self._log_name, error)
                # The Hub asks the URL next: make it find out at once that nobody is there.
                self.http_timeout = 1
                return "http://127.0.0.1:9"
        return self._found(self.server_address)

    # -- run, stop, end -------------------------------------------------------------------

    async def poll(self) -> int | None:
        """None while the job lives or nothing is known of it, else its exit code."""
        if not self.job_id:
            return 0
        asked = self.job_id
        try:
            job, over = await self.watch.look(time.monotonic() - self.poll_interval)
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

    async def end_job(self, watch: JobWatch, *, gently: bool, now: bool = False) -> bool:
        """Cancel a job of this session's owner and wait until it is over (unless ``now``); whether
        it is.

        ``gently``: its server runs, and may end by itself first.
        """
        cancel = self.shared.cluster.cancel
        if gently and not now:
            await cancel(watch.job_id, self.user.name, gently=True)
            if await watch.is_over((0.2, 0.3, 0.5, 1, 2, 4)):
                return True
        await cancel(watch.job_id, self.user.name)
        return not now and await watch.is_over((0.2, 0.3, 0.5, 1, 2, 4, 8, 16, 32))

    def _why_stopped(self) -> Ending:
        reason = stop_reason.reason(
            stop_reason.asker(),
            self.user.name,
            ready=self._ready,
            answers=not self._waiting_for_response,
            came_back=self._came_back,
            http_timeout=self.http_timeout,
            why=stop_reason.why(),
        )
        return reason.model_copy(update={"job_id": self.job_id})

    async def _record_ending(self, job: Job) -> None:
        if self.ending is None or self.ending.job_id != job.id:
            log = await self._log_tail()
            owner = self.user.name
            self.ending = explain(job, log, stopped=self._stopping, ready=self._ready, owner=owner)
            self.history.ended(job, self.ending)
            await self.store_state()

    async def _log_tail(self) -> str:
        return await log_tail(self.log_directory, self.log_name)

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """What is happening, in words, for the progress page."""
        async for event in self.progress_state.events():
            yield event

    # -- state ----------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """What must outlive the Hub: JSON values, no secret."""
        state = {
            "job_id": self.job_id,
            "log_name": self.log_name,
            "posted_port": self.posted_port,
            "token_id": self.token_id,
            "server_address": self.server_address,
            "last_options": self.last_options,
            "ending": self.ending.model_dump() if self.ending else None,
            "record": self.history.state(),
            "moving": self.moving.state(),
        }
        return {key: value for key, value in state.items() if value}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of get_state."""
        super().load_state(state)
        self.log_name = str(state.get("log_name", ""))
        self.posted_port = int(state.get("posted_port", 0))
        self.token_id = int(state.get("token_id", 0))
        self.server_address = str(state.get("server_address", ""))
        self._ready = self._came_back = bool(self.server_address)
        self.last_options = dict(state.get("last_options", {}))
        ending = state.get("ending")
        self.ending = Ending(**ending) if ending else None
        if self.posted_port:
            self._port_posted.set()
        self.history.load(state.get("record"))
        self.moving.load(state.get("moving"))

    def clear_state(self) -> None:
        """Forget the job. The last choice and the reason of the ending stay."""
        self.moving.forget()
        self.history.left()
        super().clear_state()
        # JupyterHub finds a server's token by its text, which a Hub that was restarted has not.
        row = self.user.db.get(orm.APIToken, self.token_id) if self.token_id else None
        if row is not None:
            self.user.db.delete(row)
        self.log_name = self.server_address = ""
        self.posted_port = self.token_id = 0

    async def store_state(self) -> None:
        """Return once the state is in the Hub's database."""
        await self.shared.commits.store(self.user.db, self.write_state)

    def write_state(self) -> None:
        """Give the state to the Hub's database, for the next commit."""
        self.orm_spawner.state = self.get_state()
        self.orm_spawner.user_options = dict(self.user_options)


async def _node_names(spawner: PortalSpawner) -> list[str]:
    """Names for a server's certificate: it is made before Slurm has chosen the node."""
    snapshot = await spawner.shared.cluster.snapshot()
    names = set()
    for node in snapshot.nodes.values():
        kind = "IP" if node.address.replace(".", "").isdigit() or ":" in node.address else "DNS"
        names.add(f"{kind}:{node.address}")
    return sorted(names)
