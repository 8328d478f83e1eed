"""Trees of files in a course's repository: read, judged, and written for git fast-import."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from .git import Git
from .paths import link_problem, problem_of

_FILE, _PROGRAM, _LINK, _SUBMODULE = "100644", "100755", "120000", "160000"
_LONGEST_LINK = 4096  # bytes
_LINKS = 500  # of one tree: git is asked for each of them where it leads


@dataclass(frozen=True)
class Entry:
    """One file of a tree; ``blob`` is git's name of what is in it, ``size`` in bytes."""

    path: str
    mode: str
    blob: str
    size: int


@dataclass(frozen=True)
class Judged:
    """The files that are handed out, by path, and a sentence's half for each that is not."""

    files: Mapping[str, Entry]
    left_out: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(one.size for one in self.files.values())


async def read(git: Git, revision: str) -> Judged:
    """The tree of ``revision`` ("" for none), without what is never handed out. Raises GitFailed.

    Submodules are not followed; links that lead out, and names that are not one plain path below
    the folder, are left out.
    """
    if not revision:
        return Judged({}, ())
    listed = await git.run("ls-tree", "-r", "-z", "-l", "--full-tree", revision)
    files: dict[str, Entry] = {}
    left_out: list[str] = []
    for line in listed.split(b"\0"):
        if not line:
            continue
        about, _, raw = line.partition(b"\t")
        mode, _, blob, size = about.decode("ascii").split()
        path = raw.decode("utf-8", "surrogateescape")
        problem = "is a submodule" if mode == _SUBMODULE else problem_of(path)
        if problem:
            left_out.append(f"{_shown(path)} {problem}")
        else:
            kind = mode if mode in (_PROGRAM, _LINK) else _FILE
            files[path] = Entry(path, kind, blob, int(size))
    links = [one for one in files.values() if one.mode == _LINK]
    for place, entry in enumerate(links):
        problem = "is a link that leads out of the folder"
        if place >= _LINKS:
            problem = f"is a link, and there are more than {_LINKS}"
        elif entry.size <= _LONGEST_LINK:
            target = await git.run("cat-file", "blob", entry.blob)
            problem = link_problem(entry.path, target.decode("utf-8", "surrogateescape"))
        if problem:
            left_out.append(f"{_shown(entry.path)} {problem}")
            del files[entry.path]
    return Judged(files, tuple(left_out))


def over(below: Mapping[str, Entry], above: Mapping[str, Entry]) -> dict[str, Entry]:
    """Both trees in one. Where they have the same name, or a file where the other has a folder,
    ``above`` counts."""
    folders = {parent for path in above for parent in _parents(path)}
    kept = {
        path: entry
        for path, entry in below.items()
        if path not in folders and not any(parent in above for parent in _parents(path))
    }
    return {**kept, **above}


def commit_text(
    reference: str, message: str, lines: Iterable[bytes], before: str = "", by: str = ""
) -> bytes:
    """What git fast-import (git-fast-import(1)) makes a commit of, in the place of ``before``."""
    who = "".join(one for one in by if one.isprintable() and one not in "<>") or "portal"
    text = message.encode("utf-8", "replace")
    start = f"commit {reference}\ncommitter {who} <handouts@localhost> {int(time.time())} +0000\n"
    parts = [start.encode(), b"data %d\n%s\n" % (len(text), text)]
    if before:
        parts.append(f"from {before}\n".encode())
    return b"".join([*parts, *lines, b"\n"])


def file_lines(entries: Iterable[Entry]) -> list[bytes]:
    """The lines of a commit that has these files and no others."""
    return [
        b"deleteall\n",
        *(f"M {one.mode} {one.blob} {one.path}\n".encode() for one in entries),
    ]


def write_file(into: IO[bytes], path: str, size: int, chunks: Iterable[bytes]) -> None:
    """A file with what is in it, as git fast-import reads it. Raises ValueError where there is
    not as much as ``size``."""
    into.write(f"M {_FILE} inline {path}\ndata {size}\n".encode())
    left = size
    for chunk in chunks:
        into.write(chunk[:left])
        left -= min(left, len(chunk))
        if not left:
            break
    if left:
        raise ValueError(f"{path} became shorter")
    into.write(b"\n")


def sentence(left_out: Sequence[str]) -> str:
    """What was left out, in a sentence; "" for nothing."""
    if not left_out:
        return ""
    more = f"; and {len(left_out) - 5} more" if len(left_out) > 5 else ""
    return f"Left out: {'; '.join(left_out[:5])}{more}."


def _parents(path: str) -> list[str]:
    steps = path.split("/")
    return ["/".join(steps[:count]) for count in range(1, len(steps))]


def _shown(path: str) -> str:
    clean = "".join(one if one.isprintable() else "?" for one in path)
    return f"'{clean[:100]}'"
