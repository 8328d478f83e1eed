"""File trees of a course's repository: read, checked, and written for git fast-import."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from .git import Git
from .paths import link_problem, problem_of

_FILE, _PROGRAM, _LINK, _SUBMODULE = "100644", "100755", "120000", "160000"
_LONGEST_LINK = 4096  # bytes
_LINKS = 500  # of one tree: git is asked for the target of each


@dataclass(frozen=True)
class Entry:
    """File of a tree; ``blob`` is the id of its content in git, ``size`` is in bytes."""

    path: str
    mode: str
    blob: str
    size: int


@dataclass(frozen=True)
class CheckedFiles:
    """Files that are handed out, by path, and half a sentence for each that is left out."""

    files: Mapping[str, Entry]
    left_out: tuple[str, ...]

    @property
    def size(self) -> int:
        """Size of all files in bytes."""
        return sum(entry.size for entry in self.files.values())


async def read(git: Git, revision: str) -> CheckedFiles:
    """Return the tree of ``revision`` ("" for none), less what is never handed out. Raises
    GitFailed.

    Submodules are not followed; links that lead out, and names that are not one plain path below
    the folder, are left out.
    """
    if not revision:
        return CheckedFiles({}, ())
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
    links = [file for file in files.values() if file.mode == _LINK]
    for place, entry in enumerate(links):
        problem = "is a link that leads out of the folder"
        if place >= _LINKS:
            problem = f"is one of more than {_LINKS} links"
        elif entry.size <= _LONGEST_LINK:
            target = await git.run("cat-file", "blob", entry.blob)
            problem = link_problem(entry.path, target.decode("utf-8", "surrogateescape"))
        if problem:
            left_out.append(f"{_shown(entry.path)} {problem}")
            del files[entry.path]
    return CheckedFiles(files, tuple(left_out))


def over(below: Mapping[str, Entry], above: Mapping[str, Entry]) -> dict[str, Entry]:
    """Merge two trees. ``above`` wins where both have the same name, or a file where the other has
    a folder."""
    folders = {parent for path in above for parent in _parents(path)}
    remaining = {
        path: entry
        for path, entry in below.items()
        if path not in folders and not any(parent in above for parent in _parents(path))
    }
    return {**remaining, **above}


def commit_text(
    reference: str, message: str, lines: Iterable[bytes], before: str = "", by: str = ""
) -> bytes:
    """Return a commit for git fast-import (git-fast-import(1)), with ``before`` as its parent."""
    name = "".join(char for char in by if char.isprintable() and char not in "<>") or "portal"
    text = message.encode("utf-8", "replace")
    start = f"commit {reference}\ncommitter {name} <handouts@localhost> {int(time.time())} +0000\n"
    parts = [start.encode(), b"data %d\n%s\n" % (len(text), text)]
    if before:
        parts.append(f"from {before}\n".encode())
    return b"".join([*parts, *lines, b"\n"])


def file_lines(entries: Iterable[Entry]) -> list[bytes]:
    """Return the lines of a commit that contains exactly these files."""
    return [
        b"deleteall\n",
        *(f"M {entry.mode} {entry.blob} {entry.path}\n".encode() for entry in entries),
    ]


def write_file(into: IO[bytes], path: str, size: int, chunks: Iterable[bytes]) -> None:
    """Write a file with its content, as git fast-import reads it. Raises ValueError if that is
    less than ``size``."""
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
    """Return a sentence on what was left out; "" if nothing was."""
    if not left_out:
        return ""
    more = f"; and {len(left_out) - 5} more" if len(left_out) > 5 else ""
    return f"Left out: {'; '.join(left_out[:5])}{more}."


def _parents(path: str) -> list[str]:
    steps = path.split("/")
    return ["/".join(steps[:count]) for count in range(1, len(steps))]


def _shown(path: str) -> str:
    clean = "".join(char if char.isprintable() else "?" for char in path)
    return f"'{clean[:100]}'"
