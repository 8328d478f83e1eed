"""POSIX access control lists (acl(5)): who else may use a file or folder of the portal's account.

The portal is not root and cannot give a file away. The attribute is the kernel's own
(include/uapi/linux/posix_acl_xattr.h), so setfacl(1) is not needed. Network file systems may lack
it: NFS 4 has lists of another kind.
"""

from __future__ import annotations

import errno
import os
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path

READ, WRITE, ENTER = 0o4, 0o2, 0o1
_ATTRIBUTE = "system.posix_acl_access"
_VERSION = struct.pack("<I", 2)
_ENTRY = struct.Struct("<HHI")  # tag, rights, id
_USER_OBJ, _USER, _GROUP_OBJ, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
_NOBODY = 0xFFFFFFFF  # the id of entries that have none
_LACKING = (errno.EOPNOTSUPP, errno.EINVAL)


class NoAcls(OSError):
    """The file system has no POSIX ACLs."""


def give(target: Path | int, own: int, others: Mapping[int, int]) -> None:
    """Let the accounts ``others`` (user id -> rights) use ``target``, its owner as ``own`` says,
    and nobody else. ``target`` is a path or an open descriptor. Blocks. Raises OSError, NoAcls."""
    mask = 0
    for rights in others.values():
        mask |= rights
    entries = [
        (_USER_OBJ, own, _NOBODY),
        *((_USER, rights, uid) for uid, rights in sorted(others.items())),
        (_GROUP_OBJ, 0, _NOBODY),
        (_MASK, mask, _NOBODY),
        (_OTHER, 0, _NOBODY),
    ]
    try:
        os.setxattr(target, _ATTRIBUTE, _VERSION + b"".join(_ENTRY.pack(*one) for one in entries))
    except OSError as error:
        if error.errno in _LACKING:
            raise NoAcls(error.errno, "the file system has no POSIX ACLs") from None
        raise


def others_of(target: Path) -> frozenset[int]:
    """Return the ids of the accounts that ``target`` is given to, without its owner's. Blocks.
    Raises OSError."""
    try:
        raw = os.getxattr(target, _ATTRIBUTE)
    except OSError as error:
        if error.errno == errno.ENODATA:  # as its mode says
            return frozenset()
        raise
    entries = _ENTRY.iter_unpack(raw[len(_VERSION) :])
    return frozenset(number for tag, _, number in entries if tag == _USER)


def problem_of(directory: Path) -> str:
    """Return why nothing in ``directory``, which is there, can be given to others; "" when it can.
    Blocks."""
    try:
        with tempfile.TemporaryDirectory(prefix=".portal-", dir=directory) as made:
            give(Path(made), READ | WRITE | ENTER, {os.geteuid() + 1: READ})
    except NoAcls:
        return f"the file system of {directory} has no POSIX ACLs"
    except OSError as error:
        return f"{directory}: {error.strerror}"
    return ""
