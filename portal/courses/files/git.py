"""git, for repositories of people that nobody here knows: no hooks, no filters, no settings but
those below, no way out but https, and an end to time, memory and size.

Sources: git(1), git-config(1); gitremote-helpers(7) for GIT_ALLOW_PROTOCOL, prlimit(1).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Sequence
from pathlib import Path

from portal.addresses import Destination
from portal.errors import ConfigurationError, PortalError

BRANCH = "refs/heads/main"  # of what is handed out
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "credential.helper=",
    "fetch.recurseSubmodules=false",
    "fetch.unpackLimit=1",  # one file for what comes, so that the limit of a file's size holds
    "gc.auto=0",
    "maintenance.auto=false",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=20",
    "http.followRedirects=false",  # nor http-alternates: they lead to where nobody looked
    "protocol.version=2",
)
# What a site may have set so that its service reaches others.
_KEPT = re.compile(
    r"(https?|all|no)_proxy|SSL_CERT_(FILE|DIR)|GIT_SSL_CAINFO|PATH|TMPDIR", re.IGNORECASE
)
_MEMORY = 4 * 1024**3  # bytes of one git's memory
_PART = 256 * 1024  # bytes that are read at once
_ADDRESS = re.compile(r"https?://[^\s'\"]+")


def pinned(to: Destination) -> tuple[str, ...]:
    """Words before git's command: it connects to the addresses that were looked at. git before
    2.37 does not know the setting, and resolves the name once more."""
    if not to.addresses or to.host in to.addresses:
        return ()
    found = ",".join(f"[{one}]" if ":" in one else one for one in to.addresses)
    return ("-c", f"http.curloptResolve={to.host}:{to.port}:{found}")


class GitFailed(PortalError):
    """git did not do it. The message quotes its last words."""

    code = "git_failed"
    status = 502


class Git:
    """The bare repository in ``folder``; what comes into it is at most ``megabytes``."""

    def __init__(self, folder: Path, megabytes: int, protocols: str = "https") -> None:
        self.folder = folder
        self.megabytes = megabytes
        self._protocols = protocols

    async def make(self) -> None:
        """Make the repository where it is not there. Raises GitFailed, OSError."""
        await asyncio.to_thread(private_folder, self.folder)
        if not await asyncio.to_thread((self.folder / "HEAD").exists):
            await self.run("init", "-q", "--bare", "--template=", ".")
            await self.run("symbolic-ref", "HEAD", BRANCH)

    async def run(
        self,
        *arguments: str,
        stdin: Path | bytes | None = None,
        seconds: float = 60.0,
        most: int = 32 * 1024 * 1024,
        room: int = 1,
    ) -> bytes:
        """What git writes, at most ``most`` bytes. ``stdin``: a file, or the bytes themselves;
        ``room``: how many times ``megabytes`` a file may have.

        Raises GitFailed; ConfigurationError where there is no git.
        """
        source = await asyncio.to_thread(stdin.open, "rb") if isinstance(stdin, Path) else None
        given = stdin if isinstance(stdin, bytes) else None
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv(arguments, room),
                cwd=self.folder,
                env=self._environment(),
                stdin=source or (asyncio.subprocess.PIPE if given else asyncio.subprocess.DEVNULL),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise ConfigurationError(
                "git (or prlimit, of util-linux) is not on the portal's machine. Install it there."
            ) from None
        finally:
            if source is not None:
                source.close()
        assert process.stdout is not None and process.stderr is not None
        try:
            async with asyncio.timeout(seconds):
                out, said, _ = await asyncio.gather(
                    _read(process, process.stdout, most),
                    _read(process, process.stderr, most),
                    _give(process, given),
                )
                status = await process.wait()
        except TimeoutError:
            raise GitFailed(f"git took longer than {seconds:.0f} seconds and was ended.") from None
        finally:
            _kill(process)
            # wait() waits for the ends of its pipes, which a reader that is full does not see.
            for stream in (process.stdout, process.stderr):
                while await stream.read(_PART):
                    pass
            await process.wait()
        if out is None or said is None:
            raise GitFailed("git lists more than any course's files can be.")
        if status:
            raise GitFailed(self._words(said.decode("utf-8", "replace"), status))
        return out

    async def text(self, *arguments: str) -> str:
        """One line of git's. Raises GitFailed."""
        return (await self.run(*arguments)).decode("utf-8", "replace").strip()

    async def revision(self, name: str) -> str:
        """The object that a name stands for; "" where there is none."""
        try:
            return await self.text("rev-parse", "-q", "--verify", "--end-of-options", name)
        except GitFailed:
            return ""

    def _argv(self, arguments: Sequence[str], room: int) -> list[str]:
        size = room * self.megabytes * 1024 * 1024
        # A file of more ends git (SIGXFSZ): what comes is never larger than that on disk.
        argv = ["prlimit", f"--fsize={size}", f"--as={_MEMORY}", "--core=0", "git"]
        for setting in _SETTINGS:
            argv += ["-c", setting]
        return [*argv, *arguments]

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
        return {
            **kept,
            "GIT_DIR": str(self.folder),
            "HOME": "/nonexistent",  # no .netrc, no .gitconfig
            "XDG_CONFIG_HOME": "/nonexistent",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "/bin/false",
            "SSH_ASKPASS": "/bin/false",
            "GIT_ALLOW_PROTOCOL": self._protocols,
            "GIT_PROTOCOL_FROM_USER": "0",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "LC_ALL": "C.UTF-8",
        }

    def _words(self, said: str, status: int) -> str:
        if status == -signal.SIGXFSZ or "File too large" in said or "signal 25" in said:
            return f"There is more than the {self.megabytes} MB that a course may hand out."
        if "invalid index-pack output" in said:  # all that is heard of a helper that was ended
            return (
                f"There is more than the {self.megabytes} MB that a course may hand out, or what "
                "came cannot be read."
            )
        if re.search(r"requested URL returned error: 30\d", said):
            return (
                "The server sends on to another address, which is not followed: give that address "
                "itself (GitLab's end in '.git')."
            )
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
        words = (fatal or lines or [f"it ended with status {status}"])[0][:300]
        # An address that a server redirected to can hold what is nobody's business.
        return f"git says: {_ADDRESS.sub('…', words)}"


def private_folder(path: Path) -> None:
    """Make a folder of the service's own, and the course's in which it is. Raises OSError."""
    path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for one in (path.parent, path):
        one.mkdir(mode=0o700, exist_ok=True)


def _kill(process: asyncio.subprocess.Process) -> None:
    # Its helpers, too: they are of the same group.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _read(
    process: asyncio.subprocess.Process, stream: asyncio.StreamReader, most: int
) -> bytes | None:
    """Read to the end; None, and the process is killed, when it is more than ``most`` bytes."""
    parts: list[bytes] = []
    size = 0
    while part := await stream.read(_PART):
        size += len(part)
        if size > most:
            _kill(process)
            parts.clear()
        else:
            parts.append(part)
    return b"".join(parts) if size <= most else None


async def _give(process: asyncio.subprocess.Process, given: bytes | None) -> None:
    if process.stdin is None or given is None:
        return
    with contextlib.suppress(ConnectionError):  # its status tells
        process.stdin.write(given)
        await process.stdin.drain()
    process.stdin.close()
