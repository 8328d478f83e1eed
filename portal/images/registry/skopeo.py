"""Runner of skopeo, which asks registries, without a password in its arguments or environment."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from portal.errors import ConfigurationError
from portal.models.catalog.catalog import Registry

from .credentials import Login
from .fence import OPEN
from .guard import Guard
from .pull_files import environment_of, write

_LARGEST = 8 * 1024 * 1024  # bytes of an answer; manifests have at most 4 MiB
_PASSED_ON = ("PATH", "LANG", "TMPDIR")  # the site's proxies are the guard's to use


class Answer(NamedTuple):
    """Answer of skopeo. ``late``: it did not end in time; ``long``: the answer was too long;
    ``refused``: the host that the registry led to and that was refused, in a sentence."""

    status: int
    stdout: bytes
    stderr: str
    late: bool = False
    long: bool = False
    refused: str = ""


class Skopeo:
    """Instance of skopeo with the files to reach some registries; `skopeo` opens and closes it."""

    def __init__(
        self,
        program: str,
        options: Sequence[str],
        env: Mapping[str, str],
        registries: Collection[str],
        allowed: Sequence[str],
    ) -> None:
        self._program, self._options, self._env = program, list(options), dict(env)
        self._registries, self._allowed = registries, allowed

    async def ask(self, verb: str, *args: str, seconds: float, text: str = "") -> Answer:
        """Run a command; ``text`` is its input. Raises ConfigurationError if skopeo is missing."""
        argv = [self._program, verb, *self._options, *args]
        guard = Guard(self._registries, self._allowed)
        return await asyncio.to_thread(_run, argv, self._env, text, seconds, guard)


@contextlib.asynccontextmanager
async def skopeo(
    program: str,
    logins: Callable[[], Mapping[str, Login]],
    registries: Iterable[Registry],
    hosts: Collection[str],
    allowed: Sequence[str],
) -> AsyncIterator[Skopeo]:
    """Yield a skopeo that knows these logins and registries. ``logins`` may read files: it is
    called in a thread. skopeo reaches ``hosts``, and where those lead, except inside of the site;
    ``allowed``: exceptions from that (`portal.addresses.allows`)."""
    home = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="portal-skopeo-"))  # mode 0700
    try:
        yield await asyncio.to_thread(_prepared, home, program, logins, registries, hosts, allowed)
    finally:
        await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)


def _prepared(
    home: Path,
    program: str,
    logins: Callable[[], Mapping[str, Login]],
    registries: Iterable[Registry],
    hosts: Collection[str],
    allowed: Sequence[str],
) -> Skopeo:
    try:
        files = write(home, logins(), registries, mode=0o600)
        env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        env |= environment_of(files, home)
        # Without one, skopeo would look for the service's own.
        auth = files.auth_file or str(home / "nobody.json")
        if not files.auth_file:
            Path(auth).write_text("{}")
    except OSError as error:
        raise ConfigurationError(
            f"{error.filename or home} cannot be read or written: {error.strerror}."
        ) from None
    return Skopeo(program, ["--authfile", auth], env, hosts, allowed)


def _run(argv: list[str], env: dict[str, str], text: str, seconds: float, guard: Guard) -> Answer:
    """Run ``argv`` behind the fence. Blocks."""
    if not shutil.which(argv[0], path=env.get("PATH")):
        raise ConfigurationError(
            f"'{argv[0]}' cannot be started (there is no such program): install skopeo, or set "
            "c.Registries.skopeo."
        )
    ours, theirs = socket.socketpair()
    fence_script = str(Path(__file__).with_name("fence.py"))
    fence = [sys.executable, "-I", fence_script, str(theirs.fileno()), json.dumps(guard.loopback())]
    try:
        process = subprocess.Popen(
            [*fence, *argv],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        raise ConfigurationError(
            f"'{argv[0]}' cannot be started ({error.strerror}): install skopeo, or set "
            "c.Registries.skopeo."
        ) from None
    finally:
        theirs.close()
    late = threading.Event()

    def give_up() -> None:
        late.set()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(seconds, give_up)
    timer.start()
    complaints: list[bytes] = []
    assert process.stdin and process.stdout and process.stderr
    reader = threading.Thread(target=lambda: complaints.append(_take(process.stderr)), daemon=True)
    reader.start()
    try:
        _open_doors(ours, guard)
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(text.encode())
        data = _take(process.stdout)
        reader.join()
        status = process.wait()
    finally:
        timer.cancel()
        guard.close()
        process.stdout.close()
        process.stderr.close()
    stderr = b"".join(complaints)[-20_000:].decode(errors="replace")
    return Answer(status, data, stderr, late.is_set(), len(data) > _LARGEST, guard.refused)


def _open_doors(parent: socket.socket, guard: Guard) -> None:
    """Serve on the sockets that `fence` has sent."""
    with parent:
        state, numbers, _, _ = socket.recv_fds(parent, 16, 32)
    listening = [socket.socket(fileno=number) for number in numbers]
    if not listening:
        return  # it ended before, and skopeo's answer says why
    if state == OPEN:
        _warn_once()
    guard.serve(listening[0], listening[1:])


@functools.cache
def _warn_once() -> None:
    logging.getLogger(__name__).warning(
        "This machine does not allow network namespaces (user.max_user_namespaces, or "
        "Ubuntu's kernel.apparmor_restrict_unprivileged_userns). Without them, a registry "
        "could redirect the portal to loopback addresses."
    )


def _take(pipe: object) -> bytes:
    """Read all of a pipe; keep at most one byte more than `_LARGEST`."""
    data = bytearray()
    while block := pipe.read(65536):  # type: ignore[attr-defined]
        if len(data) <= _LARGEST:
            data += block[: _LARGEST + 1 - len(data)]
    return bytes(data)
