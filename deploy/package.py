"""Debian package of a release, for the release of Debian on which this runs: the release's wheels
and all that they need in a virtual environment in /opt/data-scientist-portal.

    make package    build the release and its package into dist/

Needs debhelper, dh-virtualenv, dpkg-dev and lintian. `pip wheel` fetches the packages, in the
versions of deploy/constraints.txt; after that nothing is downloaded. deploy/debian/ has the rules.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from email.utils import formatdate
from pathlib import Path

from deploy import release

NAME = "data-scientist-portal"
PYTHON = "/usr/bin/python3"  # of the package
PROGRAMS = ("dh", "dh_virtualenv", "dpkg-buildpackage", "lintian")


def main() -> None:
    """Build the release of the commit that is checked out, and its package."""
    release.run_to_the_end(build)


def build(out: Path) -> None:
    """Build both into the folder ``out``. Raises SystemExit with a sentence, CalledProcessError."""
    if missing := [name for name in PROGRAMS if not shutil.which(name)]:
        needed = "debhelper dh-virtualenv dpkg-dev lintian"
        sys.exit(f"package: {', '.join(missing)} cannot be found: apt-get install {needed}")
    theirs = release.output(PYTHON, "-c", "import platform as p; print(p.python_version())")
    if theirs.split(".")[:2] != platform.python_version().split(".")[:2]:
        sys.exit(
            f"package: this runs with Python {platform.python_version()}, and {PYTHON}, which the "
            f"package will use, is {theirs}. Let `make package` make its environment with that one."
        )
    release.build(out)
    with tempfile.TemporaryDirectory(prefix="portal-package-") as folder:
        source = Path(folder) / "source"
        source.mkdir()
        version = _fill(source, out)
        variables = _offline(release.commit_time())
        argv = ["dpkg-buildpackage", "--build=binary", "--no-sign", "-d"]
        release.output(*argv, cwd=source, variables=variables)
        (package,) = Path(folder).glob(f"{NAME}_{version}_*.deb")
        (changes,) = Path(folder).glob(f"{NAME}_{version}_*.changes")
        argv = ["lintian", "--fail-on=error,warning", "--allow-root", "--tag-display-limit=0"]
        found = subprocess.run([*argv, str(changes)], capture_output=True, text=True)
        if found.returncode:
            sys.exit(f"package: lintian has found faults.\n{found.stdout}{found.stderr}")
        shutil.copy(package, out)
    release.write_sums(out)


def _fill(source: Path, out: Path) -> str:
    """Fill the folder that dpkg-buildpackage starts from; return the version."""
    (wheel,) = out.glob("data_scientist_portal-*.whl")
    version = wheel.name.split("-")[1]
    (constraints,) = out.glob("*.constraints.txt")
    epoch = release.commit_time()
    extras = ",".join(release.EXTRAS)
    argv = [sys.executable, "-m", "pip", "wheel", "-q", "-c", str(constraints)]
    house = ["-w", str(source / "wheelhouse"), f"{wheel}[{extras}]"]
    release.output(*argv, *house, variables={"SOURCE_DATE_EPOCH": epoch})
    requirement = f"-c constraints.txt\ndata-scientist-portal[{extras}]=={version}\n"
    (source / "requirements.txt").write_text(requirement, encoding="utf-8")
    shutil.copy(constraints, source / "constraints.txt")
    for session in out.glob("portal_session-*.whl"):
        shutil.copy(session, source)
    for name in ("docs", "README.md", "CHANGELOG.md", "SECURITY.md"):
        argv = ["git", "archive", f"--output={source}/archive.tar", "HEAD", name]
        release.output(*argv)
        release.output("tar", "-xf", "archive.tar", cwd=source)
    (source / "archive.tar").unlink()
    shutil.copytree(release.ROOT / "deploy/systemd", source / "systemd")
    for unit in (source / "systemd").iterdir():
        text = unit.read_text(encoding="utf-8")
        place = f"file:///usr/share/doc/{NAME}/docs/"
        text = text.replace("file:///opt/data-scientist-portal/src/docs/", place)
        unit.write_text(text, encoding="utf-8")
    _write_debian(source / "debian", version, int(epoch))
    return version


def _write_debian(debian: Path, version: str, epoch: int) -> None:
    """Write debian/: what stands in deploy/debian, and what the commit says."""
    shutil.copytree(release.ROOT / "deploy/debian", debian)
    maintainer = release.output("git", "log", "-1", "--format=%an <%ae>")
    license = (release.ROOT / "LICENSE").read_text(encoding="utf-8").strip().splitlines()
    values = {
        "@MAINTAINER@": maintainer,
        "@COPYRIGHT@": license[2].removeprefix("Copyright (c) "),
        "@LICENSE@": "\n".join(f" {line.strip() or '.'}" for line in license[5:]),
    }
    for made in debian.glob("*.in"):
        text = made.read_text(encoding="utf-8")
        for name, value in values.items():
            text = text.replace(name, value)
        made.with_suffix("").write_text(text, encoding="utf-8")
        made.unlink()
    suite = platform.freedesktop_os_release().get("VERSION_CODENAME", "stable")
    (debian / "changelog").write_text(
        f"{NAME} ({version}) {suite}; urgency=medium\n\n"
        f"  * Version {version}: /usr/share/doc/{NAME}/CHANGELOG.md\n\n"
        f" -- {maintainer}  {formatdate(epoch)}\n",
        encoding="utf-8",
    )
    (debian / "source").mkdir()
    (debian / "source/format").write_text("3.0 (native)\n", encoding="utf-8")


def _offline(epoch: str) -> dict[str, str]:
    """Return the variables of the build, in which pip knows no index."""
    pip = {name: "" for name in os.environ if name.startswith("PIP_")}
    return {**pip, "PIP_CONFIG_FILE": os.devnull, "SOURCE_DATE_EPOCH": epoch, "LC_ALL": "C.UTF-8"}


if __name__ == "__main__":
    main()
