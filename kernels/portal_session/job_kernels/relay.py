"""Relay: the process in the session that Jupyter takes for the kernel.

It binds the kernel's sockets, asks the portal for the job, listens for the job's one connection,
and passes messages on. It ends when Jupyter ends the kernel; a restart of the kernel is a new relay
that finds the job by the kernel's id.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import shutil
import signal
import socket
import threading
import uuid
from pathlib import Path
from typing import Any

from ..chosen_id import is_id
from ..notebooks.kernel_follower import PAST
from . import record as records
from .broker_client import Broker, BrokerError
from .record import BadRecord, Record
from .stand_in import StandIn, State
from .wire.handshakes import Handshakes
from .wire.keys import context, make_keys, server_name
from .wire.link import BadFrame, Link, Message
from .wire.listener import PORTS, listening
from .wire.messages import Signed
from .wire.sockets import KernelSockets, connection_info

_LINE = 8192  # bytes of a greeting
_GREETING = 10.0  # seconds that the other side may take for it
_WAITING, _AWAY = 2.0, 2.0  # seconds between two questions, until the job runs; without connection
_PARENT = 1.0  # seconds between two looks at the process that started this one
_LAST = 2.0  # seconds for the last message to the job
_SUBMITS = 60.0  # seconds that a request for the job may take, after which it is not awaited
_UNKNOWN = 404  # the portal has no such kernel
_BUSY = 409  # the kernel's former job still ends
_TRIES = 20
_FOLLOWER = 10.0  # seconds for the session's server to follow a kernel that it took up


class Relay:
    """Relay of one kernel. ``info``: content of its connection file; ``request``: what the service
    is asked for; ``language``, ``spec``: of its kernelspec, which has the name ``spec``;
    ``owner``: the process that started this one, and with which the job ends; 0 if that is a
    session's server, whose successor takes the kernel up."""

    def __init__(
        self,
        id: str,
        info: dict[str, Any],
        request: dict[str, Any],
        language: str,
        spec: str,
        *,
        owner: int = 0,
    ) -> None:
        self._id, self._info, self._request = id, info, request
        self._language, self._spec, self._owner = language, spec, owner
        self._broker = Broker()
        self._link = Link(self._receive)
        self._keeping = threading.Lock()  # of the record's file
        self._continued = True
        self._ended = asyncio.Event()
        self._restart = False  # ended for a restart: the job stays
        self._carrying: asyncio.Task[None] | None = None
        self._submitting: asyncio.Future[Any] | None = None
        self._tasks: set[asyncio.Future[Any]] = set()
        self._fresh = True  # no connection was accepted yet
        self._adopted = False  # it continues a life that a former server's relay began

    async def run(self) -> None:
        """Relay until the kernel is shut down."""
        sockets = KernelSockets(self._info)
        self._record, submitted = await asyncio.to_thread(self._found)
        scheme = str(self._info.get("signature_scheme") or "hmac-sha256")
        self._stand_in = StandIn(
            sockets,
            Signed(str(self._info.get("key", "")), scheme),
            Signed(self._record.key),
            self._link,
            self._language,
            interrupt=self._interrupt,
            shut_down=self._shut_down,
        )
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        loop.add_signal_handler(signal.SIGTERM, self._shut_down, False)
        serving = asyncio.ensure_future(self._stand_in.serve())
        server = None
        try:
            if self._adopted:
                await self._await_follower(sockets, b"" if self._owner else PAST.encode())
            server = await self._listen()
            following = asyncio.ensure_future(self._follow(submitted))
            ending = asyncio.ensure_future(self._watch_parent())
            await self._ended.wait()
            following.cancel()
            ending.cancel()
            if not self._restart:
                await self._end()
        except (BadRecord, BrokerError, OSError, ValueError) as error:
            await self._stand_in.over(f"{error}")
            await self._ended.wait()
        finally:
            serving.cancel()
            if server is not None:
                server.close()
            await asyncio.gather(serving, return_exceptions=True)
            sockets.close()

    # -- the job ---------------------------------------------------------------------------

    def _found(self) -> tuple[Record, bool]:
        """Return the record, and whether its job is submitted already."""
        with contextlib.suppress(BadRecord):
            record = records.read(self._id)
            if record.submitted and self._lives():
                self._adopted = record.adopt
                life = record.life if record.adopt else record.life + 1
                return record.but(life=life, adopt=False), True
        certificate, private_key = make_keys()
        key = str(self._info.get("key", ""))  # the kernel's messages need no other signature then
        record = Record(self._id, self._request, key, certificate, private_key)
        return record.but(cwd=str(Path.cwd())), False

    def _lives(self) -> bool:
        """Return False if the job has surely ended: one that lives needs the keys it has."""
        try:
            return self._broker.ask("GET", f"/kernels/{self._id}").get("state") != "ended"
        except BrokerError as error:
            return error.status != _UNKNOWN

    async def _await_follower(self, sockets: KernelSockets, topic: bytes) -> None:
        """Wait until the session's server, or the owner, follows the kernel: it subscribes to
        ``topic``, and what is broadcast before is lost."""
        following = asyncio.ensure_future(sockets.subscribed(topic))
        ended = asyncio.ensure_future(self._ended.wait())
        await asyncio.wait(
            {following, ended}, timeout=_FOLLOWER, return_when=asyncio.FIRST_COMPLETED
        )
        following.cancel()
        ended.cancel()

    async def _listen(self) -> Handshakes:
        """Listen for the job, and write where into the record. Raises BadRecord, OSError,
        ValueError."""
        tls = context(self._record.certificate, self._record.private_key, server=True)
        about = await self._asked("GET", "/about")
        listen, host = str(about.get("listen") or ""), str(about.get("address") or "127.0.0.1")
        family = socket.AF_INET6 if ":" in (listen or host) else socket.AF_INET
        bound = listening(listen, family, os.environ.get(PORTS, ""))
        port = bound.getsockname()[1]
        server = Handshakes(bound, tls, server_name(self._record.private_key), self._connected)
        await self._write(
            host=host,
            port=port,
            session=os.environ.get("JUPYTERHUB_SERVICE_PREFIX", ""),
            spec=self._spec,
            relay=f"{os.environ.get('PORTAL_JOB_ID', '')}:{os.getpid()}",
        )
        return server

    async def _follow(self, submitted: bool) -> None:
        """Submit the job unless it is there, and look after it while it is not connected."""
        try:
            if not submitted:
                await self._submit()
            while True:
                await asyncio.sleep(_AWAY if self._stand_in.state is State.RUNS else _WAITING)
                if self._link.connected:
                    continue
                try:
                    status = await self._asked("GET", f"/kernels/{self._id}")
                except BrokerError as error:
                    if error.status != _UNKNOWN:
                        continue  # the portal is away: the job goes on
                    status = {"state": "ended", "message": "The kernel's job has ended."}
                if status.get("state") == "ended":
                    await self._over(status)
                    return
        except (BrokerError, BadRecord) as error:
            await self._stand_in.over(str(error))

    async def _watch_parent(self) -> None:
        """End with the process that started this one. If that is a session's server, the job stays
        for a while: one that was killed takes its kernels up again when it is back."""
        parent = self._owner or os.getppid()
        while os.getppid() == parent:  # noqa: ASYNC110 - the system tells of it in no other way
            await asyncio.sleep(_PARENT)
        self._shut_down(not self._owner)

    async def _submit(self) -> None:
        tries = _TRIES
        while tries:
            try:
                asked = self._asked("POST", "/kernels", {"id": self._id, **self._request})
                self._submitting = asyncio.ensure_future(asked)
                answer = await asyncio.shield(self._submitting)
                if not answer.get("away"):  # else the portal is away
                    break
            except BrokerError as error:
                if error.status != _BUSY:
                    raise
                tries -= 1
                await asyncio.sleep(1.0)
        await self._write(submitted=True)

    async def _over(self, status: dict[str, Any]) -> None:
        sentence = str(status.get("message") or "The kernel's job has ended.")
        log = str(status.get("log") or "").strip()
        words = f"{sentence} Restart the kernel to request a new job."
        await self._stand_in.over(f"{words}\n\nEnd of the job's log:\n{log}" if log else words)
        await self._write(submitted=False)

    async def _end(self) -> None:
        """End the job. What fails here is done by the session's server (`adoption`)."""
        if self._submitting is not None:  # a job that is not there yet cannot be ended
            await asyncio.wait({self._submitting}, timeout=_SUBMITS)
        if self._link.connected:
            self._control(end=True)
            await self._link.flushed(_LAST)
        with contextlib.suppress(BrokerError):
            await self._asked("DELETE", f"/kernels/{self._id}")
            await asyncio.to_thread(self._remove)

    async def _asked(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        return await asyncio.to_thread(self._broker.ask, method, path, body)

    async def _write(self, **changes: Any) -> None:
        self._record = self._record.but(**changes)
        await asyncio.to_thread(self._keep, self._record)

    def _keep(self, record: Record) -> None:
        """Write the record, unless it was removed: a thread goes on when its task is cancelled."""
        with self._keeping:
            if self._continued:
                records.write(record)

    def _remove(self) -> None:
        with self._keeping:
            self._continued = False
            records.remove(self._id)

    # -- its connection ---------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Greet whoever has the kernel's key; only the one starter that came first is let in."""
        try:
            line = await asyncio.wait_for(reader.readuntil(b"\n"), _GREETING)
            greeting = json.loads(line) if len(line) <= _LINE else {}
            secret, theirs = str(greeting["starter"]), int(greeting["received"])
            life, first = int(greeting["life"]), int(greeting["first"])
        except (
            OSError,
            EOFError,
            ValueError,
            TypeError,
            KeyError,
            asyncio.TimeoutError,
            asyncio.LimitOverrunError,
        ):
            writer.transport.abort()
            return
        digest = hashlib.sha256(secret.encode()).hexdigest()
        if self._record.starter and not hmac.compare_digest(digest, self._record.starter):
            writer.write(b'{"refused": "This kernel has another starter."}\n')
            with contextlib.suppress(OSError):
                await writer.drain()
            writer.transport.abort()
            return
        if not self._record.starter:
            await self._write(starter=digest)
        if self._carrying is not None:
            self._carrying.cancel()
            await asyncio.gather(self._carrying, return_exceptions=True)
        again = life == self._record.life
        if self._fresh and again:
            self._link.received = first - 1
        answer = {
            "life": self._record.life,
            "fresh": self._fresh,
            "received": self._link.received,
            "cwd": self._record.cwd,
        }
        self._fresh = False
        writer.write(json.dumps(answer).encode() + b"\n")
        self._carrying = asyncio.ensure_future(
            self._link.carry(reader, writer, theirs if again else 0)
        )
        with contextlib.suppress(BadFrame, asyncio.CancelledError):
            await self._carrying

    def _receive(self, message: Message) -> None:
        if message[:1] != b"{":
            self._stand_in.deliver(message)
            return
        report = json.loads(bytes(message))
        if "ready" in report:
            self._do(self._stand_in.runs(report.get("info")))
        elif "past" in report:
            self._stand_in.past(report["past"])
        elif "past_end" in report and self._adopted:
            self._stand_in.past_end()
        elif "died" in report:
            self._do(self._stand_in.died(str(report["died"])))

    def _control(self, **words: Any) -> None:
        self._link.send(json.dumps(words).encode())

    def _do(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- what Jupyter wants -------------------------------------------------------------------

    def _interrupt(self) -> None:
        if self._stand_in.state is State.RUNS:
            self._control(interrupt=True)
        else:
            self._do(
                self._stand_in.forget(
                    "KeyboardInterrupt", "Cancelled while the kernel was waiting."
                )
            )

    def _shut_down(self, restart: bool) -> None:
        self._restart = restart
        self._ended.set()


def id_of(connection_file: Path) -> str:
    """Return the id of a kernel: the one that Jupyter has for it, if its file has that name, so
    that a restarted kernel finds its job."""
    named = connection_file.stem.partition("-")[2].lower()
    return named if is_id(named) else str(uuid.uuid4())


async def relay(
    connection_file: Path,
    request: dict[str, Any],
    language: str,
    spec: str,
    *,
    owner: int = 0,
) -> None:
    """Relay the kernel of ``connection_file``; see Relay. The file's folder is removed if the
    ``owner`` was killed. Raises OSError, ValueError for a file that cannot be read."""
    info = await asyncio.to_thread(connection_info, connection_file)
    await Relay(id_of(connection_file), info, request, language, spec, owner=owner).run()
    if owner and os.getppid() != owner:  # killed, so that its folder is left to this process
        await asyncio.to_thread(shutil.rmtree, connection_file.parent, ignore_errors=True)
