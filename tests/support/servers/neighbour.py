"""Account of another user of the node, whose files and commands are real: only root has it."""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NEIGHBOUR = "games"  # an account that every Debian has
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs commands as others")


def as_neighbour(words: str, *arguments: object) -> str:
    """Execute a shell's command as the other user; return what it prints. It must succeed."""
    account = pwd.getpwnam(NEIGHBOUR)
    done = subprocess.run(
        ["sh", "-euc", words, "sh", *map(str, arguments)],
        user=account.pw_uid, group=account.pw_gid, extra_groups=[], cwd="/", umask=0o022,
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def give_away(place: Path) -> None:
    """Make a folder and all files in it another user's."""
    for path in (place, *place.rglob("*")):
        os.chown(path, pwd.getpwnam(NEIGHBOUR).pw_uid, -1, follow_symlinks=False)


@contextmanager
def shared_folder(mode: int = 0o1777) -> Iterator[Path]:
    """Make a folder with this mode, which others reach: pytest's own are closed to them."""
    with tempfile.TemporaryDirectory(prefix="portal-shared-", dir="/var/tmp") as name:
        Path(name).chmod(mode)
        yield Path(name)
