"""Apptainer, through spython: the one module that knows spython (0.3.14) and its faults.

- It runs ``singularity`` from PATH, whatever the program is called here: the program gets that
  name in a folder of its own, which stands first on PATH.
- ``pull`` and ``build`` return a path or None, whether they failed or not, ``build`` through sudo:
  both are streamed here, and the exit status is checked, then the result.
- Its streams hang on a pipe that nobody reads when Apptainer writes much to the other channel:
  both channels are read as one.
- ``execute`` returns a text, a list or a dictionary: it is always asked for the dictionary.
- ``bind=`` ends the whole process when a source is missing: binds are checked here and passed as
  options. ``run`` fails when anything reaches stderr: it is not used.
- It drops empty arguments, never times out, and breaks on bytes that are not UTF-8: each is an
  error here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from spython.main import get_client
from spython.utils import get_singularity_version, stream_command

from ...models.words import shortened
from ..outcome import CouldNotRun, WorkFailed
from ..processes import children, end_descendants, kill_descendants
from .enclosure import REFUSED, Enclosure

_VERSION = re.compile(r"^(?:apptainer|singularity(?:-ce|-pro)?) version (\S+)", re.MULTILINE)
_NO_MOUNT = re.compile(r"mount failure|squashfuse|failed to open /dev/fuse")
_LAST_LINES = 40  # last lines of a failed command
# Apptainer's messages, with colours where it thinks it has a terminal.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_PASSED = ("APPTAINER_DROP_CAPS",)  # a limited root's containers need it
# Settings of this process that would change what Apptainer does.
_FOREIGN = ("APPTAINER", "SINGULARITY", "SPYTHON_", "PORTAL_", "XDG_")


class ApptainerFailed(WorkFailed):
    """Error with which Apptainer ended. ``full_output``: its last lines, unchanged."""

    def __init__(self, message: str, full_output: str = "") -> None:
        super().__init__(message)
        self.full_output = full_output


class NoEnclosure(CouldNotRun):
    """Lack of namespaces for accounts on this node."""


class CommandResult(NamedTuple):
    """Exit status of a command in a container, and its output on both channels."""

    returncode: int
    text: str


class Apptainer:
    """Apptainer, with a cache and a folder for temporary files; used by one thread at a time."""

    def __init__(
        self,
        program: str,
        *,
        cache: str = "",
        temporary: str = "",
        home: str = "",
        keyring: str = "",
        log: Callable[[str], None] = print,
    ) -> None:
        self.program = program
        self._log = log
        settings = {
            "APPTAINER_CACHEDIR": cache,
            "APPTAINER_TMPDIR": temporary,
            "APPTAINER_KEYSDIR": keyring,
            "HOME": home,
        }
        self._settings = {name: value for name, value in settings.items() if value}
        self._client = get_client(quiet=False)

    def version(self) -> str:
        """Return Apptainer's version ("1.4.5"). Raises CouldNotRun if the program is another."""
        with self._environment():
            try:
                output = get_singularity_version()
            except Exception as error:
                output = str(error)
        match = _VERSION.search(output if isinstance(output, str) else "")
        if not match:
            raise CouldNotRun(
                f"{self.program} is not Apptainer: --version prints no version. See "
                "c.Images.apptainer."
            )
        return match.group(1)

    def build(
        self,
        target: Path,
        source: str,
        *,
        what: str,
        options: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        sandbox: bool = False,
        enclosure: Enclosure | None = None,
    ) -> None:
        """Run ``apptainer build`` as this account. Raises ApptainerFailed, NoEnclosure, and leaves
        no partial file.

        ``enclosure``: where others' commands run, such as %post's; ``source`` and ``options`` have
        the names that are seen there.
        """
        kind = ["--sandbox"] if sandbox else []
        seen_target = enclosure.seen(target) if enclosure else str(target)
        args = ["--force", *kind, *options, seen_target, source]
        before = children()
        try:
            self._stream("build", args, what=what, environ=environ, enclosure=enclosure)
            if not (target.is_dir() if sandbox else target.is_file()):
                raise ApptainerFailed(
                    f"Cannot {what}: Apptainer created no file and gave no reason."
                )
        except BaseException:
            end_descendants(but=before)
            if not sandbox:
                target.unlink(missing_ok=True)
            raise

    def execute(
        self,
        image: str | Path,
        argv: Sequence[str],
        *,
        binds: Mapping[str, str] | None = None,
        limit: float = 120,
        options: Sequence[str] = (),
    ) -> CommandResult:
        """Run ``argv`` in a container that sees nothing of the node: no home, no processes, no
        variables. ``binds``: host path to container path, writable. ``limit`` in seconds.

        Raises ApptainerFailed if the container does not start (not if the command fails).
        """
        if not all(argv):
            raise ValueError("spython drops empty arguments")
        args = ["--containall", "--no-eval", "--no-home", "--pwd", "/", *options]
        for source, target in (binds or {}).items():
            if not Path(source).exists():
                raise WorkFailed(
                    f"'{source}' does not exist, so it cannot be bound into the container."
                )
            args += ["--bind", f"{source}:{target}"]
        result = self._execute(image, argv, args, limit)
        if result.returncode and _NO_MOUNT.search(result.text):
            # Users cannot mount image files on this node: unpack it for a moment.
            self._log("This node cannot mount image files. The image is unpacked for this command.")
            result = self._execute(image, argv, [*args, "--unsquash"], limit)
        if result.returncode == 255 and "FATAL" in result.text:
            raise ApptainerFailed(
                f"The container does not start: {reason(result.text)}", full_output=result.text
            )
        return result

    def sif(self, *args: str) -> list[str]:
        """Return the lines that ``apptainer sif …`` prints. Raises ApptainerFailed."""
        return self._stream("sif", args, what="read the image file", quiet=True)

    def sign(self, image: Path, index: int) -> None:
        """Sign ``image`` with the secret key at ``index`` in the keyring."""
        self._stream("sign", ["--keyidx", str(index), str(image)], what="sign the image")

    def verify(self, image: Path) -> None:
        """Raise ApptainerFailed unless all of the image carries a good signature of the keyring's
        keys; no key server is asked."""
        self._stream("verify", ["--all", "--local", str(image)], what="verify the image")

    def keys(self) -> list[str]:
        """Return the lines that ``apptainer key list --secret`` prints."""
        return self._stream("key", ["list", "--secret"], what="list the keys", quiet=True)

    def _execute(
        self, image: str | Path, argv: Sequence[str], options: list[str], limit: float
    ) -> CommandResult:
        no_text = WorkFailed(f"The output of '{argv[0]}' in the container is not text.")
        with self._environment(), _patience(limit) as over, self._faults(no_text):
            result = self._client.execute(
                str(image),
                list(argv),
                options=options,
                return_result=True,
                quiet=True,
                sudo=False,
            )
        if over.is_set():
            raise WorkFailed(f"'{argv[0]}' in the container did not end within {limit:g} s.")
        message = result["message"]
        text = message if isinstance(message, str) else "".join(message)
        return CommandResult(int(result["return_code"]), text)

    def _stream(
        self,
        command: str,
        args: Sequence[str],
        *,
        what: str,
        environ: Mapping[str, str] | None = None,
        quiet: bool = False,
        enclosure: Enclosure | None = None,
    ) -> list[str]:
        """Run a command; log its lines as they come or, if ``quiet``, return them instead."""
        argv = [*self._client._init_command(command), *args]
        if enclosure:
            argv = enclosure.command([self.program, *argv[1:]])
        if not all(argv):
            raise ValueError("spython drops empty arguments")
        last: deque[str] = deque(maxlen=_LAST_LINES)
        lines: list[str] = []
        no_text = ApptainerFailed(f"Cannot {what}: the output of Apptainer is not text.")
        with self._environment(environ, enclosure), self._faults(no_text):
            try:
                for line in stream_command(argv, sudo=False, output_type="both"):
                    line = _COLOURS.sub("", line.rstrip("\n"))
                    last.append(line)
                    if quiet:
                        lines.append(line)
                    else:
                        self._log(line)
            except subprocess.CalledProcessError:
                output = "\n".join(last)
                if refused := re.search(rf"^{REFUSED}: (.*)", output, re.MULTILINE):
                    raise NoEnclosure(_no_enclosure(refused.group(1))) from None
                raise ApptainerFailed(
                    f"Cannot {what}: {reason(output)}", full_output=output
                ) from None
        return lines

    @contextmanager
    def _faults(self, no_text: WorkFailed) -> Iterator[None]:
        """Raise ``no_text`` for output that cannot be decoded, CouldNotRun if nothing ran."""
        try:
            yield
        except UnicodeDecodeError:
            raise no_text from None
        except OSError as error:
            raise CouldNotRun(f"{self.program} cannot run: {error.strerror}.") from None

    @contextmanager
    def _environment(
        self, more: Mapping[str, str] | None = None, enclosure: Enclosure | None = None
    ) -> Iterator[None]:
        """Set this process's environment as Apptainer should see it, while one command starts."""
        before = dict(os.environ)
        with tempfile.TemporaryDirectory(prefix="portal-apptainer-") as names:
            (Path(names) / "singularity").symlink_to(Path(self.program).absolute())
            for name in before:
                if name.startswith(_FOREIGN) and name not in _PASSED:
                    del os.environ[name]
            values = {**self._settings, **(more or {})}
            os.environ.update(enclosure.variables(values) if enclosure else values)
            os.environ["PATH"] = f"{names}:{before.get('PATH') or os.defpath}:/usr/sbin:/sbin"
            try:
                yield
            finally:
                os.environ.clear()
                os.environ.update(before)


@contextmanager
def _patience(seconds: float) -> Iterator[threading.Event]:
    """Kill the processes started in the block when the time is over, and set the event."""
    over = threading.Event()
    before = children()

    def end() -> None:
        over.set()
        kill_descendants(but=before)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield over
    finally:
        timer.cancel()


def _no_enclosure(why: str) -> str:
    return (
        f"This node cannot isolate the commands of a definition file: {why}. It must allow "
        "user namespaces (user.max_user_namespaces, and on Ubuntu "
        "kernel.apparmor_restrict_unprivileged_userns=0)."
    )


def reason(output: str) -> str:
    """Return the sentence in Apptainer's last lines that says why it failed, without its label."""
    lines = [_COLOURS.sub("", line).strip() for line in output.splitlines()]
    fatal = [line for line in lines if re.match(r"(FATAL|ERROR)\s*:", line)]
    chosen = fatal[-1] if fatal else next((line for line in reversed(lines) if line), "")
    text = re.sub(r"^(FATAL|ERROR)\s*:\s*", "", chosen)
    return shortened(text, 600) or "no reason given."


def unpack(apptainer: Apptainer, image: Path, directory: Path) -> None:
    """Unpack the files of a SIF into a new directory, which this account owns.

    Uses squashfs's own program, since ``apptainer build --sandbox`` needs capabilities that a
    limited root lacks. Raises ApptainerFailed.
    """
    program = shutil.which("unsquashfs", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if not program:
        raise CouldNotRun("'unsquashfs' is missing on this node: install squashfs-tools.")
    start = partition(apptainer, image)[0]
    args = [program, "-no-progress", "-no-xattrs", "-offset", str(start)]
    done = subprocess.run(
        [*args, "-dest", str(directory), str(image)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode == 1 or not directory.is_dir():  # 2: only what takes root was left out
        raise ApptainerFailed(
            f"Cannot unpack the image: {reason(done.stderr)}", full_output=done.stderr
        )


def partition(apptainer: Apptainer, image: Path) -> tuple[int, str]:
    """Return the offset (bytes) of the file system in a SIF, and the architecture it is for."""
    try:
        lines = apptainer.sif("list", str(image))
    except ApptainerFailed:
        raise WorkFailed(f"{image} is not a SIF image.") from None
    for line in lines:
        match = re.search(r"\|\s*(\d+)-\d+\s*\|FS \(Squashfs/\*System/(\w+)\)", line)
        if match:
            return int(match.group(1)), match.group(2)
    raise WorkFailed(f"{image} contains no file system that can be started.")
