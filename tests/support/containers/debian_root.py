"""Root file systems of other Debian suites, to run their Slurm; made once and cached.

They come from the mirror that this machine's apt is configured for (debootstrap(8)) and are entered
with pivot_root(2), since Apptainer fails below a plain chroot(2). Needs root.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import runs

from portal.demo.environments.debian import distribution_mirror
from portal.demo.environments.making import locked, make_readable_directory, new_directory
from portal.demo.environments.python_packages import digest

SOURCE = Path(__file__).resolve().parents[3]
INSIDE = "/srv/portal"  # path of the source in a root
OUTCOMES = "/srv/outcomes"  # and of a folder for files that outlive its processes
_PACKAGES = SOURCE / "deploy/packages-run.txt"
# npm has hundreds of packages; the results are taken from the machine's own cache.
_LEFT_OUT = frozenset({"npm"})
_MORE = ("python3", "ca-certificates")
_VENV = "/opt/portal"
_LINKED = ("node", "labextension", "apptainer")  # folders of the cache, if present
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_LONG = 1800  # seconds

# $1: the root; then triples of "rw"/"ro", a path of this machine and one in the root; "--"; the
# command. All mounts vanish with the last process of the namespace.
_ENTER = """
set -e
root=$1; shift
mount --make-rprivate /
mount --rbind "$root" "$root"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
while [ "$1" != -- ]; do
  # Made here: an earlier mount, as that of /var/tmp, may hide what lies below it in the root.
  if [ -d "$2" ]; then mkdir -p "$root$3"; else mkdir -p "$root${3%/*}"; : >>"$root$3"; fi
  mount --bind "$2" "$root$3"
  if [ "$1" = ro ]; then mount -o remount,bind,ro "$root$3"; fi
  shift 3
done
shift
hostname localhost
cd "$root"
mkdir -p .before
pivot_root . .before
umount -l /.before
cd "$PORTAL_INSIDE"
exec "$@"
"""


class NoRoot(Exception):
    """Root that cannot be had from this machine's mirrors; the message says why."""


class RootBroken(Exception):
    """Root that was made and does not work: a fault of ours, and no reason to skip anything."""


def make(suite: str, cache: Path) -> Path:
    """Return the root of ``suite``, with Slurm and the demo's dependencies, below ``cache``.

    Raises NoRoot if this machine cannot make it or the mirror does not have this suite.
    """
    names = [line.split()[0] for line in _PACKAGES.read_text().splitlines() if line.strip()]
    packages = [name for name in names if name[0] != "#" and name not in _LEFT_OUT] + [*_MORE]
    root = cache / "slurm-roots" / f"{suite}-{digest(*packages)}"
    if root.exists():
        return root
    if os.geteuid():
        raise NoRoot("only root can make another system's root")
    if not shutil.which("debootstrap"):
        raise NoRoot("debootstrap is not installed")
    mirror = distribution_mirror()
    if not mirror:
        raise NoRoot("apt here knows no Debian mirror")
    make_readable_directory(root.parent)
    with locked(root.parent, suite, print):
        if not root.exists():
            with new_directory(root) as new:
                fill(new, suite, mirror, packages)
    return root


def fill(new: Path, suite: str, mirror: str, packages: Sequence[str]) -> None:
    """Fill the folder ``new`` with ``suite`` and ``packages``. Raises NoRoot."""
    log = new.parent / f"{suite}.log"
    with log.open("w") as output:

        def run(*argv: str | Path, text: str = "") -> None:
            done = subprocess.run(
                ["nice", *argv], stdout=output, stderr=output, text=True, input=text, timeout=_LONG,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LANG": "C.UTF-8"},
            )  # fmt: skip
            if done.returncode:
                lines = [line for line in log.read_text(errors="replace").splitlines() if line]
                raise NoRoot(f"{argv[0]} of '{suite}' failed: {(lines or [''])[-1]} ({log})")

        run("debootstrap", "--variant=minbase", suite, new, mirror)
        settings = subprocess.run(["apt-config", "dump"], capture_output=True, text=True).stdout
        fetching = re.findall(r"(?m)^Acquire::(?:Check-|https?::|Retries).*$", settings)
        (new / "etc/apt/apt.conf.d/99machine").write_text("\n".join(fetching) + "\n")
        service = new / "usr/sbin/policy-rc.d"  # packages start no service
        service.write_text("#!/bin/sh\nexit 101\n")
        service.chmod(0o755)
        shutil.copyfile("/etc/resolv.conf", new / "etc/resolv.conf")
        # The slapd package makes a database of its own unless told not to.
        run(
            "chroot",
            new,
            "debconf-set-selections",
            text="slapd slapd/no_configuration boolean true",
        )
        install = ["apt-get", "install", "-q", "-y", "--no-install-recommends"]
        run("chroot", new, "apt-get", "update")
        run("chroot", new, *install, *packages)
        run("chroot", new, "apt-get", "clean")
    (new / INSIDE[1:]).mkdir(parents=True)


def slurm_version(root: Path) -> str:
    """Return the version of the Slurm in ``root``: "24.11.5"."""
    output = subprocess.run(
        ["chroot", root, "slurmctld", "-V"], capture_output=True, text=True, check=True
    ).stdout
    return output.split()[-1]


def python(root: Path, cache: Path) -> str:
    """Return the portal's Python in ``root``: a virtual environment of the suite's Python with the
    tests' dependencies. Raises NoRoot if pip cannot get them, RootBroken for all else."""
    needs = digest(
        *((SOURCE / name).read_text() for name in ("pyproject.toml", "deploy/constraints.txt"))
    )
    made = root / _VENV[1:] / ".portal-needs"
    if made.exists() and made.read_text() == needs:
        return f"{_VENV}/bin/python"
    shutil.rmtree(root / _VENV[1:], ignore_errors=True)
    pip = f"nice {_VENV}/bin/pip install -q --no-input -c deploy/constraints.txt"
    # As deploy/install.sh does.
    first = f"python3 -m venv {_VENV}; {pip} hatchling uv bagit"
    script = f"set -e; {first}; {pip} --no-build-isolation '.[test]'"
    log = root.parent / f"{root.name}-pip.log"
    with log.open("w") as output:
        status = enter(root, cache, ["sh", "-c", script], output=output)
    if status:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line]
        words = f"could not install the portal there: {(lines or [''])[-1]} ({log})"
        if any(line.lower().startswith("error:") for line in lines):  # pip's own
            raise NoRoot(f"pip {words}")
        raise RootBroken(words)
    made.write_text(needs)
    return f"{_VENV}/bin/python"


def enter(
    root: Path,
    cache: Path,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    output: object = None,
    outcomes: Path | None = None,
) -> int:
    """Run ``argv`` in ``root``, in the read-only source folder; return its exit status.

    It has this machine's network and pip settings, a temporary /tmp and /var/tmp, a cache of its
    own for this root at the path of ``cache``, the folder ``outcomes`` at OUTCOMES, and a process
    namespace that ends with it.
    """
    own = root.parent / f"{root.name}-cache"
    own.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="work-", dir=root.parent) as work:
        mounts: list[str | Path] = ["ro", SOURCE, INSIDE]
        for name in ("tmp", "var/tmp"):
            place = Path(work) / name
            place.mkdir(parents=True)
            place.chmod(0o1777)
            mounts += ["rw", place, f"/{name}"]
        for path in ["/etc/resolv.conf", _CERTIFICATES, *_of_pip()]:
            if Path(path).exists():
                mounts += ["ro", path, path]
        mounts += ["rw", own, cache]
        for name in _LINKED:
            if (cache / name).is_dir():
                mounts += ["rw", cache / name, cache / name]
        if outcomes:
            mounts += ["rw", outcomes, OUTCOMES]
        spaces = ["unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child"]
        inner = subprocess.Popen(
            [*spaces, "sh", "-c", _ENTER, "sh", root, *mounts, "--", *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,  # type: ignore[call-overload]
            stderr=subprocess.STDOUT if output else None,
            env=_environment(cache, env or {}),
            preexec_fn=runs.ends_with_parent,
        )
        try:
            return inner.wait()
        finally:
            inner.kill()  # and with it all processes in the namespace
            inner.wait()


def _environment(cache: Path, more: Mapping[str, str]) -> dict[str, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("PIP_", "UV_"))
        or name in ("PORTAL_REQUIRE_ALL", "PORTAL_TEST_MACHINE")
        or name.lower() in ("http_proxy", "https_proxy", "no_proxy")
    }
    return {
        **inherited,
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "PORTAL_CACHE": str(cache),
        "PORTAL_INSIDE": INSIDE,
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }


def _of_pip() -> list[str]:
    """Return the files and folders of this machine that configure pip and uv."""
    settings = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True
    ).stdout
    named = re.findall(r"(?:file://)?(/[^\s'\"]+)", re.sub(r"https?://\S+", "", settings))
    paths = {Path(path) for path in (*named, "/etc/pip.conf") if Path(path).exists()}
    paths -= {Path(_CERTIFICATES)}
    return sorted(str(path) for path in paths if not any(other in path.parents for other in paths))
