"""The magic ``%%gpu``: it starts the warm kernel, runs cells in it, and gives the GPU back.

A notebook has one warm kernel at most. It ends with the notebook's kernel, after a time without a
cell, and before one with other resources starts.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import getpass
import os
import threading
import time
from pathlib import Path
from typing import Any

from . import remote, variables
from .outputs import CellOutputs, StatusLine, error_of
from .request import GpuError, JobKernel, Options, choose, parse
from .warm_kernel import Ended, WarmKernel

_HERE = "in this notebook"
_PLACE = {  # of the kernel, by itself: the portal learns of its start a little later
    "node": "__import__('os').environ.get('SLURMD_NODENAME', '')",
    "job": "__import__('os').environ.get('PORTAL_JOB_ID', '')",
}
_ATTRIBUTE = "_portal_gpu_magic"  # of the shell: the one Magic


def magic_of(shell: Any) -> Magic:
    """Return the magic of IPython's ``shell``."""
    magic: Magic | None = getattr(shell, _ATTRIBUTE, None)
    if magic is None:
        magic = Magic(shell)
        setattr(shell, _ATTRIBUTE, magic)
    return magic


class Magic:
    """Magic of one notebook. Raises GpuError, and the cell's own error as RemoteError."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._lock = threading.Lock()  # held while a cell runs, and while the kernel ends
        self._warm: WarmKernel | None = None
        self._idle: threading.Timer | None = None
        self._until = 0.0  # monotonic seconds, at which the GPU is given back
        self._given_back = ""  # why the one before was
        self._place: dict[str, str] = {}  # node and job of the kernel
        self._process = os.getpid()
        atexit.register(self._at_exit)

    # -- cells --------------------------------------------------------------------------------

    def cell(self, line: str, code: str) -> Any:
        """Run ``code`` with the options of ``line``; return its result."""
        options = parse(line)
        sent = self._packed(options)
        kernel = choose(options, os.environ)
        with self._held():
            try:
                warm = self._started(kernel)
                return self._run(warm, options, code, sent)
            finally:
                self._wait_idle(options.idle)

    def line(self, line: str) -> None:
        """``%gpu stop`` and ``%gpu status``."""
        word = line.strip()
        if word == "stop":
            with self._held():
                had = self._end("", wait=True)
            print("The GPU was given back." if had else "No GPU was held.")
        elif word == "status":
            print(self._state())
        else:
            raise GpuError("Use %gpu stop, %gpu status, or %%gpu at the beginning of a cell.")

    def _packed(self, options: Options) -> tuple[list[dict[str, Any]], list[Any]]:
        try:
            return variables.pack(self._shell.user_ns, options.sent, options.limit, _HERE)
        except variables.Refused as error:
            raise GpuError(str(error)) from None

    @contextlib.contextmanager
    def _held(self) -> Any:
        if not self._lock.acquire(timeout=30):
            raise GpuError("Another cell of this notebook uses the GPU.")
        try:
            if self._idle is not None:
                self._idle.cancel()
                self._idle = None
            yield
        finally:
            self._lock.release()

    def _run(
        self,
        warm: WarmKernel,
        options: Options,
        code: str,
        sent: tuple[list[dict[str, Any]], list[Any]],
    ) -> Any:
        outputs = CellOutputs(self._shell)
        try:
            if sent[0]:
                self._exchange(warm, {"set": sent[0]}, sent[1])
            reply = warm.execute(code, outputs.hear, answer=_input, silent=False)
            if reply["status"] != "ok":
                raise error_of(reply)
            if options.wanted:
                asked = {"get": list(options.wanted), "limit": options.limit}
                message = self._exchange(warm, asked)
                headers = message["content"]["data"]["values"]
                values = variables.unpack(headers, message["buffers"], _HERE)
                self._shell.user_ns.update(values)
        except Ended as error:
            self._end("")
            raise GpuError(f"The kernel with the GPU has ended: {_without(error)}") from None
        except variables.Refused as error:
            raise GpuError(str(error)) from None
        except KeyboardInterrupt:  # the second one: the kernel does not react
            self._end("")
            raise
        return outputs.result

    def _exchange(
        self, warm: WarmKernel, data: dict[str, Any], buffers: Any = ()
    ) -> dict[str, Any]:
        message = warm.exchange(remote.TARGET, data, buffers)
        refused = message["content"]["data"].get("refused")
        if refused:
            raise GpuError(refused)
        return message

    # -- the warm kernel ------------------------------------------------------------------------

    def _started(self, kernel: JobKernel) -> WarmKernel:
        """Return a kernel that is ready for a cell: the warm one, or a new one."""
        warm = self._warm
        if warm is not None and warm.kernel.request != kernel.request:
            self._end("other resources were requested")
        elif warm is not None:
            with contextlib.suppress(Ended):  # its time was over, for example
                reply = warm.execute(_setup())
                if reply["status"] == "ok":
                    return warm
                if reply.get("ename") == "KeyboardInterrupt":
                    raise KeyboardInterrupt
            self._end("its job had ended")
        line = StatusLine(self._shell)
        line.show(f"Requesting {kernel.title} …")
        try:
            self._warm = warm = WarmKernel(kernel)
            warm.connect()
            reply = warm.execute(_setup(), look=lambda: self._tell(warm, line), expressions=_PLACE)
        except (Ended, OSError) as error:
            self._end("")
            line.show(f"No {kernel.title}.")
            raise GpuError(_without(error)) from None
        except BaseException:
            self._end("")
            line.show(f"Cancelled: no {kernel.title}.")
            raise
        if reply["status"] != "ok":
            self._end("")
            line.show(f"No {kernel.title}.")
            if reply.get("ename") == "KeyboardInterrupt":
                raise KeyboardInterrupt
            raise error_of(reply)
        self._place = _texts(reply)
        line.show(self._where(warm) + self._new())
        return warm

    def _tell(self, warm: WarmKernel, line: StatusLine) -> None:
        """Tell how the job is, while it waits."""
        warm.ask()
        message = str(warm.status.get("message") or "")
        if warm.status.get("state") == "running":
            line.show(f"{message} The kernel starts …")
        elif message and warm.status.get("state") == "waiting":
            line.show(f"Waiting for {warm.kernel.title}. {message}")

    def _where(self, warm: WarmKernel) -> str:
        node, job = (self._place.get(key) for key in ("node", "job"))
        return f"{warm.kernel.title} on {node or 'a node'}{f', job {job}' if job else ''}."

    def _new(self) -> str:
        """Return a sentence on the kernel before, whose variables are gone."""
        why, self._given_back = self._given_back, ""
        return f" This is a new kernel without the previous one's variables: {why}." if why else ""

    def _end(self, why: str, *, wait: bool = False) -> bool:
        """End the warm kernel, if there is one. ``why``: for the next one's first cell."""
        warm, self._warm = self._warm, None
        if warm is None:
            return False
        self._given_back = why
        warm.end(wait=wait)
        return True

    # -- idle time ------------------------------------------------------------------------------

    def _wait_idle(self, seconds: float) -> None:
        """Give the GPU back after ``seconds`` without a cell."""
        warm = self._warm
        if warm is None:
            return
        self._until = time.monotonic() + seconds
        timer = threading.Timer(seconds, lambda: self._give_back(timer, seconds))
        timer.daemon = True
        self._idle = timer
        timer.start()

    def _give_back(self, timer: threading.Timer, seconds: float) -> None:
        with self._lock:
            if self._idle is timer:  # else a cell has begun
                self._idle = None
                self._end(f"it was given back after {seconds:.0f} s without a cell")

    def _state(self) -> str:
        warm = self._warm
        if warm is None or not warm.alive:
            return "No GPU is held."
        warm.ask_now()
        if warm.status.get("state") == "ended":
            return f"No GPU is held. {warm.status.get('message', '')}"
        left = max(0.0, self._until - time.monotonic())
        return f"{self._where(warm)} It is given back in {left:.0f} s, unless a cell uses it."

    def _at_exit(self) -> None:
        warm = self._warm
        if warm is not None and os.getpid() == self._process:
            warm.end()


def _texts(reply: dict[str, Any]) -> dict[str, str]:
    """Return the texts that are values of a reply's expressions."""
    values = {}
    for name, value in reply.get("user_expressions", {}).items():
        with contextlib.suppress(ValueError, SyntaxError, KeyError):
            values[name] = str(ast.literal_eval(value["data"]["text/plain"]))
    return values


def _setup() -> str:
    folder = Path(__file__).parent
    names = ("variables", "remote")
    return remote.setup({name: (folder / f"{name}.py").read_text("utf-8") for name in names})


def _input(content: dict[str, Any]) -> str:
    """Ask the user for a line, as the cell in the other kernel wants it."""
    return (getpass.getpass if content.get("password") else input)(str(content.get("prompt", "")))


def _without(error: BaseException) -> str:
    """Return the sentence of an error, without the advice for notebooks whose kernel it is."""
    return str(error).replace(" Restart the kernel to request a new job.", "")
