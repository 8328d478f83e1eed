"""Apptainer for the demo: the one on PATH, or a private copy under the cache directory.

Debian packages Apptainer in sid only, built against a newer libc than the stable releases have.
The package is unpacked, never installed, together with the libraries that it needs, and the two
programs are told where those are (patchelf). The mirror is the one that this machine's apt is
configured for.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ..errors import ConfigurationError

Progress = Callable[[str], None]

_PACKAGES = ("apptainer", "libc6", "libseccomp2", "libsqlite3-0")
_SUITE = "sid"
# The Debian game "singularity" has the same name, so the answer is read.
_VERSION = re.compile(r"^(apptainer|singularity(-ce|-pro)?) version (\S+)", re.MULTILINE)
_CAP_SYS_RESOURCE = 24  # linux/capability.h
_INSTALL = (
    "Install Apptainer (the package 'apptainer' of your distribution or of the Apptainer project) "
    "so that it is on PATH, and start again."
)


def ensure_apptainer(cache: Path, progress: Progress) -> Path:
    """The ``apptainer`` (or ``singularity``) program to use: an absolute path.

    The one on PATH wins; else a private copy in ``cache``/apptainer, made now (about 5 s and
    21 MB of packages) when it is not there, and adjusted when the directory was moved.
    ``progress`` gets a line for each long step. Raises ConfigurationError with the way out.
    """
    for name in ("apptainer", "singularity"):
        found = shutil.which(name)
        if found and apptainer_version(Path(found)):
            return Path(found)
    prefix = cache.absolute() / "apptainer"
    program = prefix / "bin" / "apptainer"
    if program.exists() and apptainer_version(program):
        return program
    _need("patchelf", "apt-get", "dpkg-deb")
    with locked(cache, "apptainer", progress):
        if program.exists() and apptainer_version(program):  # made while this one waited
            return program
        with _new_directory(prefix) as new:
            if program.exists():
                progress("Apptainer: adjusting the private copy to its new place")
                shutil.copytree(prefix, new, symlinks=True, dirs_exist_ok=True)
            else:
                _unpack(new, progress)
            _point_at_libraries(new, prefix)
    if not apptainer_version(program):
        raise ConfigurationError(
            f"The private copy of Apptainer in {prefix} does not run. {_INSTALL}"
        )
    return program


def apptainer_version(program: Path) -> str:
    """What ``program --version`` says ("1.4.5"), or an empty string when it is not Apptainer."""
    try:
        answer = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = _VERSION.search(answer.stdout)
    return match.group(3) if match and answer.returncode == 0 else ""


def apptainer_environment() -> dict[str, str]:
    """Variables that Apptainer needs on this machine: empty, except for a limited root.

    Apptainer gives root's containers every capability; where CAP_SYS_RESOURCE is not to be had
    (a container or a small virtual machine) it fails, unless told to leave it out.
    """
    if os.geteuid() != 0:
        return {}
    status = Path("/proc/self/status").read_text()
    match = re.search(r"^CapBnd:\s*([0-9a-f]+)$", status, re.MULTILINE)
    if match and not int(match.group(1), 16) >> _CAP_SYS_RESOURCE & 1:
        return {"APPTAINER_DROP_CAPS": "CAP_SYS_RESOURCE"}
    return {}


def users_can_mount() -> bool:
    """Whether every user of this machine can run an image file (SIF) without unpacking it.

    That takes a /dev/fuse that all may open, and squashfuse.
    """
    try:
        mode = Path("/dev/fuse").stat().st_mode
    except OSError:
        return False
    if not stat.S_ISCHR(mode):
        return False
    allowed = mode & 0o006 == 0o006
    if os.geteuid() != 0:
        allowed = os.access("/dev/fuse", os.R_OK | os.W_OK)
    return allowed and any(shutil.which(name) for name in ("squashfuse_ll", "squashfuse"))


def distribution_mirror() -> str:
    """The address of the archive of this machine's own release, such as ``http://…/debian/``.

    It is the one that apt is configured for, with package lists fetched or not; empty when
    there is none.
    """
    codename = os_release().get("VERSION_CODENAME", "")
    releases = {codename, "stable", "oldstable", "testing", "unstable", "sid"}
    shape = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)"
    listed = run(
        ["apt-get", "indextargets", "--format", shape, "Created-By: Packages"], "read apt's sources"
    )
    for line in listed.splitlines():
        uri, release, component, origin = [*line.split("|"), "", "", ""][:4]
        if release in releases and component == "main" and origin in ("Debian", "Ubuntu"):
            return uri
    # Before the first `apt-get update` apt lists nothing, but says what it would fetch. A
    # repository of somebody else may use the same names, though not that of the updates.
    sources = run(["apt-get", "--print-uris", "update"], "read apt's sources")
    found = re.findall(r"^'(\S+/)dists/([^/']+)/InRelease'", sources, re.MULTILINE)
    own = [uri for uri, release in found if release in releases]
    updated = {uri for uri, release in found if release == f"{codename}-updates"}
    return next((uri for uri in own if uri in updated), own[0] if own else "")


def run(
    argv: list[str | Path],
    what: str,
    *,
    env: Mapping[str, str] | None = None,
    timeout: float = 600,
    cwd: Path | None = None,
) -> str:
    """Runs a command to its end and returns its standard output.

    ``what`` ("unpack libc6") stands in the ConfigurationError that is raised when the command
    is missing, fails or takes longer than ``timeout`` seconds, beside its last lines.
    """
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env=None if env is None else dict(env),
            cwd=cwd,
            umask=0o022,  # what is made here is read by every user
            check=False,
        )
    except FileNotFoundError as error:
        raise ConfigurationError(f"Cannot {what}: '{argv[0]}' is not installed.") from error
    except OSError as error:
        raise ConfigurationError(f"Cannot {what}: {error}.") from error
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(f"Cannot {what}: no end after {timeout:.0f} seconds.") from error
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise ConfigurationError(f"Cannot {what}: " + (" / ".join(lines[-4:]) or "it failed."))
    return done.stdout


@contextmanager
def locked(cache: Path, name: str, progress: Progress) -> Iterator[None]:
    """Holds ``cache``/.NAME.lock, so that two starts do not make the same thing twice."""
    try:
        make_readable_directory(cache)
        with (cache / f".{name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                progress(f"Waiting for another start that makes {name} now")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except PermissionError as error:
        raise ConfigurationError(
            f"Cannot write {cache}: {error.strerror}. Set PORTAL_CACHE to a directory of yours."
        ) from error


def make_readable_directory(path: Path) -> None:
    """Makes ``path`` and its missing parents so that every user can read them (mode 755)."""
    for part in (*reversed(path.parents), path):
        if not part.exists():
            part.mkdir(exist_ok=True)
            part.chmod(0o755)  # whatever the umask


@contextmanager
def _new_directory(target: Path) -> Iterator[Path]:
    """A directory that takes ``target``'s place when the block ends well, and is removed else."""
    new = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    new.chmod(0o755)
    try:
        yield new
        if target.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
            target.rename(old / "was")
            new.rename(target)
            shutil.rmtree(old, ignore_errors=True)
        else:
            new.rename(target)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _unpack(prefix: Path, progress: Progress) -> None:
    """Fetches sid's packages with a private apt and unpacks them into ``prefix``."""
    mirror = distribution_mirror() if os_release().get("ID") == "debian" else ""
    if not mirror:
        raise ConfigurationError(
            f"Apptainer is not installed, and apt here knows no Debian mirror. {_INSTALL}"
        )
    progress("Apptainer: fetching the package (21 MB)")
    with tempfile.TemporaryDirectory(prefix="portal-apt-", dir=prefix.parent) as work_name:
        work = Path(work_name)
        for part in ("state/lists/partial", "cache/archives/partial", "debs", "none"):
            (work / part).mkdir(parents=True)
        (work / "state/status").touch()
        keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
        signed = f"[signed-by={keyring}] " if keyring.exists() else ""
        (work / "sources.list").write_text(f"deb {signed}{mirror} {_SUITE} main\n")
        options = [
            f"Dir::State={work}/state",
            f"Dir::State::status={work}/state/status",
            f"Dir::Cache={work}/cache",
            f"Dir::Log={work}/none",
            f"Dir::Etc::sourcelist={work}/sources.list",
            f"Dir::Etc::sourceparts={work}/none",
            f"Dir::Etc::preferences={work}/none/preferences",
            f"Dir::Etc::preferencesparts={work}/none",
            # The directory is private, so the user that apt fetches as could not write to it.
            "APT::Sandbox::User=root",
            "Acquire::Languages=none",
            "Acquire::Retries=2",
            # Hooks of the host are about the host's own package lists.
            "APT::Update::Post-Invoke-Success=",
        ]
        apt: list[str | Path] = ["apt-get", "-q", *(o for x in options for o in ("-o", x))]
        run([*apt, "update"], f"read the package lists of Debian {_SUITE} from {mirror}")
        run(
            [*apt, "download", *_PACKAGES],
            f"fetch Apptainer from {mirror}",
            cwd=work / "debs",
        )
        progress("Apptainer: unpacking")
        for package in sorted((work / "debs").glob("*.deb")):
            run(["dpkg-deb", "-x", package, work / "root"], f"unpack {package.name}")
        # /usr becomes the prefix itself: the programs look for etc and var beside bin.
        root = work / "root"
        shutil.copytree(root / "usr", prefix, symlinks=True, dirs_exist_ok=True)
        for part in ("etc", "var"):
            shutil.copytree(root / part, prefix / part, symlinks=True)
            # The starter looks three levels up from where it is, which is lib.
            (prefix / "lib" / part).symlink_to(f"../{part}")
        for part in ("share/doc", "share/man", "share/lintian", "share/bash-completion"):
            shutil.rmtree(prefix / part, ignore_errors=True)
        # spython and others know the old name only.
        link = prefix / "bin" / "singularity"
        link.unlink(missing_ok=True)
        link.symlink_to("apptainer")


def _point_at_libraries(new: Path, prefix: Path) -> None:
    """Makes the programs in ``new`` use the libc beside them once ``new`` is at ``prefix``.

    The kernel wants an absolute path for the loader, so moving the directory means doing this
    again. A wrapper around the loader would not do: the starter reads /proc/self/exe.
    """
    programs = [new / "bin/apptainer", *new.glob("lib/*/apptainer/bin/starter")]
    if len(programs) < 2:
        raise ConfigurationError(f"The Apptainer package has an unknown layout. {_INSTALL}")
    for program in programs:
        loader_name = Path(
            run(["patchelf", "--print-interpreter", program], "read Apptainer's program").strip()
        ).name
        loader = next(new.glob(f"lib/*/{loader_name}"), None)
        if loader is None:
            raise ConfigurationError(f"The libc package has an unknown layout. {_INSTALL}")
        libraries = os.path.relpath(loader.parent, program.parent)
        run(
            [
                "patchelf",
                "--set-interpreter",
                prefix / loader.relative_to(new),
                # RUNPATH would not reach what libsqlite3 itself needs; RPATH does.
                "--force-rpath",
                "--set-rpath",
                f"$ORIGIN/{libraries}",
                program,
            ],
            "adjust Apptainer to the libc beside it",
        )


def _need(*commands: str) -> None:
    missing = [name for name in commands if not shutil.which(name)]
    if missing:
        raise ConfigurationError(
            f"Apptainer is not installed, and a private copy needs {', '.join(missing)}. {_INSTALL}"
        )


def os_release() -> dict[str, str]:
    """/etc/os-release as a dict: ``ID``, ``VERSION_CODENAME``, … (os-release(5))."""
    lines = Path("/etc/os-release").read_text().splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line)
    return {key: value.strip("\"'") for key, value in pairs}
