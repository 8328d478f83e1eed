"""Build of an image: fetched by its digest, probed, given the session's server, verified, and only
then given its name. A build that fails or is ended leaves nothing but Apptainer's cache of
downloads, from which the next try goes on."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from portal.models.catalog.image import SourceKind, parse_source
from portal.models.catalog.image_job import BuildResult, Event, ImageJob
from portal.models.words import shortened

from .. import log_protocol
from ..apptainer import signing
from ..apptainer.apptainer import Apptainer, ApptainerFailed, NoEnclosure, partition, unpack
from ..apptainer.definition_file import read_definition
from ..apptainer.enclosure import Enclosure
from ..outcome import CouldNotRun, WorkFailed
from ..registry.pull_files import PullFiles, environment_of
from ..registry.words import Fault, fault_of
from . import container_paths, definition
from .build_dir import check_space, full, is_full, own_temporary, workplace
from .layers import Added, put_together
from .probe import PYTHON, FoundPython, ImageContents, probe, read_python

_CACHE = ".cache"  # in the folder of images
_ADDED = 1_500_000_000  # bytes: the portal's own part, unpacked and packed
_TIMES = 6  # unpacked twice at some 2.5 times what was pulled, and packed once
_SERVER = "import jupyterhub, jupyterlab, jupyter_server, ipykernel, portal_session"
# argv: the server's Python ("-": none), what it must be able to import, the kernel's Python
# ("-": none), the script that looks at it.
_CHECK = """\
if [ "$1" != - ]; then "$1" -I -c "$2" || exit 9; fi
if [ "$3" != - ]; then exec "$3" -c "$4"; fi
"""
_NO_ROOM = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)


def build(job: ImageJob, report: Callable[[Event], None]) -> BuildResult:
    """Make ``job.target`` from ``job.source``, as this process's account.

    Raises WorkFailed (about the image), CouldNotRun (about the node), both with a sentence.
    """
    return _Build(job, report).run()


def finished(target: Path) -> BuildResult | None:
    """Return the result of an earlier build; None if the image or its description is missing."""
    try:
        result = BuildResult.model_validate_json(_description(target).read_text())
        size = target.stat().st_size
    except (OSError, ValidationError):
        return None
    return result if size == result.size and str(target) == result.image else None


class _Build:
    """Build of one image, step by step."""

    def __init__(self, job: ImageJob, report: Callable[[Event], None]) -> None:
        self.job = job
        self.target = Path(job.target)
        self.directory = Path(job.directory)
        self.scratch = Path(job.scratch or job.directory)
        self.cache = self.directory / _CACHE
        # Apart from uv's, whose files go into every image: this one is open to what unpacks one.
        self.downloads = self.cache / "apptainer"
        self._report = report
        try:
            self.source = parse_source(job.source)
        except ValueError as error:
            raise WorkFailed(f"{error}.") from None
        self.size = job.size
        if self.source.kind is SourceKind.SIF:
            with suppress(OSError):
                self.size = Path(self.source.path).stat().st_size
        self.needed = _TIMES * self.size + _ADDED

    def run(self) -> BuildResult:
        self._say("prepare", "Checking for an existing image")
        done = finished(self.target)
        if done and (done.signed or not self.job.verify):
            self._say("done", "This image already exists.")
            return done
        if self.target.parent != self.directory or self.target.name.startswith("."):
            raise CouldNotRun(f"'{self.target}' is not in the folder of images.")
        try:
            self.downloads.mkdir(parents=True, exist_ok=True)
            # The image is written where it will be, so that its name comes to it at once.
            with workplace(self.directory) as place, workplace(self.scratch) as work:
                check_space(self.scratch, self.needed)
                return self._made(work, place)
        except OSError as error:
            if is_full(error):
                raise CouldNotRun(full(self.scratch, self.needed)) from None
            raise CouldNotRun(
                f"The build could not write its files: {error.filename}: {error.strerror}."
            ) from None
        except WorkFailed as error:
            output = error.message + (
                error.full_output if isinstance(error, ApptainerFailed) else ""
            )
            if _NO_ROOM.search(output):
                raise CouldNotRun(full(self.scratch, self.needed)) from None
            raise

    def _made(self, work: Path, place: Path) -> BuildResult:
        job = self.job
        home = work / "home"
        home.mkdir(mode=0o700)
        self.variables = environment_of(PullFiles(job.auth_file, job.registries_conf), home)
        apptainer = Apptainer(
            job.apptainer,
            cache=str(self.downloads),
            temporary=str(work),
            home=str(home),
            keyring=signing.keyring(job.keyring),
            log=log_protocol.say,
        )
        log_protocol.say(f"Apptainer {apptainer.version()} on {platform.node()}")
        wheel = definition.session_wheel(job.wheels)
        recipe = definition.recipe_key(job.wheels)
        if self.target.name != definition.image_path("", job.digest, recipe).name:
            raise CouldNotRun(
                "The files that are added to images have changed since this build was "
                "requested. Start it again."
            )
        root = work / "root"
        self._fetch(apptainer, root, work)
        container_paths.check_architecture(container_paths.architecture(root), platform.machine())
        container_paths.make_room(root, definition.PREFIX)

        self._say("probe", "Inspecting the image")
        contents = probe(apptainer, root)
        for python in contents.pythons:
            log_protocol.say(f"Python {'.'.join(map(str, python.version))}: {python.executable}")

        self._say("install", "Assembling the session's server")
        folder = work / "added"
        added = put_together(contents, folder, wheel=wheel, cache=self.cache, log=log_protocol.say)
        self._compile(apptainer, root, folder, contents, added)

        self._say("write", "Writing the image file")
        new = place / "new.sif"
        recipe_file = work / "portal.def"
        recipe_file.write_text(definition.DEFINITION)

        def write(enclosure: Enclosure | None) -> None:
            base = enclosure.seen(root) if enclosure else str(root)
            values = {"base": base, "digest": job.digest, "recipe": recipe}
            args = [word for k, v in values.items() for word in ("--build-arg", f"{k}={v}")]
            apptainer.build(
                new,
                enclosure.seen(recipe_file) if enclosure else str(recipe_file),
                what="write the image",
                options=[*args, "--mksquashfs-args", definition.SQUASHFS],
                environ={"PORTAL_ADDED": str(folder)},
                enclosure=enclosure,
            )

        self._enclosed(write, self._enclosure(work, place))
        self._say("verify", "Verifying the finished image")
        self._verify(apptainer, new, contents, added)
        if job.sign_key:
            self._say("sign", "Signing the image")
            signing.sign(apptainer, new, job.sign_key)
        elif job.verify:
            raise CouldNotRun(
                "This site requires signed images (c.Images.verify), but no signing key is "
                "set (c.Images.sign_key)."
            )
        return self._named(new, contents, added)

    def _fetch(self, apptainer: Apptainer, root: Path, work: Path) -> None:
        self._say("pull", f"Fetching {self.source}")
        match self.source.kind:
            case SourceKind.OCI:
                self._pull(apptainer, root, work)
            case SourceKind.SIF:
                self._open(apptainer, root)
            case SourceKind.DEFINITION:
                self._follow(apptainer, root, work)
        # Files that even their owner may not read could not be packed again.
        for folder, names, files in os.walk(root):
            for name in (*names, *files):
                path = Path(folder) / name
                if not path.is_symlink() and path.lstat().st_mode & 0o400 == 0:
                    path.chmod(path.lstat().st_mode | (0o700 if path.is_dir() else 0o600))

    def _pull(self, apptainer: Apptainer, root: Path, work: Path) -> None:
        pinned = self.source.pinned(self.job.digest)

        def pull(enclosure: Enclosure | None) -> None:
            apptainer.build(
                root,
                str(pinned),
                what="pull the image",
                options=["--fix-perms", *self._login(enclosure)],
                environ=self.variables,
                sandbox=True,
                enclosure=enclosure,
            )

        with self._growth(self.downloads / "cache/blob"):
            try:
                self._enclosed(pull, self._enclosure(work))
            except ApptainerFailed as error:
                fault, message = fault_of(error.full_output)
                if fault in (Fault.AWAY, Fault.BUSY):
                    raise CouldNotRun(f"The registry does not answer: {message}.") from None
                raise

    def _open(self, apptainer: Apptainer, root: Path) -> None:
        path = Path(os.path.realpath(self.source.path))
        if not path.is_file():
            raise WorkFailed(f"'{self.source.path}' is not a file on {platform.node()}.")
        if self.job.verify:
            signing.verify(apptainer, path)
        container_paths.check_architecture(partition(apptainer, path)[1], platform.machine())
        self._same(definition.path_digest(self.source))
        unpack(apptainer, path, root)

    def _follow(self, apptainer: Apptainer, root: Path, work: Path) -> None:
        """Build what the definition file says, from the text that was checked."""
        path = Path(self.source.path)
        text = read_definition(path)
        self._same(definition.path_digest(self.source))
        read = work / "source.def"
        read.write_text(text)
        # Accounts with and without entries in /etc/subuid shall get the same.
        options = [] if os.geteuid() == 0 else ["--ignore-subuid"]
        # Names in %files are relative to the file's folder.
        enclosure = self._enclosure(work, path.parent)._replace(directory=str(path.parent))
        options += self._login(enclosure)
        apptainer.build(
            root,
            enclosure.seen(read),
            what="build from the definition file",
            options=options,
            environ={**self.variables, "APPTAINER_PID": "1"},  # processes of its own, too
            sandbox=True,
            enclosure=enclosure,
        )

    def _enclosure(self, work: Path, *more: Path) -> Enclosure:
        """Return the enclosure of Apptainer: it writes to the build's own folders and nowhere
        else, and commands in the image see no temporary files of other jobs."""
        folders = [work, self.downloads, *more]
        if handed_over := self.job.auth_file or self.job.registries_conf:
            folders.append(Path(handed_over).parent)
        return Enclosure(own_temporary(work), [os.path.realpath(folder) for folder in folders])

    def _enclosed(self, run: Callable[[Enclosure | None], None], enclosure: Enclosure) -> None:
        """Call ``run`` with the enclosure, or with None if the node has none. Only for steps in
        which no command of an image has rights."""
        try:
            run(enclosure)
        except NoEnclosure as error:
            log_protocol.say(error.message)
            run(None)

    def _login(self, enclosure: Enclosure | None) -> list[str]:
        file = self.job.auth_file
        return ["--authfile", enclosure.seen(file) if enclosure else file] if file else []

    def _same(self, digest: str) -> None:
        if self.job.digest and digest != self.job.digest:
            raise WorkFailed(
                f"'{self.source.path}' has changed since this build was requested. Start it again."
            )

    def _compile(
        self, apptainer: Apptainer, root: Path, folder: Path, contents: ImageContents, added: Added
    ) -> None:
        """Compile bytecode with the image's own Pythons and compress JupyterLab's files: no session
        could keep either."""
        binds = {str(folder): definition.PREFIX}
        # First, since compiling takes longest: a server that cannot run is reported at once.
        if added.python:
            result = apptainer.execute(root, [added.python, "-I", "-c", _SERVER], binds=binds)
            if result.returncode:
                raise WorkFailed(
                    f"The session's server does not run in this image: {_last(result.text)}"
                )
        workers = str(len(os.sched_getaffinity(0)))
        # Nobody imports the packages' own tests, which are a fifth of the files.
        args = ["-m", "compileall", "-q", "-j", workers, "-x", "/tests?/"]
        folders = {added.python: f"{definition.PREFIX}/lib"}
        if contents.python3 and added.packages:
            folders[contents.python3.executable] = f"{definition.PREFIX}/kernel-packages"
        for python, place in folders.items():
            if python:
                apptainer.execute(root, [python, *args, place], binds=binds, limit=1800)

    def _verify(
        self, apptainer: Apptainer, image: Path, contents: ImageContents, added: Added
    ) -> None:
        own = contents.python3
        args = [added.python or "-", _SERVER, own.executable if own else "-", PYTHON]
        result = apptainer.execute(image, ["/bin/sh", "-c", _CHECK, "sh", *args], limit=600)
        if result.returncode:
            raise WorkFailed(f"The finished image does not work: {_last(result.text)}")
        if own:
            _unchanged(own, read_python(result.text))

    def _named(self, new: Path, contents: ImageContents, added: Added) -> BuildResult:
        with new.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        new.chmod(0o644)
        result = BuildResult(
            image=str(self.target),
            digest=self.job.digest,
            size=new.stat().st_size,
            sha256=sha256,
            server=added.server,
            python=added.python,
            kernels=added.kernels,
            facts=contents.facts(added.packages),
            signed=bool(self.job.sign_key),
        )
        described = new.with_name("new.json")
        described.write_text(json.dumps(result.model_dump(mode="json"), indent=1) + "\n")
        described.chmod(0o644)
        described.rename(_description(self.target))
        new.rename(self.target)
        return result

    def _say(self, step: str, message: str, share: float | None = None) -> None:
        self._report(Event(at=time.time(), step=step, message=message, share=share))

    @contextmanager
    def _growth(self, folder: Path) -> Iterator[None]:
        """Report the share of the image that is fetched, if its size is known: when it has grown
        by at least a hundredth, once a second at most."""
        over = threading.Event()

        def watch() -> None:
            last = 0.0
            before = _bytes_below(folder)
            while self.size and not over.wait(1):
                share = min(1.0, (_bytes_below(folder) - before) / self.size)
                if share - last >= 0.01:
                    last = share
                    self._say("pull", f"Fetching {self.source}", round(share, 2))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join(5)


def _unchanged(before: FoundPython, after: FoundPython | None) -> None:
    """Raise WorkFailed if the packages of the image's own Python differ from before."""
    if after is None:
        raise WorkFailed("The image's own Python no longer runs in the finished image.")
    was, is_now = (set(python.freeze or python.packages) for python in (before, after))
    if was != is_now:
        differing = ", ".join(sorted(was ^ is_now)[:8])
        raise WorkFailed(f"The build would change the packages of the image's Python: {differing}.")


def _description(target: Path) -> Path:
    return target.with_suffix(".json")


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return shortened(lines[-1], 600) if lines else "no reason given."


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_size
    return total
