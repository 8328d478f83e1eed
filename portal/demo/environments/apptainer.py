"""Apptainer for the demo: the one on PATH, or a private copy under the cache directory.

Debian packages Apptainer in sid only, built against a newer libc than that of the stable releases.
The package is unpacked, not installed, together with the libraries that it needs, and its two
programs are pointed at those (patchelf). The mirror is the one configured for this machine's apt.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from portal.errors import ConfigurationError

from .debian import distribution_mirror, fetch_packages, os_release
from .making import Progress, locked, new_directory, run, timed

_PACKAGES = ("apptainer", "libc6", "libseccomp2", "libsqlite3-0")
_SUITE = "sid"
# A Debian game is called "singularity" too, so the output is checked.
_VERSION = re.compile(r"^(apptainer|singularity(-ce|-pro)?) version (\S+)", re.MULTILINE)
_CAP_SYS_RESOURCE = 24  # linux/capability.h
_INSTALL = (
    "Install Apptainer (the package 'apptainer' of your distribution or of the Apptainer project) "
    "so that it is on PATH, and start again."
)


def ensure_apptainer(cache: Path, progress: Progress) -> Path:
    """Return the absolute path of the ``apptainer`` (or ``singularity``) program to use.

    The one on PATH is preferred; else a private copy in ``cache``/apptainer, which is made if
    missing (about 5 s and 21 MB of packages) and adjusted if the directory was moved.
    ``progress`` gets a line for each long step. Raises ConfigurationError with a remedy.
    """
    for name in ("apptainer", "singularity"):
        path = shutil.which(name)
        if path and apptainer_version(Path(path)):
            return Path(path)
    prefix = cache.absolute() / "apptainer"
    program = prefix / "bin" / "apptainer"
    if program.exists() and apptainer_version(program):
        return program
    _need("patchelf", "apt-get", "dpkg-deb")
    with locked(cache, "apptainer", progress):
        if program.exists() and apptainer_version(program):  # made while waiting for the lock
            return program
        with new_directory(prefix) as new:
            if program.exists():
                progress("Apptainer: adjusting the private copy to its new path")
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
    """Return the version that ``program --version`` prints ("1.4.5"); "" if it is not Apptainer."""
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = _VERSION.search(done.stdout)
    return match.group(3) if match and done.returncode == 0 else ""


def apptainer_environment() -> dict[str, str]:
    """Return the environment variables that Apptainer needs here: none, except for a limited root.

    Apptainer gives root's containers all capabilities; without CAP_SYS_RESOURCE (in a container or
    a small virtual machine) it fails unless told to drop it.
    """
    if os.geteuid() != 0:
        return {}
    status = Path("/proc/self/status").read_text()
    match = re.search(r"^CapBnd:\s*([0-9a-f]+)$", status, re.MULTILINE)
    if match and not int(match.group(1), 16) >> _CAP_SYS_RESOURCE & 1:
        return {"APPTAINER_DROP_CAPS": "CAP_SYS_RESOURCE"}
    return {}


def users_can_mount() -> bool:
    """Return True if every user of this machine can run an image file (SIF) without unpacking it.

    This requires squashfuse and a /dev/fuse that everyone may open.
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


def _unpack(prefix: Path, progress: Progress) -> None:
    """Fetch sid's packages with a private apt and unpack them into ``prefix``."""
    if os_release().get("ID") != "debian" or not distribution_mirror():
        raise ConfigurationError(
            f"Apptainer is not installed, and apt has no Debian mirror here. {_INSTALL}"
        )
    with tempfile.TemporaryDirectory(prefix=".apptainer-apt-", dir=prefix.parent) as name:
        work = Path(name)
        with timed(progress, "Apptainer: fetching the package (21 MB)"):
            packages = fetch_packages(work / "apt", _SUITE, _PACKAGES, with_dependencies=False)
        for package in packages:
            run(["dpkg-deb", "-x", package, work / "root"], f"unpack {package.name}")
        # /usr becomes the prefix itself: the programs look for etc and var beside bin.
        root = work / "root"
        shutil.copytree(root / "usr", prefix, symlinks=True, dirs_exist_ok=True)
        for part in ("etc", "var"):
            shutil.copytree(root / part, prefix / part, symlinks=True)
            # The starter looks three levels above itself, which is lib.
            (prefix / "lib" / part).symlink_to(f"../{part}")
        for part in ("share/doc", "share/man", "share/lintian", "share/bash-completion"):
            shutil.rmtree(prefix / part, ignore_errors=True)
        # spython and others know only the old name.
        link = prefix / "bin" / "singularity"
        link.unlink(missing_ok=True)
        link.symlink_to("apptainer")


def _point_at_libraries(new: Path, prefix: Path) -> None:
    """Make the programs in ``new`` use the libc beside them once ``new`` is moved to ``prefix``.

    The kernel requires an absolute path of the loader, so this is repeated after a move of the
    directory. A wrapper around the loader would not work: the starter reads /proc/self/exe.
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
                # RPATH also applies to the dependencies of libsqlite3; RUNPATH does not.
                "--force-rpath",
                "--set-rpath",
                f"$ORIGIN/{libraries}",
                program,
            ],
            "adjust Apptainer to its own libc",
        )


def _need(*commands: str) -> None:
    missing = [name for name in commands if not shutil.which(name)]
    if missing:
        raise ConfigurationError(
            f"Apptainer is not installed, and a private copy needs {', '.join(missing)}. {_INSTALL}"
        )
