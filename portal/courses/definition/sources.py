"""Where the files of a course may come from: folders of the site, git repositories elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from portal.addresses import host_problem

# Where programs differ on what an address is.
_ODD = frozenset(" \\\"'`<>^{}|") | frozenset(map(chr, (*range(33), 127)))


def below(path: str, roots: Sequence[str]) -> bool:
    """Whether a path is one of some folders or in one, by its words alone."""
    steps = PurePosixPath(path)
    if not path.startswith("/") or ".." in steps.parts:
        return False
    return any(
        steps == PurePosixPath(root) or PurePosixPath(root) in steps.parents for root in roots
    )


def root_of(path: str, roots: Sequence[str]) -> str | None:
    """Which of some folders a path is in, by its words alone; None for none of them."""
    return next((root for root in roots if below(path, [root])), None)


def repository_problem(address: str) -> str:
    """Why an address is none of a git repository that handouts may come from; "" when it is one.

    Only https: git's own ``file://`` reads the service's files, ``ext::`` runs commands
    (gitremote-helpers(7)), and a name and password in an address would be seen by many.
    """
    try:
        parts = urlsplit(address)
        host = parts.hostname
        _ = parts.port  # raises ValueError for what is none
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme != "https" or not host or parts.fragment or set(address) & _ODD:
        return f"'{address[:200]}' is no address such as 'https://git.example.org/course.git'."
    if parts.username is not None or parts.password is not None:
        return "Leave the name and the password out of the address: all of the staff see it."
    return host_problem(host)
