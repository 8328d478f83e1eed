"""State of a session: its owner, job, token and address.

``PortalSpawner`` (spawner.py) starts and ends it. The parts that it delegates to (the launch, the
record, a move to other resources) depend on this class, and so not on their caller.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from jupyterhub import orm
from jupyterhub.utils import utcnow
from traitlets import Instance

from portal.launch.kinds import USUAL, Address, Kind, reserved_for, stored_kind
from portal.logs.tracing import LaunchTrace
from portal.models.cluster.cluster import Job
from portal.models.person import Person
from portal.models.session.session import options_again
from portal.sessions.ending import Ending
from portal.store.migrations.work import work_and_space

from .context import HubContext
from .host.accounts import home_of
from .lifecycle.job_watch import JobWatch
from .lifecycle.progress import Progress
from .resize.successor import Successor
from .settings import SessionSettings
from .web.service_address import no_page

_LAUNCH = 10.0  # seconds for which a launch keeps what it knows of an account


class SessionSpawner(SessionSettings):
    """State of one session, and its owner; ``get_state`` has what outlives the Hub."""

    trace: LaunchTrace | None = None  # of its launch, where a collector is configured
    ending = Instance(Ending, allow_none=True, help="Reason for the end of the last session.")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.api_token: str
        self.last_options: dict[str, Any] = {}  # validated, of the last launch
        self.partition_automatic = False  # nobody named its partition
        self.work = self.space = ""  # until it is launched
        self.posted_port = 0
        self.token_id = 0
        self.server_address = ""
        self._ready = False
        self._port_posted = asyncio.Event()
        self.submitted = asyncio.Event()  # Slurm has the job, and the Hub's database its id
        self.log_name = ""
        self._home, self._home_until = "", float("-inf")
        self._watch: JobWatch | None = None
        self.progress_state = Progress()

    # -- its owner -----------------------------------------------------------------------

    @property
    def shared(self) -> HubContext:
        """The Hub's shared watcher, catalog and form."""
        return HubContext.instance(self.config)

    @property
    def account(self) -> str:
        """Account that the session's job belongs to."""
        return str(self.user.name)

    @property
    def person(self) -> Person:
        """Owner of this session."""
        groups = tuple(sorted(group.name for group in self.user.groups))
        return Person(name=self.user.name, admin=bool(self.user.admin), groups=groups)

    async def home(self) -> str:
        """Return the owner's home directory. Raises NotAllowed if the account does not exist here,
        Unavailable if that is unknown."""
        if time.monotonic() > self._home_until:  # a launch asks when it is checked and submitted
            name, shared = self.user.name, self.shared
            self._home = await home_of(name, shared.blocking, self.account_timeout, shared.services)
            self._home_until = time.monotonic() + _LAUNCH
        return self._home

    @property
    def kind(self) -> type[Kind]:
        """Kind of the session; before its first launch, that for which its name is reserved."""
        if self.work:
            return stored_kind(self.work)
        return self.reserved.kind if self.reserved is not None else USUAL

    @property
    def reserved(self) -> Address | None:
        """Purpose for which its server's name is reserved; None for a session of the user's own."""
        return self.reserved_as(self.name)

    @staticmethod
    def reserved_as(server: str) -> Address | None:
        """Return the purpose for which the name of a requested server is reserved."""
        return reserved_for(server)

    @property
    def serves(self) -> bool:
        """Return True if its job has a server, which posts its port."""
        return self.kind.serves

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        """Return ``env`` without account variables: batchspawner would look the account up, which
        can block the event loop, and Slurm and sudo set USER, HOME and SHELL themselves."""
        return env

    # -- its job --------------------------------------------------------------------------

    @property
    def watch(self) -> JobWatch:
        """The session's job, as the shared watcher sees it."""
        if self._watch is None or self._watch.job_id != self.job_id:
            self._watch = JobWatch(self.shared.cluster, self.job_id, self.account, self.log)
        return self._watch

    @property
    def job(self) -> Job | None:
        """The session's job as last seen; None without one."""
        return self.watch.job if self.job_id else None

    async def end_job(self, watch: JobWatch, *, gently: bool, now: bool = False) -> bool:
        """Cancel a job of this session's owner and wait until it is over (unless ``now``); return
        whether it is.

        ``gently``: its server runs, and may end by itself first.
        """
        cancel = self.shared.cluster.cancel
        if gently and not now:
            if self.kind.array:  # or others would start in the place of those that end
                await cancel(watch.job_id, self.user.name, waiting=True)
            await cancel(watch.job_id, self.user.name, gently=True)
            if await watch.is_over((0.2, 0.3, 0.5, 1, 2, 4)):
                return True
        await cancel(watch.job_id, self.user.name)
        return not now and await watch.is_over((0.2, 0.3, 0.5, 1, 2, 4, 8, 16, 32))

    @property
    def last_ending(self) -> dict[str, Any] | None:
        """Reason of the last session's end: ``code``, ``message``, ``log``, ``job_id``."""
        return self.ending.model_dump() if self.ending else None

    # -- its address ----------------------------------------------------------------------

    def url_at(self, address: str, number: int) -> str:
        """Return the URL, without a path, of this session's server that listens on ``number``."""
        scheme = "https" if self.internal_ssl else "http"
        return f"{scheme}://{f'[{address}]' if ':' in address else address}:{number}"

    def _found(self, address: str) -> str:
        self._ready = True
        self.server_address = address
        if not self.serves:
            return no_page()
        self.ip, self.port = address, self.posted_port
        return self.url_at(address, self.posted_port)

    def become(self, successor: Successor, token: str) -> None:
        """Make ``successor`` the session's job. ``token``: its server's; "" if the Hub no longer
        knows it. Call it within a commit, and then ``answers_at``."""
        db, old = self.user.db, self.token_id
        self.job_id, self.log_name = successor.job_id, successor.log_name
        self.token_id, self.api_token = successor.token_id, token
        self.posted_port, self.server_address = successor.port, ""
        self._ready, self.ending = False, None
        (self._port_posted.set if successor.port else self._port_posted.clear)()
        self.last_options = dict(successor.options)
        self.partition_automatic = successor.partition_automatic
        self.user_options = self.options_again
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
        """Set the address of the session's new server. Call it within a commit."""
        self._found(address)
        self.orm_spawner.started = utcnow(with_tz=False)
        self.server.ip, self.server.port = address, self.posted_port

    @property
    def options_again(self) -> dict[str, Any]:
        """The owner's last launch, as it would be asked for again."""
        return options_again(self.last_options, self.partition_automatic)

    # -- what outlives the Hub ------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Return the part of the session that must outlive the Hub: JSON values, no secret."""
        state = {
            "job_id": self.job_id,
            "log_name": self.log_name,
            "posted_port": self.posted_port,
            "token_id": self.token_id,
            "server_address": self.server_address,
            "last_options": self.last_options,
            "partition_automatic": self.partition_automatic,
            "work": self.work,
            "space": self.space,
            "ending": self.ending.model_dump() if self.ending else None,
        }
        return {key: value for key, value in state.items() if value}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the session from what ``get_state`` returned."""
        super().load_state(state)
        self.log_name = str(state.get("log_name", ""))
        self.posted_port = int(state.get("posted_port", 0))
        self.token_id = int(state.get("token_id", 0))
        self.server_address = str(state.get("server_address", ""))
        self._ready = bool(self.server_address)
        self.last_options = dict(state.get("last_options", {}))
        self.partition_automatic = bool(state.get("partition_automatic", False))
        self.work, self.space = _work_and_space(self.name, state)
        self.ending = _ending_in(state)
        if self.posted_port:
            self._port_posted.set()

    def clear_state(self) -> None:
        """Forget the job, but not the last options and the reason of the ending."""
        super().clear_state()
        # JupyterHub finds a server's token by its text, which a restarted Hub does not have.
        row = self.user.db.get(orm.APIToken, self.token_id) if self.token_id else None
        if row is not None:
            self.user.db.delete(row)
        self.log_name = self.server_address = ""
        self.posted_port = self.token_id = 0

    async def store_state(self) -> None:
        """Store the state and wait until the Hub's database has it."""
        await self.shared.commits.store(self.user.db, self.write_state)

    def write_state(self) -> None:
        """Set the state in the Hub's database, for the next commit."""
        self.orm_spawner.state = self.get_state()
        self.orm_spawner.user_options = dict(self.user_options)


def kind_of_row(row: orm.Spawner) -> type[Kind]:
    """Return the kind of the session on a server of the Hub's database, or of its last one."""
    return stored_kind(_work_and_space(row.name, row.state or {})[0])


def space_of_row(row: orm.Spawner) -> str:
    """Return the space of that session; "" for its user's own."""
    return _work_and_space(row.name, row.state or {})[1]


def ending_of_row(row: orm.Spawner) -> Ending | None:
    """Return the reason for the end of the last session on it."""
    return _ending_in(row.state or {})


def _ending_in(state: Mapping[str, Any]) -> Ending | None:
    ending = state.get("ending")
    return Ending(**ending) if ending else None


def _work_and_space(server: str, state: Mapping[str, Any]) -> tuple[str, str]:
    if "work" in state:
        return str(state["work"]), str(state.get("space", ""))
    return work_and_space(server, state.get("last_options", {}))
