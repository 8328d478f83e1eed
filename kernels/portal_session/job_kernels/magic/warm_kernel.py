"""Warm kernel: a kernel with GPUs in a job of its own, behind a relay that this process starts.

The relay binds the kernel's sockets, in a folder of mode 700, and asks for the job. It ends the job
when it is terminated, and when this process ends.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

import zmq
from jupyter_client.session import Session

from .. import record as records
from ..broker_client import Broker, BrokerError
from ..record import BadRecord
from .request import GpuError, JobKernel

_LOOK = 200  # ms between two looks at interrupts and at the relay
_ASK = 2.0  # seconds between two questions for the job
_OFTEN = 2.0  # seconds; a relay that is killed within them is not followed by another
_BINDS = 30.0  # seconds that the relay may take to bind its sockets
_ENDS = 15.0  # seconds for which its end is awaited
_LONGEST_PATH = 90  # of a Unix socket, which has 107 bytes in Linux (unix(7))
_IN_TMP = "/tmp"  # noqa: S108 - a folder of mode 700 in it

# A cell without effect.
_NOTHING = {"code": "pass", "silent": True, "store_history": False, "allow_stdin": False}
_LOST = (
    "The relay to the kernel was killed while it passed this cell on, so it is not known whether "
    "the cell has run. The variables are kept: check them, and run the cell again if it has not."
)

OnMessage = Callable[[dict[str, Any]], None]


class Ended(Exception):
    """The kernel's job has ended, or did not start; the text is the reason."""


class WarmKernel:
    """Warm kernel with the job of ``kernel``. Raises OSError if its relay cannot be started.

    One thread uses it at a time. ``ready``: it has run something.
    """

    def __init__(self, kernel: JobKernel) -> None:
        self.kernel = kernel
        self.id = str(uuid.uuid4())
        self.ready = False
        self.status: dict[str, Any] = {}  # the broker's newest answer
        self._asking: threading.Thread | None = None
        self._asked = time.monotonic()
        self._folder = _folder()
        info = {
            "transport": "ipc",
            "ip": str(self._folder / "k"),
            **{f"{name}_port": n for n, name in enumerate(_CHANNELS, 1)},
            "key": secrets.token_hex(32),
            "signature_scheme": "hmac-sha256",
        }
        file = self._folder / f"kernel-{self.id}.json"
        file.write_text(json.dumps(info))
        self._log = self._folder / "log"
        self._session = Session(key=info["key"].encode(), username="portal-gpu")
        self._context = zmq.Context()
        self._shell = self._socket(zmq.DEALER, info, "shell")
        self._stdin = self._socket(zmq.DEALER, info, "stdin")
        self._iopub = self._socket(zmq.SUB, info, "iopub")
        self._poller = zmq.Poller()
        for socket in (self._shell, self._stdin, self._iopub):
            self._poller.register(socket, zmq.POLLIN)
        self._argv = [part.replace("{connection_file}", str(file)) for part in kernel.argv]
        self._continued = float("-inf")  # monotonic time of the last relay that followed another
        self._relay = self._start_relay()

    def _start_relay(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            # A process group of its own: an interrupt of the cell is passed on by this process.
            return subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _socket(self, kind: int, info: dict[str, Any], channel: str) -> Any:
        socket = self._context.socket(kind)
        socket.linger = 0
        if kind == zmq.SUB:
            socket.rcvhwm = 0
            socket.subscribe(b"")
        else:
            socket.identity = self._session.bsession  # input is asked for where a cell came from
        socket.connect(f"ipc://{info['ip']}-{info[f'{channel}_port']}")
        return socket

    # -- its life -----------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """True while its relay runs. One that was killed is followed by another, which takes up
        the kernel, unless that happens again at once. Raises OSError if it cannot be started."""
        code = self._relay.poll()
        if code is None:
            return True
        if code >= 0 or self._context.closed or time.monotonic() - self._continued < _OFTEN:
            return False
        self._continued = time.monotonic()
        with contextlib.suppress(BadRecord):
            if records.adopt(self.id):
                self._relay = self._start_relay()
        return self._relay.poll() is None

    def connect(self) -> None:
        """Wait until the relay's broadcast is heard. Raises Ended."""
        deadline = time.monotonic() + _BINDS
        while not self._iopub.poll(0):
            if not self.alive or time.monotonic() > deadline:
                raise Ended(self._why())
            self._session.send(self._shell, "kernel_info_request")
            self._iopub.poll(100)

    def ask(self) -> None:
        """Ask the session for the job's status, in a thread, now and then."""
        waits = self._asking is not None and self._asking.is_alive()
        if waits or time.monotonic() - self._asked < _ASK:
            return
        self._asked = time.monotonic()
        self._asking = threading.Thread(target=self.ask_now, daemon=True)
        self._asking.start()

    def ask_now(self) -> None:
        """Ask the session for the job's status."""
        with contextlib.suppress(BrokerError):
            self.status = Broker().ask("GET", f"/kernels/{self.id}")

    def end(self, *, wait: bool = False) -> None:
        """End the job, which the relay does by itself; or ``wait`` until it has."""
        if self._context.closed:
            return
        with contextlib.suppress(OSError):
            self._relay.terminate()
        for socket in (self._shell, self._stdin, self._iopub):
            socket.close(0)
        self._context.term()
        if wait:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._relay.wait(_ENDS)
        shutil.rmtree(self._folder, ignore_errors=True)

    def interrupt(self) -> None:
        """Interrupt the cell that runs."""
        with contextlib.suppress(OSError):
            self._relay.send_signal(signal.SIGINT)

    def _why(self) -> str:
        try:
            lines = self._log.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return f"The relay to the kernel has ended: {lines[-1] if lines else 'no output'}"

    # -- what it runs -------------------------------------------------------------------------

    def execute(
        self,
        code: str,
        on_message: OnMessage = lambda message: None,
        *,
        look: Callable[[], None] = lambda: None,
        answer: Callable[[dict[str, Any]], str] | None = None,
        silent: bool = True,
        expressions: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Run code; return the content of its reply, with the values of ``expressions``.

        ``on_message`` is called with each broadcast message of it, ``look`` several times a second,
        ``answer`` with a request for input. An interrupt is passed on; a second one raises
        KeyboardInterrupt. Raises Ended.
        """
        content = {
            "code": code,
            "silent": silent,
            "store_history": not silent,
            "user_expressions": dict(expressions or {}),
            "allow_stdin": answer is not None,
            "stop_on_error": True,
        }
        sent = self._session.send(self._shell, "execute_request", content)
        return self._followed({sent["header"]["msg_id"]}, on_message, look, answer)

    def exchange(
        self, target: str, data: dict[str, Any], buffers: Sequence[Any] = ()
    ) -> dict[str, Any]:
        """Send a comm's message to ``target``; return the message that answers it. Raises Ended,
        and GpuError if there is none."""
        comm, on_message = uuid.uuid4().hex, []
        self._session.send(
            self._shell, "comm_open", {"comm_id": comm, "target_name": target, "data": {}}
        )
        self._session.send(
            self._shell, "comm_msg", {"comm_id": comm, "data": data}, buffers=list(buffers)
        )
        # Its reply comes after the comm's messages, and also if the kernel dies of them.
        sent = self._session.send(self._shell, "execute_request", _NOTHING)
        reply = self._followed({sent["header"]["msg_id"]}, on_message.append, comm=comm)
        self._session.send(self._shell, "comm_close", {"comm_id": comm, "data": {}})
        answers = [message for message in on_message if message["msg_type"] == "comm_msg"]
        if not answers:
            raise GpuError(reply.get("evalue") or "The kernel with the GPU sent no answer.")
        return answers[0]

    def _followed(
        self,
        ids: set[str],
        on_message: OnMessage,
        look: Callable[[], None] = lambda: None,
        answer: Callable[[dict[str, Any]], str] | None = None,
        comm: str = "",
    ) -> dict[str, Any]:
        """Return the content of the reply to these messages, once all broadcast came."""
        reply: dict[str, Any] = {}
        idle, problem = False, ""
        relay, probe = self._relay, ""  # sent through a relay that follows another
        with _interrupts() as count:
            passed = 0
            while not (reply and idle):
                ready = dict(self._poller.poll(_LOOK))
                if count() > passed:
                    passed = count()
                    if passed > 1:
                        raise KeyboardInterrupt
                    self.interrupt()
                if not ready and not self.alive:
                    raise Ended(self._why())
                if self._relay is not relay:
                    relay = self._relay
                    sent = self._session.send(self._shell, "execute_request", _NOTHING)
                    probe = sent["header"]["msg_id"]
                look()
                for socket in ready:
                    message = self._received(socket)
                    ours = message["parent_header"].get("msg_id") in ids
                    kind, content = message["msg_type"], message["content"]
                    if socket is self._iopub:
                        if comm and content.get("comm_id") == comm:
                            on_message(message)
                        elif ours and kind == "status":
                            idle = content["execution_state"] == "idle"
                        elif ours:
                            on_message(message)
                    elif ours and kind == "execute_reply":
                        reply = content
                    elif probe and message["parent_header"].get("msg_id") == probe:
                        if not reply:  # a kernel answers in order
                            raise GpuError(_LOST)
                        idle = True
                    elif ours and kind == "input_request" and answer is not None:
                        problem = self._input(answer, content) or problem
        if problem:
            raise GpuError(problem)
        if reply.get("ename") == "KernelEnded":
            raise Ended(str(reply.get("evalue")))
        self.ready = self.ready or reply.get("status") == "ok"
        return reply

    def _received(self, socket: Any) -> dict[str, Any]:
        _, frames = self._session.feed_identities(socket.recv_multipart())
        message: dict[str, Any] = self._session.deserialize(frames)
        return message

    def _input(self, answer: Callable[[dict[str, Any]], str], content: dict[str, Any]) -> str:
        """Send what the user enters. If that fails, interrupt the cell and return why."""
        try:
            with _raised():
                value = answer(content)
        except KeyboardInterrupt:
            self.interrupt()
        except Exception as error:  # no page that could ask
            self.interrupt()
            return f"The cell asks for input, which is not possible here: {error}"
        else:
            self._session.send(self._stdin, "input_reply", {"value": value})
        return ""


_CHANNELS = ("shell", "iopub", "stdin", "control", "hb")


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[], int]]:
    """Count interrupts instead of raising them anywhere, where a message could be lost."""
    moments: list[float] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: 0
        return
    before = signal.signal(signal.SIGINT, lambda *_: moments.append(time.monotonic()))
    try:
        yield lambda: len(moments)
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _raised() -> Iterator[None]:
    """Raise interrupts as Python does, where something else waits."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _folder() -> Path:
    """Return a new folder of mode 700 whose path leaves room for the names of sockets."""
    folder = Path(tempfile.mkdtemp(prefix="portal-gpu-"))
    if len(str(folder)) <= _LONGEST_PATH:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix="portal-gpu-", dir=_IN_TMP))
