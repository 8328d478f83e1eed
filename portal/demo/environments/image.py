"""The demo's container image: JupyterLab on a small base from the machine's package mirror.

No container registry is used. The base is unpacked, not installed, which takes seconds and needs
no privileges: any user can build the image.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from portal.errors import ConfigurationError
from portal.paths import data_path
from portal.session_packages import constraints, requirements, uv_environment, uv_program

from .apptainer import apptainer_environment
from .debian import distribution_mirror, fetch_packages, os_release
from .making import Progress, new_directory, run, timed
from .python_packages import SYSTEM_PYTHON, digest, remove_tree

DEFINITION = "demo/images/jupyterlab.def"

# Packages for a shell and Python; their dependencies are added.
_BASE = [
    "base-files",
    "base-passwd",
    "bash",
    "coreutils",
    "dash",
    "debianutils",
    "diffutils",
    "findutils",
    "gawk",
    "git",
    "grep",
    "gzip",
    "hostname",
    "less",
    "libc-bin",
    "libgomp1",
    "libstdc++6",
    "login",
    "ncurses-base",
    "ncurses-bin",
    "passwd",
    "procps",
    "sed",
    "tar",
    "util-linux",
    "ca-certificates",
    "python3",
    "python3-venv",
]
_DEBIAN_ONLY = ["usr-is-merged"]  # else its alternative, which merges at installation, is fetched

# Fast to write and to read; gzip, the default, takes four times as long.
SQUASHFS = "-comp zstd -Xcompression-level 3"


def build_image(
    target: Path, wheel: Path, cache: Path, apptainer: Path, progress: Progress, *, sandbox: bool
) -> None:
    """Build the image ``target``: a SIF file, or a directory if ``sandbox``.

    ``wheel`` is portal-session's. Every user can read the result. Raises ConfigurationError with
    the last lines of the output if a command fails.
    """
    images = target.parent
    base = _base(images, progress)
    with (
        tempfile.TemporaryDirectory(prefix=".build-", dir=images) as work_name,
        timed(progress, "Environment 'jupyterlab': building its container image"),
    ):
        work = Path(work_name)
        (work / "requirements.txt").write_text("\n".join([*requirements(), str(wheel)]) + "\n")
        (work / "constraints.txt").write_text(path.read_text() if (path := constraints()) else "")
        environment = {
            **uv_environment(cache),
            **apptainer_environment(),
            "APPTAINER_TMPDIR": str(work),
            "APPTAINER_CACHEDIR": str(work / "cache"),
            "APPTAINER_MESSAGELEVEL": "-1",
            "PORTAL_UV": str(uv_program()),
            "PORTAL_PYTHON": str(SYSTEM_PYTHON),
            "PORTAL_REQUIREMENTS": str(work / "requirements.txt"),
            "PORTAL_CONSTRAINTS": str(work / "constraints.txt"),
        }
        new = work / "new"
        kind: list[str | Path] = ["--sandbox"] if sandbox else ["--mksquashfs-args", SQUASHFS]
        definition = data_path("deploy") / DEFINITION
        run(
            [apptainer, "build", "--force", "--build-arg", f"base={base}", *kind, new, definition],
            "build the container image",
            env=environment,
            timeout=1200,
            cwd=work,
        )
        if sandbox:
            run(["chmod", "-R", "a+rX", new], "make the image readable")
        else:
            new.chmod(0o755)
        remove_tree(target) if target.is_dir() else target.unlink(missing_ok=True)
        new.rename(target)


def base_packages() -> list[str]:
    """Return the packages of the distribution that an image has at least: a shell and Python."""
    return _BASE + (_DEBIAN_ONLY if os_release().get("ID") == "debian" else [])


def image_key(session: str) -> str:
    """Return ten hexadecimal digits that change with the image's inputs.

    ``session`` is `python_packages.session_key()`.
    """
    definition = (data_path("deploy") / DEFINITION).read_text()
    return digest(session, definition, _base_name(), SQUASHFS)


def _base_name() -> str:
    release = os_release()
    suite = release.get("VERSION_CODENAME", "")
    return f"base-{suite}-{digest(release.get('ID', ''), *_BASE)}"


def _base(images: Path, progress: Progress) -> Path:
    """Return the unpacked base, a directory below ``images``; made if missing, kept for later."""
    release = os_release()
    suite = release.get("VERSION_CODENAME", "")
    base = images / _base_name()
    if base.exists():
        return base
    if release.get("ID") not in ("debian", "ubuntu") or not distribution_mirror():
        raise ConfigurationError(
            "The demo's container image is built from the mirror of Debian or Ubuntu that apt is "
            "configured for, and there is none here."
        )
    with (
        tempfile.TemporaryDirectory(prefix=".base-apt-", dir=images) as work,
        timed(progress, "Container image: unpacking a base from this machine's mirror"),
    ):
        packages = fetch_packages(
            Path(work) / "apt", suite, base_packages(), with_dependencies=True
        )
        with new_directory(base) as root:
            unpack_base(packages, root)
    return base


def unpack_base(packages: Sequence[Path], root: Path) -> None:
    """Unpack the Debian packages into a usable tree in the empty folder ``root``.

    Nothing is installed: no package scripts run, and no privileges are needed.
    """
    for part in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / part).mkdir(parents=True)
        (root / part).symlink_to(f"usr/{part}")
    for package in packages:
        unpack_package(package, root)
    _configure(root)


def unpack_package(package: Path, root: Path) -> None:
    """Unpack a Debian package into ``root``, whose /bin and /lib are links into /usr."""
    # dpkg-deb -x would replace the links with directories.
    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE, umask=0o022
    ) as tar:
        done = subprocess.run(
            ["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", root],
            stdin=tar.stdout,
            capture_output=True,
            text=True,
            umask=0o022,
            check=False,
        )
    if done.returncode or tar.returncode:
        raise ConfigurationError(f"Cannot unpack {package.name}: {done.stderr.strip()[-300:]}")


def _configure(root: Path) -> None:
    """Write the files that the packages' installation scripts would create."""
    for source, target in (
        ("usr/share/base-passwd/passwd.master", "etc/passwd"),
        ("usr/share/base-passwd/group.master", "etc/group"),
        ("usr/share/base-files/profile", "etc/profile"),
        ("usr/share/libc-bin/nsswitch.conf", "etc/nsswitch.conf"),
    ):
        if (root / source).exists() and not (root / target).exists():
            shutil.copyfile(root / source, root / target)
    certificates = root / "usr/share/ca-certificates"
    names = sorted(str(p.relative_to(certificates)) for p in certificates.rglob("*.crt"))
    (root / "etc/ca-certificates.conf").write_text("".join(f"{name}\n" for name in names))
    _link(root)
    for part in ("etc/hosts", "etc/resolv.conf"):  # Apptainer binds the machine's own over them
        (root / part).touch()


def _link(root: Path) -> None:
    """Choose among alternatives, and give R its settings, where the packages are there."""
    programs = root / "usr/bin"
    for name, packaged in (("awk", "gawk"), ("awk", "mawk"), ("which", "which.debianutils")):
        if (programs / packaged).exists() and not (programs / name).exists():
            (programs / name).symlink_to(packaged)
    for name in ("libblas.so.3", "liblapack.so.3", "libopenblas.so.0"):
        for library in sorted(root.glob(f"usr/lib/*/*/{name}")):
            link = library.parents[1] / name
            if not link.exists():
                link.symlink_to(f"{library.parent.name}/{name}")
    settings = root / "usr/lib/R/etc/Renviron.ucf"
    if settings.exists():
        shutil.copyfile(settings, root / "etc/R/Renviron")
