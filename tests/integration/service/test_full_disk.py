"""The disk of the portal's state is full: a real file system without space, in a namespace of the
test's own. Needs root, who may mount."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import checkout
import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")

_BEGIN = """
import asyncio, errno, subprocess, sys
from pathlib import Path
from portal import disk
place = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", place], check=True)

def fill():
    with (place / "filler").open("wb", buffering=0) as filler:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    if filler.write(bytes(size)) < size:
                        break
            except OSError as error:
                assert disk.no_space(error), error
    try:
        (place / "more").write_bytes(bytes(8192))
        raise SystemExit("it is not full")
    except OSError:
        (place / "more").unlink()
"""

_STORE = """
import time
from portal.models.audit import AuditEntry, Outcome
from portal.store import Store

async def main():
    store = Store(url=f"sqlite:///{place}/portal.sqlite")
    await store.upgrade()
    if ROOM:
        await store.keep_room()
    fill()
    for number in range(500):
        await store.audit.add_entry(AuditEntry(at=time.time(), actor="ada", action="stop-session",
                              target=f"session {number}", outcome=Outcome.DONE, detail="x" * 500))
    print("written")
    await store.close()
"""

_HUB = """
import sqlite3, threading
from jupyterhub import orm
from spawners import hub_database

async def main():
    factory = orm.new_session_factory(f"sqlite:///{place}/hub.sqlite")
    hub_database.begin_log(factory.kw["bind"])
    db = factory()
    if ROOM:
        disk.keep_room(place / "hub.sqlite")
    fill()
    for number in range(500):
        db.add(orm.User(name=f"person{number}"))
        db.commit()
    print("written")
"""


def run(script: str, place: Path, *, room: bool = True) -> subprocess.CompletedProcess[str]:
    """Run ``script`` as its own process in a mount namespace of its own, on a disk of 64 MiB."""
    program = f"{_BEGIN}\nROOM = {room}\n{script}\nasyncio.run(main())\n"
    apart = ("unshare", "--mount", "--propagation=private")
    return checkout.run(*apart, sys.executable, "-c", program, place)


def test_the_portals_database_takes_changes(tmp_path: Path) -> None:
    done = run(_STORE, tmp_path)
    assert done.returncode == 0 and "written" in done.stdout, done.stderr


def test_the_hubs_database_takes_changes(tmp_path: Path) -> None:
    """As spawners.hub_database sets it up, with a write-ahead log."""
    done = run(_HUB, tmp_path)
    assert done.returncode == 0 and "written" in done.stdout, done.stderr


@pytest.mark.parametrize("script", [_STORE, _HUB])
def test_without_room_neither_does(tmp_path: Path, script: str) -> None:
    """What the room is for: else the disk's end is the database's."""
    done = run(script, tmp_path, room=False)
    assert done.returncode != 0 and re.search("disk is full|no space left", done.stderr)


def test_a_launch_is_refused_and_space_is_all_it_takes(tmp_path: Path) -> None:
    script = """
async def main():
    disk.ensure_space(place)
    fill()
    try:
        disk.ensure_space(place, "/")
        raise SystemExit("not refused")
    except disk.DiskFull as error:
        print(error.message)
    (place / "filler").unlink()
    disk.ensure_space(place)
"""
    done = run(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("The portal's disk is full. Running sessions continue")
