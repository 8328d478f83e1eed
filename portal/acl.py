"""POSIX access control lists (acl(5)), which share files of the portal's account with others.

The portal is not root and cannot change a file's owner. The attribute is the kernel's own
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
_NOBODY = 0xFFFFFFFF  # the id of entries without one
_LACKING = (errno.EOPNOTSUPP, errno.EINVAL)


class NoAcls(OSError):
    """Lack of POSIX ACLs in the file system."""


def give(target: Path | int, own: int, others: Mapping[int, int]) -> None:
    """Grant access to ``target``, a path or an open descriptor: the rights ``own`` to its owner,
    ``others`` (user id -> rights) to other accounts, none to anybody else. Blocks. Raises OSError,
    NoAcls."""
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
        os.setxattr(target, _ATTRIBUTE, _VERSION + b"".join(_ENTRY.pack(*row) for row in entries))
    except OSError as error:
        if error.errno in _LACKING:
            raise NoAcls(error.errno, "the file system has no POSIX ACLs") from None
        raise


def others_of(target: Path) -> frozenset[int]:
    """Return the user ids, without the owner's, that have access to ``target``. Blocks. Raises
    OSError."""
    try:
        raw = os.getxattr(target, _ATTRIBUTE)
    except OSError as error:
        if error.errno == errno.ENODATA:  # no list: the mode alone counts
            return frozenset()
        raise
    entries = _ENTRY.iter_unpack(raw[len(_VERSION) :])
    return frozenset(uid for tag, _, uid in entries if tag == _USER)


def problem_of(directory: Path) -> str:
    """Return why files in the existing ``directory`` cannot be shared with other accounts; "" if
    they can. Blocks."""
    try:
        with tempfile.TemporaryDirectory(prefix=".portal-", dir=directory) as folder:
            give(Path(folder), READ | WRITE | ENTER, {os.geteuid() + 1: READ})
    except NoAcls:
        return f"the file system of {directory} has no POSIX ACLs"
    except OSError as error:
        return f"{directory}: {error.strerror}"
    return ""
