"""Sources of a course's files: a git repository elsewhere or a folder of the site, brought into
the course's own repository under one name."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from portal.addresses import destination
from portal.errors import InvalidRequest, NotFound
from portal.models.course.course import Handouts
from portal.safe_path import DEPTH

from ..definition.sources import below, repository_problem, root_of
from .git import Git, pinned
from .paths import problem_of
from .tree import commit_text, write_file

REFERENCE = "refs/portal/upstream"
_FILES = 20_000  # of one folder
_CHUNK = 1024 * 1024
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def source_problem(handouts: Handouts, roots: Sequence[str], *, loopback: bool = False) -> str:
    """Return why nothing can be fetched from there; "" if it can. ``loopback``: whether plain http
    to this machine is allowed."""
    if handouts.kind == "git":
        secure = handouts.source.replace("http:", "https:", 1)
        if loopback and handouts.source.startswith("http:") and not repository_problem(secure):
            if urlsplit(secure).hostname in _LOOPBACK:
                return ""
        return repository_problem(handouts.source)
    if handouts.kind == "folder" and not below(handouts.source, roots):
        return (
            f"The folder '{handouts.source[:200]}' is not in a folder that this site allows "
            "(c.Courses.data_roots)."
        )
    return ""


async def fetch(
    git: Git, address: str, branch: str, seconds: float, allowed: Sequence[str] = ()
) -> None:
    """Fetch the newest state of a repository, without its history, tags and submodules.
    ``allowed``: hosts inside the site that may be contacted (`portal.addresses.allows`).

    Raises GitFailed, InvalidRequest (``handouts.source``), and keeps the previous state then.
    """
    parts = urlsplit(address)
    to = await destination(
        parts.hostname or "",
        parts.port or (443 if parts.scheme == "https" else 80),
        allowed,
        setting="c.Courses.internal_hosts",
        field="handouts.source",
        scheme=parts.scheme,
    )
    # Rebuilt, so that git contacts the host that was checked.
    host = f"[{to.host}]" if ":" in to.host else to.host
    address = parts._replace(netloc=f"{host}:{to.port}").geturl()
    await asyncio.to_thread(_forget_unfinished, git.folder)
    wanted = f"refs/heads/{branch}" if branch else "HEAD"
    await git.run(
        *pinned(to),
        "fetch",
        "-q",
        "--force",
        "--depth=1",
        "--no-tags",
        "--no-recurse-submodules",
        "--no-write-fetch-head",
        "--",
        address,
        f"{wanted}:{REFERENCE}",
        seconds=seconds,
    )


async def copy(git: Git, folder: str, roots: Sequence[str], seconds: float) -> tuple[str, ...]:
    """Import a folder; return what was left out, and why. Raises NotFound, InvalidRequest,
    GitFailed."""
    with tempfile.TemporaryDirectory(prefix="portal-handouts-") as place:
        packed = Path(place) / "stream"
        left_out = await asyncio.to_thread(
            _pack, folder, roots, packed, git.megabytes * 1024 * 1024
        )
        await git.run("fast-import", "--quiet", "--force", stdin=packed, seconds=seconds)
    return left_out


def _forget_unfinished(repository: Path) -> None:
    """Remove the files of an aborted fetch."""
    for left in repository.glob("objects/pack/tmp_*"):
        left.unlink(missing_ok=True)


def _pack(folder: str, roots: Sequence[str], packed: Path, most: int) -> tuple[str, ...]:
    """Write the folder as git fast-import reads it; return what was left out."""
    try:
        opened = _open_below(folder, roots)
    except OSError as error:
        raise NotFound(
            f"The folder '{folder}' cannot be read by the portal: {error.strerror}."
        ) from None
    left_out: list[str] = []
    size = files = 0
    try:
        with packed.open("wb") as into:
            into.write(commit_text(REFERENCE, "A folder of the site", [b"deleteall\n"])[:-1])
            for path, file in _walk(opened, "", left_out):
                with file:
                    length = os.fstat(file.fileno()).st_size
                    size, files = size + length, files + 1
                    if size > most or files > _FILES:
                        raise InvalidRequest(
                            f"The folder '{folder}' exceeds the limit for handouts: {_FILES} "
                            f"files or {most // 1024 // 1024} MB."
                        )
                    try:
                        write_file(into, path, length, iter(partial(file.read, _CHUNK), b""))
                    except (OSError, ValueError):
                        raise NotFound(
                            f"'{path}' in the folder '{folder}' changed while it was read, or "
                            "cannot be read. Try again."
                        ) from None
            into.write(b"\n")
    finally:
        os.close(opened)
    return tuple(left_out)


def _open_below(folder: str, roots: Sequence[str]) -> int:
    """Open ``folder`` step by step from the root that it is below; no step may be a link. Raises
    OSError."""
    root = root_of(folder, roots)
    assert root is not None  # checked by source_problem
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    opened = os.open(root, flags)
    for step in Path(folder).relative_to(root).parts:
        try:
            following = os.open(step, flags | os.O_NOFOLLOW, dir_fd=opened)
        finally:
            os.close(opened)
        opened = following
    return opened


def _walk(folder: int, before: str, left_out: list[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the files below an open folder; links are not followed at any step."""
    for name in sorted(os.listdir(folder)):
        path = f"{before}{name}"
        if name == ".git":
            continue
        problem = problem_of(path)
        try:
            kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if not problem and stat.S_ISDIR(kind) and path.count("/") < DEPTH:
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                inner = os.open(name, flags, dir_fd=folder)
                try:
                    yield from _walk(inner, f"{path}/", left_out)
                finally:
                    os.close(inner)
            elif not problem and stat.S_ISREG(kind):
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                yield path, os.fdopen(os.open(name, flags, dir_fd=folder), "rb")
            else:
                problem = problem or "is a link or a special file"
        except OSError as error:
            problem = f"cannot be read ({error.strerror})"
        if problem:
            printable_path = "".join(char if char.isprintable() else "?" for char in path)
            left_out.append(f"'{printable_path[:100]}' {problem}")
