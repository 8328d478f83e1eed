"""Work as the Hub's account, for a command that root runs."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
from collections.abc import Iterator
from typing import Any


def owner_of(status: os.stat_result) -> tuple[str, str]:
    """Return the names of a file's owner and group; their numbers if they have no names."""
    try:
        owner = pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        owner = str(status.st_uid)
    try:
        group = grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        group = str(status.st_gid)
    return owner, group


def numbers_of(owner: str, group: str) -> tuple[int, int] | None:
    """Return the numbers of an account and a group on this machine; None if one is not known."""
    try:
        uid = int(owner) if owner.isdigit() else pwd.getpwnam(owner).pw_uid
        gid = int(group) if group.isdigit() else grp.getgrnam(group).gr_gid
    except KeyError:
        return None
    return uid, gid


def program_arguments(account: str) -> dict[str, Any]:
    """Return arguments of ``subprocess`` that run a program as ``account``, if root is asked to:
    PostgreSQL knows an account on its machine by its name (``peer``), and so its ~/.pgpass."""
    entry = _entry(account)
    if entry is None:
        return {"env": {**os.environ}}
    return {
        "user": entry.pw_uid,
        "group": entry.pw_gid,
        "extra_groups": [],
        "cwd": "/",
        "env": os.environ | {"HOME": entry.pw_dir},
    }


@contextlib.contextmanager
def acting_as(account: str) -> Iterator[None]:
    """Act as ``account`` in this process meanwhile, if this is root."""
    entry = _entry(account)
    if entry is None:
        yield
        return
    uid, gid, groups = os.geteuid(), os.getegid(), os.getgroups()
    os.setgroups([])
    os.setegid(entry.pw_gid)
    os.seteuid(entry.pw_uid)
    try:
        yield
    finally:
        os.seteuid(uid)
        os.setegid(gid)
        os.setgroups(groups)


def _entry(account: str) -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(account)
    except KeyError:
        return None
    return entry if entry.pw_uid else None
