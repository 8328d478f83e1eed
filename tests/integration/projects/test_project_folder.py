"""The program that makes folders of projects: real ACLs, real accounts, real sudo."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import a_home
from machine import patience
from project_folder_site import FolderSite, as_person, folder_site, needs_namespace, tree_hash

pytestmark = needs_namespace

TEAM = {"ada": "owner", "grace": "member", "barbara": "reader"}
READ, WRITE = 'cat "$1"', 'echo more >> "$1"'


@pytest.fixture(scope="module")
def site() -> Iterator[FolderSite]:
    with a_home() as place, folder_site(place) as made:
        yield made


def may(path: Path, *, read: set[str], write: set[str]) -> None:
    """Assert who can read and write a file, as each of them tries it."""
    people = ("ada", "grace", "barbara", "student01")
    assert {name for name in people if as_person(name, READ, path)} == read
    assert {name for name in people if as_person(name, WRITE, path)} == write


def test_new_files_are_the_teams_whatever_the_umask(site: FolderSite) -> None:
    folder = site.make("umask", **TEAM)
    for umask in (0o077, 0o000, 0o777):
        file = folder / f"d{umask}" / "deep" / "file"
        assert as_person("ada", 'mkdir -p "$1"; echo x > "$2"', file.parent, file, umask=umask)
        may(file, read={"ada", "grace", "barbara"}, write={"ada", "grace"})
    assert not as_person("barbara", 'touch "$1/new"', folder)
    assert not as_person("student01", 'ls "$1"', folder)
    assert as_person("grace", 'rm -r "$1"', folder / "d63")


def test_what_is_right_stays_as_it_is(site: FolderSite) -> None:
    folder = site.make("same", **TEAM)
    assert as_person("ada", 'mkdir "$1/d"; echo 1 > "$1/d/x"; chmod a-w "$1/d/x"', folder)
    before = tree_hash(folder)
    for action in ("make", "repair-list", "repair"):
        assert site.call("same", action).answer["changed_count"] == 0
    assert tree_hash(folder) == before


def test_who_joins_reads_old_files_and_who_leaves_is_out_at_once(site: FolderSite) -> None:
    folder = site.make("joins", ada="owner", barbara="member")
    file = folder / "d" / "file"
    assert as_person("barbara", 'mkdir "$1/d"; echo x > "$1/d/file"', folder)
    assert as_person("ada", 'echo x > "$1/d/own"; chmod 600 "$1/d/own"', folder)
    site.make("joins", ada="owner", grace="member")
    may(file, read={"ada", "grace"}, write={"ada", "grace"})
    # Files of who left stay, and what an owner hid stays hidden.
    may(folder / "d" / "own", read={"ada"}, write={"ada"})
    site.make("joins", ada="owner", grace="reader")
    may(file, read={"ada", "grace"}, write={"ada"})
    # The gate alone keeps out: with the call killed after it, the files still name grace.
    site.tell("joins", {"ada": "owner"})
    below = os.getxattr(file, "system.posix_acl_access")
    for number in range(1, 20):
        assert site.call("joins", "make", kill_at=number).status < 0
        if not as_person("grace", READ, file):
            break
    assert os.getxattr(file, "system.posix_acl_access") == below


def test_repair_lists_and_changes_only_what_it_listed(site: FolderSite) -> None:
    folder = site.make("repair", **TEAM)
    words = 'cd "$1"; echo 1 > hidden; echo 1 > later; mkdir d; chmod 600 hidden; chmod 700 d'
    assert as_person("ada", words, folder)
    refused = site.call("repair", "repair")
    assert refused.status == 3 and "call repair-list" in refused.err
    before = tree_hash(folder)
    assert sorted(site.call("repair", "repair-list").answer["changed"]) == ["d", "hidden"]
    assert tree_hash(folder) == before
    # Another file of that name, and one that came later, are not on the list.
    words = 'cd "$1"; chmod 600 later; mv hidden kept; cp kept hidden; chmod 600 hidden'
    assert as_person("ada", words, folder)
    assert site.call("repair", "repair").answer["changed"] == ["d"]
    for name in ("later", "hidden", "kept"):
        may(folder / name, read={"ada"}, write={"ada"})
    assert site.call("repair", "repair").status == 3  # a list is used once
    assert site.call("repair", "repair-list").answer["changed_count"] == 3
    assert site.call("repair", "repair").answer["changed_count"] == 3
    may(folder / "hidden", read={"ada", "grace", "barbara"}, write={"ada", "grace"})


def test_archived_is_read_only_and_restored_as_it_was(site: FolderSite) -> None:
    folder = site.make("ended", **TEAM)
    words = (
        'cd "$1"; mkdir -p d/e; echo 1 > d/e/plain; echo 1 > object; chmod a-w object; '
        "echo 1 > hidden; chmod 600 hidden; echo 1 > run; chmod 755 run; "
        "echo 1 > halfway; chmod 640 halfway"
    )
    assert as_person("ada", words, folder)
    site.call("ended", "make")
    before = tree_hash(folder)
    assert site.call("ended", "archive").answer["archived"]
    archived = tree_hash(folder)
    may(folder / "d" / "e" / "plain", read={"ada", "grace", "barbara"}, write=set())
    may(folder / "hidden", read={"ada"}, write=set())
    for name in ("ada", "grace"):
        assert not as_person(name, 'touch "$1/d/new"', folder)
        assert not as_person(name, 'rm "$1/d/e/plain"', folder)
    for action in ("archive", "make", "repair-list"):
        site.call("ended", action)
        assert tree_hash(folder) == archived
    # A member who leaves an archived project, and comes back.
    site.make("ended", ada="owner")
    assert not as_person("grace", READ, folder / "run")
    site.make("ended", **TEAM)
    assert tree_hash(folder) == archived
    assert not site.call("ended", "restore").answer["archived"]
    assert tree_hash(folder) == before


def test_a_project_without_members_is_closed_to_all(site: FolderSite) -> None:
    folder = site.make("alone", **TEAM)
    assert as_person("ada", 'echo 1 > "$1/file"; echo 1 > "$1/r"; chmod a-w "$1/r"', folder)
    before = tree_hash(folder)
    site.call("alone", "archive")
    archived = tree_hash(folder)
    site.make("alone")
    may(folder / "file", read=set(), write=set())
    site.make("alone", **TEAM)
    assert tree_hash(folder) == archived
    site.call("alone", "restore")
    assert tree_hash(folder) == before
    site.make("alone")
    may(folder / "file", read=set(), write=set())


def test_what_an_owner_forces_into_an_archive_is_read_only_too(site: FolderSite) -> None:
    folder = site.make("forced", **TEAM)
    assert as_person("ada", 'mkdir "$1/d"', folder)
    site.call("forced", "archive")
    words = 'chmod u+w "$1/d"; echo late > "$1/d/late"; mkdir "$1/d/e"'
    assert as_person("ada", words, folder, umask=0)
    assert not as_person("grace", WRITE, folder / "d" / "late")
    assert not as_person("grace", 'touch "$1/d/e/new"', folder)


def test_two_makes_at_once(site: FolderSite) -> None:
    site.tell("twice", TEAM)
    assert site.call("twice", "make", times=8).answer["refused"] == []
    may_file = site.projects / "twice" / "file"
    assert as_person("ada", 'echo x > "$1"', may_file)
    may(may_file, read={"ada", "grace", "barbara"}, write={"ada", "grace"})


@pytest.mark.parametrize("action", ["make", "repair-list", "repair", "archive", "restore"])
def test_a_kill_at_each_step_and_the_next_call_completes_it(site: FolderSite, action: str) -> None:
    """Each project is killed one change later, until none is left to be killed at."""
    hashes, completed = set(), 0
    for number in range(1, 60):
        project = f"k{number}-{action}"
        if action == "make":
            site.tell(project, TEAM)
        else:
            folder = site.make(project, **TEAM)
            words = 'cd "$1"; mkdir d; echo 1 > d/a; echo 1 > d/b; chmod 600 d/b'
            assert as_person("ada", words, folder)
            if action == "repair":
                site.call(project, "repair-list")
            if action == "restore":
                site.call(project, "archive")
        called = site.call(project, action, kill_at=number)
        folder = site.projects / project
        if action == "make" and folder.exists():  # never open to others
            assert not as_person("student01", 'ls "$1"', folder)
        again = site.call(project, action)
        if action == "repair" and again.status == 3:  # the list was done, and is gone
            assert "call repair-list" in again.err and called.status == 0, (number, again)
        else:
            assert again.status == 0, (number, again)
        hashes.add(tree_hash(folder))
        left = list(site.states.glob(f"{project}.*.new"))
        assert left == []
        if called.status == 0:
            completed = number
            break
        assert called.status == -9, called
    assert completed > 5 and len(hashes) == 1


def test_the_gate_does_not_wait_for_a_long_walk(site: FolderSite) -> None:
    """Who leaves is out, though another call walks through the files; that ends with new rights."""
    folder = site.make("large", **TEAM)
    assert as_person("ada", 'echo x > "$1/file"', folder)
    (site.states / "large.walk").touch(mode=0o600)
    with (site.states / "large.walk").open() as walks:
        fcntl.flock(walks, fcntl.LOCK_EX)
        site.tell("large", {"ada": "owner"})
        site.begin("large", "make")
        end = time.monotonic() + patience(20)
        while as_person("grace", READ, folder / "file"):
            assert time.monotonic() < end
        below = os.getxattr(folder / "file", "system.posix_acl_access")
        site.tell("large", {"ada": "owner", "barbara": "member"})
    assert site.ended().answer["changed"] == ["file"]
    assert os.getxattr(folder / "file", "system.posix_acl_access") != below
    assert site.call("large", "make").answer["changed_count"] == 0
    may(folder / "file", read={"ada", "barbara"}, write={"ada", "barbara"})


def test_members_without_an_account_are_told(site: FolderSite) -> None:
    site.tell("absent", {"ada": "owner", "nobody-here": "member", "ünbekannt\ud800": "reader"})
    answer = site.call("absent", "make").answer
    assert answer["unknown_count"] == 2 and "nobody-here" in answer["unknown"]
    site.tell("absent", {"nobody-here": "member"})
    refused = site.call("absent", "make")
    assert refused.status == 3 and "No member is a user" in refused.err


def test_folders_that_were_there_before(site: FolderSite) -> None:
    """A folder of the site is no project's, though a project has its name."""
    data = site.projects / "datasets"
    data.mkdir(mode=0o750)
    (data / "secret").write_text("root's")
    foreign = site.projects / "foreign"
    foreign.mkdir()
    os.chown(foreign, 6101, 6101)
    before = tree_hash(site.projects)
    for name in ("datasets", "foreign"):
        site.tell(name, TEAM)
        refused = site.call(name, "make")
        assert refused.status == 3 and name in refused.err, refused
    assert tree_hash(site.projects) == before


def test_the_probe_leaves_nothing(site: FolderSite) -> None:
    before = tree_hash(site.projects)
    for number in range(1, 9):
        site.call("probe", "probe", kill_at=number)
    assert site.call("probe", "probe").answer["quota"]
    assert tree_hash(site.projects) == before
    assert not (site.projects / ".probe").exists()


def test_the_probe_sees_acls_without_effect(site: FolderSite) -> None:
    refused = site.call("probe", "probe", ignored="setxattr")
    assert refused.status == 3 and "does not follow its ACLs" in refused.err
    assert not (site.projects / ".probe").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"minimum_uid": 0}, "at least 500"),
        ({"group": "root"}, "at least 500"),
        ({"group": "no-such-group"}, "no-such-group"),
        ({"root": "/var/tmp/../etc"}, "absolute path"),
        ({"root": "projects"}, "absolute path"),
        ({"root": "/no/such/folder"}, "No such file"),
        ({"root": "/dev/fd"}, "symbolic link"),
        ({"root": 7}, "'root'"),
        ({"more": "x"}, "'more'"),
    ],
)
def test_wrong_settings_are_named(site: FolderSite, change: dict[str, object], words: str) -> None:
    whole = site.settings.read_text()
    site.settings.write_text(json.dumps(json.loads(whole) | change))
    site.tell("wrong", TEAM)
    try:
        refused = site.call("wrong", "make")
    finally:
        site.settings.write_text(whole)
    assert refused.status == 3 and words in refused.err, refused
    assert not (site.projects / "wrong").exists()
