"""Sources of a course's files: folders of the site, and git repositories elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from portal.addresses import host_problem

# Characters on which URL parsers differ.
_ODD = frozenset(" \\\"'`<>^{}|") | frozenset(map(chr, (*range(33), 127)))


def below(path: str, roots: Sequence[str]) -> bool:
    """Return True if the path is one of the roots or below one; only the text is compared."""
    steps = PurePosixPath(path)
    if not path.startswith("/") or ".." in steps.parts:
        return False
    return any(
        steps == PurePosixPath(root) or PurePosixPath(root) in steps.parents for root in roots
    )


def root_of(path: str, roots: Sequence[str]) -> str | None:
    """Return the root that the path is below, comparing text only; None if there is none."""
    return next((root for root in roots if below(path, [root])), None)


def repository_problem(address: str) -> str:
    """Return why handouts may not come from this git URL; "" if they may.

    Only https: git's own ``file://`` reads the service's files, ``ext::`` runs commands
    (gitremote-helpers(7)), and a name and password in the URL would be seen by many.
    """
    try:
        parts = urlsplit(address)
        host = parts.hostname
        _ = parts.port  # raises ValueError for what is none
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme != "https" or not host or parts.fragment or set(address) & _ODD:
        return f"'{address[:200]}' is not a valid address. Example: 'https://git.example.org/course.git'."
    if parts.username is not None or parts.password is not None:
        return (
            "Remove the user name and password from the address: the course's staff can see them."
        )
    return host_problem(host)
