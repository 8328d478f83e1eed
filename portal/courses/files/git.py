"""git for untrusted repositories: no hooks, no filters, no settings but those below, no protocol
but https, and limits on time, memory and size.

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
    "safe.bareRepository=explicit",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "credential.helper=",
    "fetch.recurseSubmodules=false",
    "fetch.unpackLimit=1",  # a single pack, so that the limit of a file's size applies
    "gc.auto=0",
    "maintenance.auto=false",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=20",
    "http.followRedirects=false",  # nor http-alternates: their hosts were not checked
    "protocol.version=2",
)
# Variables with which a site lets its service reach other hosts.
_PASSED_ON = re.compile(
    r"(https?|all|no)_proxy|SSL_CERT_(FILE|DIR)|GIT_SSL_CAINFO|PATH|TMPDIR", re.IGNORECASE
)
_MEMORY = 4 * 1024**3  # bytes of memory for each git process
_PART = 256 * 1024  # bytes that are read at once
_ADDRESS = re.compile(r"https?://[^\s'\"]+")


def pinned(to: Destination) -> tuple[str, ...]:
    """Return git options that connect to the addresses that were checked. git before 2.37 does not
    know the setting, and resolves the name again."""
    if not to.addresses or to.host in to.addresses:
        return ()
    addresses = ",".join(f"[{address}]" if ":" in address else address for address in to.addresses)
    return ("-c", f"http.curloptResolve={to.host}:{to.port}:{addresses}")


class GitFailed(PortalError):
    """Failure of git. The message quotes its error output."""

    code = "git_failed"
    status = 502


class Git:
    """Bare repository in ``folder``; at most ``megabytes`` come into it."""

    def __init__(self, folder: Path, megabytes: int, protocols: str = "https") -> None:
        self.folder = folder
        self.megabytes = megabytes
        self._protocols = protocols

    async def make(self) -> None:
        """Create the repository if it does not exist. Raises GitFailed, OSError."""
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
        """Run git and return its output, at most ``most`` bytes. ``stdin``: a file, or the bytes
        themselves; ``room``: size limit of a file, in multiples of ``megabytes``.

        Raises GitFailed; ConfigurationError if git is not installed.
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
                "Install git and prlimit (of util-linux) on the portal's machine."
            ) from None
        finally:
            if source is not None:
                source.close()
        assert process.stdout is not None and process.stderr is not None
        try:
            async with asyncio.timeout(seconds):
                out, err, _ = await asyncio.gather(
                    _read(process, process.stdout, most),
                    _read(process, process.stderr, most),
                    _give(process, given),
                )
                status = await process.wait()
        except TimeoutError:
            raise GitFailed(f"git took longer than {seconds:.0f} s and was stopped.") from None
        finally:
            _kill(process)
            # wait() waits for the ends of the pipes, which a full reader does not see: drain them.
            for stream in (process.stdout, process.stderr):
                while await stream.read(_PART):
                    pass
            await process.wait()
        if out is None or err is None:
            raise GitFailed("git's output exceeds the limit.")
        if status:
            raise GitFailed(self._words(err.decode("utf-8", "replace"), status))
        return out

    async def text(self, *arguments: str) -> str:
        """Return git's output as a line of text. Raises GitFailed."""
        return (await self.run(*arguments)).decode("utf-8", "replace").strip()

    async def revision(self, name: str) -> str:
        """Return the object that a name refers to; "" if there is none."""
        try:
            return await self.text("rev-parse", "-q", "--verify", "--end-of-options", name)
        except GitFailed:
            return ""

    def _argv(self, arguments: Sequence[str], room: int) -> list[str]:
        size = room * self.megabytes * 1024 * 1024
        # A larger file ends git (SIGXFSZ), so that a fetch never takes more than that on disk.
        argv = ["prlimit", f"--fsize={size}", f"--as={_MEMORY}", "--core=0", "git"]
        for setting in _SETTINGS:
            argv += ["-c", setting]
        return [*argv, *arguments]

    def _environment(self) -> dict[str, str]:
        inherited = {
            name: value for name, value in os.environ.items() if _PASSED_ON.fullmatch(name)
        }
        return {
            **inherited,
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

    def _words(self, stderr: str, status: int) -> str:
        if status == -signal.SIGXFSZ or "File too large" in stderr or "signal 25" in stderr:
            return f"The files exceed the limit for handouts: {self.megabytes} MB."
        if "invalid index-pack output" in stderr:  # the only trace of a helper that was killed
            return (
                f"The files exceed the limit for handouts ({self.megabytes} MB), or cannot be read."
            )
        if re.search(r"requested URL returned error: 30\d", stderr):
            return (
                "The server redirects to another address, which is not followed. Enter the final "
                "address (GitLab's end in '.git')."
            )
        lines = [line.strip() for line in stderr.splitlines() if line.strip()]
        fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
        words = (fatal or lines or [f"it ended with status {status}"])[0][:300]
        # The URL of a redirect can contain secrets.
        return f"git says: {_ADDRESS.sub('…', words)}"


def private_folder(path: Path) -> None:
    """Create a folder of the service's own, and the course's that contains it. Raises OSError."""
    path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in (path.parent, path):
        folder.mkdir(mode=0o700, exist_ok=True)


def _kill(process: asyncio.subprocess.Process) -> None:
    # Its helpers, too: they are in the same process group.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _read(
    process: asyncio.subprocess.Process, stream: asyncio.StreamReader, most: int
) -> bytes | None:
    """Read to the end; beyond ``most`` bytes, kill the process and return None."""
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
    with contextlib.suppress(ConnectionError):  # its exit status tells
        process.stdin.write(given)
        await process.stdin.drain()
    process.stdin.close()
