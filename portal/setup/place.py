"""Machine that is set up. Every path goes through it, so that another root can stand for ``/``."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

ETC = "/etc/data-scientist-portal"
STATE = "/var/lib/data-scientist-portal"
CONFIG = f"{ETC}/jupyterhub_config.py"
HUB = f"{STATE}/hub"
UNITS = "/etc/systemd/system"
_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin")


class Place:
    """Machine below ``root``. ``path`` maps an absolute path; commands know the root themselves."""

    def __init__(self, root: Path | str = "/") -> None:
        self.root = Path(root)
        self.is_machine = self.root == Path("/")

    @property
    def runs_systemd(self) -> bool:
        """Return True if units can be started here (sd_booted(3))."""
        return self.is_machine and Path("/run/systemd/system").is_dir()

    def path(self, absolute: str | Path) -> Path:
        """Return where ``absolute`` is."""
        return self.root / str(absolute).lstrip("/")

    def program(self, name: str) -> str:
        """Return the path of a program of this machine, also of an administrator's; "" if none."""
        folders = [*os.environ.get("PATH", "").split(os.pathsep), *_SBIN]
        return shutil.which(name, path=os.pathsep.join(folders)) or ""

    def numbers(self, owner: str, group: str) -> tuple[int, int] | None:
        """Return the numbers of an account and a group; None if one is not known."""
        if self.is_machine:
            try:
                return pwd.getpwnam(owner).pw_uid, grp.getgrnam(group).gr_gid
            except KeyError:
                return None
        uid, gid = self._number("passwd", owner), self._number("group", group)
        return None if uid is None or gid is None else (uid, gid)

    def has_account(self, name: str) -> bool:
        """Return True if the account exists."""
        return self.numbers(name, "root") is not None

    def _number(self, table: str, name: str) -> int | None:
        try:
            lines = self.path(f"/etc/{table}").read_text().splitlines()
        except OSError:
            return None
        found = [line.split(":") for line in lines if line.startswith(f"{name}:")]
        return int(found[0][2]) if found else None


class Answer:
    """Result of a program: ``good``, and its ``words`` for a sentence."""

    def __init__(self, status: int, stdout: str, stderr: str) -> None:
        self.good, self.stdout = status == 0, stdout
        lines = (stderr.strip() or stdout.strip()).splitlines() or [f"status {status}"]
        # nginx and others warn first.
        errors = [line for line in lines if "[emerg]" in line or "error" in line.lower()]
        self.words = (errors or lines)[0].strip()


def ask(argv: Sequence[str], seconds: float = 30, **variables: str) -> Answer:
    """Run a program without input and without a shell; one that is missing or too slow is no
    success."""
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            env={**os.environ, "LC_ALL": "C.UTF-8", **variables},
        )
    except OSError as error:
        return Answer(127, "", f"{argv[0]}: {error.strerror}")
    except subprocess.TimeoutExpired:
        return Answer(124, "", f"{Path(argv[0]).name} did not answer within {seconds:g} s")
    return Answer(done.returncode, done.stdout, done.stderr)
