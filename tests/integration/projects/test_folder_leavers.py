"""What a member who left, or who reads only by now, can still do in the folder from a process of
their own on the node: no session of the project, which would be stopped. With the real program,
ACLs and accounts."""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import a_home
from project_folder_site import PEOPLE, FolderSite, as_person, folder_site, needs_namespace

pytestmark = needs_namespace

TEAM = {"ada": "owner", "grace": "member", "barbara": "member"}
_ENTRY, _NAMED = struct.Struct("<HHI"), 0x02  # as linux/posix_acl_xattr.h has them
_LOOP = (
    'cd "$1"; while read -r words; '
    'do if eval "$words" 2>/dev/null; then echo y; else echo n; fi; done'
)


@pytest.fixture(scope="module")
def site() -> Iterator[FolderSite]:
    with a_home() as place, folder_site(place) as made:
        yield made


def named(path: Path) -> set[int]:
    """Return the users that a folder's ACL names."""
    rows = _ENTRY.iter_unpack(os.getxattr(path, "system.posix_acl_access")[4:])
    return {uid for tag, _, uid in rows if tag == _NAMED}


class Inside:
    """Shell of a person that stands in a folder, and stays when they leave the project."""

    def __init__(self, name: str, folder: Path) -> None:
        uid = PEOPLE[name]
        self._process = subprocess.Popen(
            ["sh", "-uc", _LOOP, "sh", str(folder)],
            user=uid, group=uid, extra_groups=[], umask=0o077, cwd="/", text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def can(self, words: str) -> bool:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{words}\n")
        answer = self._process.stdout.readline()
        assert answer in ("y\n", "n\n"), answer
        return answer == "y\n"

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


@contextlib.contextmanager
def standing(name: str, folder: Path) -> Iterator[Inside]:
    shell = Inside(name, folder)
    try:
        yield shell
    finally:
        shell.close()


def test_a_leaver_who_stands_in_the_folder_keeps_open_files_and_nothing_else(
    site: FolderSite,
) -> None:
    folder = site.make("leaver", **TEAM)
    assert as_person("ada", 'mkdir "$1/d"; echo secret > "$1/d/file"; echo 1 > "$1/d/log"', folder)
    assert as_person("grace", 'mkdir "$1/own"; echo mine > "$1/own/file"', folder)
    assert named(folder) == {PEOPLE[name] for name in TEAM}
    with standing("grace", folder / "d") as grace:
        assert grace.can("exec 3< file 4>> log") and grace.can("echo 1 > new; rm new")
        site.make("leaver", ada="owner", barbara="member")
        for path in (folder, folder / "d", folder / "d" / "file"):
            assert named(path) == {PEOPLE["ada"], PEOPLE["barbara"]}
        # By its name, from where she stands, and by the process's own descriptors of it.
        for words in (
            f"cat {folder}/d/file", f"ls {folder}", f"cat {folder}/own/file", "cat file", "ls",
            "ls ..", "cd ..", "echo 1 > new", "rm file", "echo 1 >> log", "mv file x", "ln file x",
            "chmod 777 file", "cat < /proc/self/cwd/file", "cat < /proc/self/fd/3",
        ):  # fmt: skip
            assert not grace.can(f"{words} > /dev/null"), words
        # What was open stays open until its process ends: the kernel asks only when it opens.
        assert grace.can('read -r line <&3 && [ "$line" = secret ]') and grace.can("echo 2 >&4")
    assert (folder / "d" / "log").read_text() == "1\n2\n"
    assert (folder / "own" / "file").read_text() == "mine\n"  # nothing is deleted
    assert not as_person("grace", 'cat "$1"', folder / "own" / "file")


def test_who_reads_only_by_now_changes_their_own_files_and_no_others(site: FolderSite) -> None:
    folder = site.make("reads", **TEAM)
    assert as_person("ada", 'mkdir "$1/d"; echo 1 > "$1/d/file"', folder)
    assert as_person("grace", 'mkdir "$1/own"; echo 1 > "$1/own/file"', folder)
    with standing("grace", folder / "d") as grace:
        assert grace.can("echo 2 >> file")
        site.make("reads", ada="owner", grace="reader", barbara="member")
        assert grace.can("cat file > /dev/null") and grace.can("ls .. > /dev/null")
        for words in (
            "echo 3 >> file", "echo 1 > new", "mkdir new", "rm -f file", "mv file x", "ln file x",
            "ln -s file x", "chmod 777 file", "chmod 777 .", "touch ../new", "mv ../own ../x",
            "setfattr -x system.posix_acl_access .",
        ):  # fmt: skip
            assert not grace.can(words), words
    # Files are their owner's: only an archived folder takes that, too.
    assert as_person("grace", 'echo 2 >> "$1/own/file"', folder)
    assert as_person("ada", 'grep -q 2 "$1/own/file"', folder)
    assert (folder / "d" / "file").read_text() == "1\n2\n"
