"""A stolen Hub account, and members of a project, call the program for folders as root."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import a_home
from project_folder_site import (
    PEOPLE,
    FolderSite,
    as_person,
    folder_site,
    needs_namespace,
    tree_hash,
)

pytestmark = needs_namespace

TEAM = {"ada": "owner", "grace": "member", "barbara": "reader"}
ACTIONS = ("make", "repair-list", "repair", "archive", "restore", "probe")
HUB = 6100


@pytest.fixture(scope="module")
def site() -> Iterator[FolderSite]:
    with a_home() as place, folder_site(place) as made:
        yield made


@pytest.fixture(scope="module")
def outside(site: FolderSite) -> Path:
    """Folders of root, a stranger and a member, to which links and names lead."""
    place = site.home.demo / "outside"
    place.mkdir()
    for name, uid in (("root", 0), ("stranger", PEOPLE["student01"]), ("grace", PEOPLE["grace"])):
        folder = place / name
        folder.mkdir()
        (folder / "secret").write_text(name)
        for path in (folder / "secret", folder):
            path.chmod(0o700)
            os.chown(path, uid, uid)
    return place


def names() -> list[str]:
    """Return names that are no project's."""
    fixed = [
        *("", ".", "..", "../x", "/", "/etc", "a/b", "a/../b", "-", "-a", "a-", "a--b", "A", "ä"),
        *("a\n", "\na", "a\x1b[31m", "a\u202eb", "a\udcff", "a;id", "$(id)", "`id`", "a|b", "*"),
        *("~", "~root", "a" * 21, "a" * 100_000, "--help", "-h", "%s", "{0}", "٣", ".probe"),
        *("a.json", "a.", "a\t", " a", "a ", "\\", "'", '"', "\uff41", "a_b", "a\x7f"),
    ]  # fmt: skip
    drawn, characters = random.Random(35), "ab01-./~$;\n\x1b\udcff ä_"
    more = ["".join(drawn.choices(characters, k=drawn.randint(1, 24))) for _ in range(700)]
    allowed = set("abcdefghijklmnopqrstuvwxyz0123456789-")
    wrong = [name for name in more if set(name) - allowed or name.strip("-") != name]
    return fixed + wrong


def test_arguments(site: FolderSite) -> None:
    """1,000 calls of the program, each in a process of its own."""
    site.make("alpha", **TEAM)
    before, states = tree_hash(site.projects), tree_hash(site.states)
    drawn, calls = random.Random(1), 0
    wrong = names()
    for name in wrong:
        called = site.call(name, drawn.choice(ACTIONS))
        assert (called.status, called.out) == (2, "") and called.err.startswith("Usage"), name
        calls += 1
    for action in ("", "Make", "make ", "make\n", "-make", "rm", "quota", "repair-list\0", *wrong):
        called = site.call("alpha", action)
        assert (called.status, called.out) == (2, ""), action
        calls += 1
    for argv in ((), ("alpha",), ("alpha", "make", ""), ("alpha", "make", "/etc"), ("make",)):
        assert site.call(*argv).status == 2
        calls += 1
    assert calls >= 1000
    assert (tree_hash(site.projects), tree_hash(site.states)) == (before, states)


def test_the_rule_allows_two_arguments_and_no_variable(site: FolderSite) -> None:
    site.make("beta", **TEAM)
    before = tree_hash(site.projects)
    helper, sudo = str(site.helper), ("sudo", "-n")
    for words in (
        (helper,), (helper, "beta"), (helper, "beta", "make", "x"), (helper, "beta make"),
        (helper, "../x", "make"), (helper, "beta", "remove"), (helper, "Beta", "make"),
        (helper, "beta", "make\n"), (helper, "beta\n", "make"), ("/usr/bin/python3", helper),
        ("/bin/sh",), ("-u", "ada", helper, "beta", "make"), ("-E", helper, "beta", "make"),
        ("PATH=/tmp", helper, "beta", "make"), ("LD_PRELOAD=/x.so", helper, "beta", "make"),
        (str(site.helper.parent / ".." / "sbin" / "other"), "beta", "make"),
    ):  # fmt: skip
        called = site.call(*words, program=sudo, uid=HUB)
        assert called.status != 0 and called.out == "", words
        # sudo joins arguments with blanks before it compares them; the program sees that it is one.
        refused_by = "Usage:" if words == (helper, "beta make") else "sudo:"
        assert called.err.startswith(refused_by), (words, called.err)
    for name in PEOPLE:  # nobody else may call it
        called = site.call(helper, "beta", "make", program=sudo, uid=PEOPLE[name])
        assert called.status != 0, name
        # Without sudo it is a program like others.
        assert site.call("beta", "make", program=(helper,), uid=PEOPLE[name]).status == 3
    planted = site.home.scratch / "planted"
    planted.mkdir(exist_ok=True)
    mark = planted / "ran"
    code = f"open({str(mark)!r}, 'w')"
    for module in ("json", "pwd", "sitecustomize", "usercustomize", "contextlib"):
        (planted / f"{module}.py").write_text(code)
    variables = {
        **{name: str(planted) for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "HOME")},
        "PYTHONSTARTUP": str(planted / "json.py"), "PYTHONINSPECT": "1", "PYTHONWARNINGS": "error",
        "PORTAL_ANYTHING": str(planted), "APPTAINERENV_X": "1", "LD_LIBRARY_PATH": str(planted),
        "LC_ALL": "C", "BASH_ENV": str(planted / "json.py"), "TMPDIR": str(planted),
    }  # fmt: skip
    called = site.call(helper, "beta", "make", program=sudo, uid=HUB, env=variables)
    assert called.answer["changed"] == []
    assert not mark.exists()
    assert tree_hash(site.projects) == before


def test_the_rule_of_an_older_sudo(site: FolderSite) -> None:
    """Without regular expressions: it allows all actions, and no other program."""
    site.make("older", **TEAM)
    rule = Path(f"/proc/{site.pid}/root/etc/sudoers.d/portal-project-folder")
    text = rule.read_text()
    (older,) = re.findall(r"by itself:  (.+)", text)
    (regular,) = re.findall(r"portal-project-folder (\^.+)", text)
    rule.write_text(text.replace(regular, older))
    helper, sudo = str(site.helper), ("sudo", "-n")
    try:
        statuses = {action: site.call(helper, "older", action, program=sudo, uid=HUB).status
                    for action in ACTIONS}  # fmt: skip
        wide = site.call(helper, "older", "make", "x", program=sudo, uid=HUB)
        other = site.call("/bin/sh", program=sudo, uid=HUB)
    finally:
        rule.write_text(text)
    assert statuses == dict.fromkeys(ACTIONS, 0)
    assert wide.status == 2 and wide.err.startswith("Usage")
    assert other.status == 1


def rows() -> list[str]:
    """Return hostile files of members for the project "gamma"."""
    texts = ["", "null", "[]", "7", '"x"', "{", "\x00", "\udcff", "[" * 100_000, "1" * 10_000, "{}"]
    bodies: list[object] = [None, [], "ada", 7, ["ada"], {"ada": None}, {"ada": ["owner"]}]
    bodies += [{"ada": role} for role in ("", "root", "Owner", "owner ", "rwx", 7, True, {"a": 1})]
    names = (
        *("root", "portal", "nobody", "daemon", "games", "bin", "mail"),
        *("../ada", "ada/..", "ada:grace", "ada,grace", "ada\n", "a b", "", "x" * 256, "ada\x00"),
    )
    bodies += [{"ada": "owner", name: "member"} for name in names]
    bodies += [{f"user{number}": "member" for number in range(401)}]
    texts += [json.dumps({"project": "gamma", "members": body}) for body in bodies]
    team = {"ada": "owner"}
    texts += [
        json.dumps(value)
        for value in (
            *({"project": name, "members": team} for name in ("alpha", "", None, "../gamma", 7)),
            {"members": team},
            {"project": "gamma", "members": team, "root": "/etc"},
            {"project": "gamma", "members": team, "state": "/"},
        )
    ]
    return [
        *texts,
        json.dumps({"project": "gamma", "members": {"x" * 200: "member"}}) + " " * (1 << 18),
    ]


def test_files_of_members(site: FolderSite) -> None:
    """What the Hub's account writes is refused as a whole, without a trace."""
    folder = site.make("gamma", **TEAM)
    assert as_person("ada", 'mkdir "$1/d"; echo 1 > "$1/d/file"', folder)
    before, states = tree_hash(site.projects), tree_hash(site.states)
    for text in rows():
        site.tell("gamma", text)
        for action in ("make", "archive"):
            called = site.call("gamma", action)
            assert called.status == 3 and called.err.count("\n") == 1, (text[:99], called)
            assert "Traceback" not in called.err and called.err.isascii()
    assert (tree_hash(site.projects), tree_hash(site.states)) == (before, states)


def test_services_in_a_file_of_members_get_no_rights(site: FolderSite) -> None:
    """Their numbers are those of people here: the group of users decides."""
    services = ("slurm", "munge", "portal-images", "mysql")
    folder = site.make("nu", **TEAM)
    before = tree_hash(folder)
    site.tell("nu", TEAM | dict.fromkeys(services, "owner"))
    assert sorted(site.call("nu", "make").answer["unknown"]) == sorted(services)
    assert tree_hash(folder) == before


def test_files_of_members_that_are_no_files(site: FolderSite, outside: Path) -> None:
    folder, file = site.make("delta", **TEAM), site.members / "delta.json"
    good = file.read_text()
    before = tree_hash(folder)
    secret = site.home.demo / "root-only.json"
    secret.write_text(good)
    secret.chmod(0o600)

    def linked() -> None:
        file.symlink_to(secret)

    def hard_linked() -> None:
        os.link(secret, file)

    def fifo() -> None:
        os.mkfifo(file)
        os.chown(file, HUB, HUB)

    def bound() -> None:
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as made:
            made.bind(str(file))

    def open_to_all() -> None:
        file.write_text(good)
        os.chown(file, HUB, HUB)
        file.chmod(0o666)

    def a_strangers() -> None:
        file.write_text(good)
        os.chown(file, PEOPLE["student01"], HUB)

    for plant in (linked, hard_linked, fifo, bound, open_to_all, a_strangers, file.mkdir):
        file.unlink()
        plant()
        called = site.call("delta", "archive")
        assert called.status == 3 and "root-only" not in called.out + called.err, plant
        assert good not in called.err
    file.rmdir()
    site.members.rename(site.members.with_name("kept"))
    try:
        site.members.symlink_to(site.members.with_name("kept"))
        assert "symbolic link" in site.call("delta", "archive").err
        site.members.unlink()
    finally:
        site.members.with_name("kept").rename(site.members)
    assert tree_hash(folder) == before


def test_links_and_other_things_in_the_folder(site: FolderSite, outside: Path) -> None:
    """Members plant what leads out; what is not theirs is told, and stays as it is."""
    folder = site.make("epsilon", **TEAM)
    words = """
        cd "$1"; mkdir real; echo 1 > real/file
        ln -s "$2/root" folder; ln -s "$2/root/secret" file; ln -s /etc/shadow shadow
        ln -s "$2/grace" graces; ln -s "$2/grace/secret" hers
        ln -s . self; ln -s real/../.. up; mkfifo pipe; ln -s real alias; ln -s /proc/self/fd/3 fd
        echo 1 > program; chmod 4755 program; echo 1 > twice; ln twice twice-too
        i=0; while [ $i -lt 250 ]; do mkdir deep; cd deep; i=$((i+1)); done; echo 1 > bottom
    """
    assert as_person("ada", words, folder, outside)
    # As root on a system without fs.protected_hardlinks, and in a folder that others may write.
    os.link(outside / "root" / "secret", folder / "hard")
    os.link(outside / "stranger" / "secret", folder / "hard-stranger")
    (outside / "moved").write_text("a stranger's, in one name")
    os.chown(outside / "moved", PEOPLE["student01"], 0)
    (outside / "moved").chmod(0o600)
    (outside / "moved").rename(folder / "moved")
    (folder / "real" / "null").mkdir()
    os.chown(folder / "real" / "null", 0, 0)

    def seen(name: str) -> object:
        path, kinds = folder / name, ("system.posix_acl_access", "system.posix_acl_default")
        there = os.listxattr(path)
        status = path.lstat()
        rights = status.st_mode, status.st_uid, status.st_gid, status.st_ctime_ns
        return rights, [os.getxattr(path, kind) for kind in kinds if kind in there]

    strangers = {
        name: seen(name)
        for name in ("hard", "hard-stranger", "moved", "real/null", "program", "twice", "pipe")
    }
    elsewhere = tree_hash(outside)
    site.tell("epsilon", {"ada": "owner", "grace": "member"})
    for action in ("make", "repair-list", "repair", "archive", "restore", "repair-list", "repair"):
        answer = site.call("epsilon", action).answer
        refused = {row.rpartition(": ")[0] for row in answer["refused"]}
        assert refused >= {"hard", "hard-stranger", "moved", "real/null", "program", "twice"}
        assert any(path.startswith("deep/deep") for path in refused)
    assert {name: seen(name) for name in strangers} == strangers
    assert tree_hash(outside) == elsewhere
    shutil.rmtree(folder / "deep")


def test_a_mount_in_the_way(site: FolderSite, outside: Path) -> None:
    folder = site.make("zeta", **TEAM)
    assert as_person("ada", 'mkdir "$1/inner"; echo 1 > "$1/single"', folder)
    theirs = site.home.demo / "adas"
    theirs.mkdir()
    (theirs / "note").write_text("private")
    for path in (theirs / "note", theirs):
        path.chmod(0o700)
        os.chown(path, PEOPLE["ada"], PEOPLE["ada"])
    inside = ("nsenter", f"--mount=/proc/{site.pid}/ns/mnt")
    before = tree_hash(theirs)
    mounts = ((theirs, folder / "inner"), (theirs / "note", folder / "single"))
    for source, target in mounts:  # of the same device, owned by a member
        subprocess.run([*inside, "mount", "--bind", source, target], check=True)
    try:
        refused = site.call("zeta", "archive").answer["refused"]
        site.call("zeta", "restore")
    finally:
        for _, target in mounts:
            subprocess.run([*inside, "umount", target], check=True)
    assert sorted(refused) == [
        "inner: something is mounted on it", "single: something is mounted on it"
    ]  # fmt: skip
    assert tree_hash(theirs) == before


_SWAP = """
import ctypes, os, sys
rename, exchange = ctypes.CDLL(None).renameat2, 2
os.chdir(sys.argv[1])
while True:
    for a, b in ((b"real", b"link"), (b"file", b"out"), (b"real/in", b"real/there")):
        rename(-100, a, -100, b, exchange)
"""


def test_races_that_swap_a_folder_for_a_link(site: FolderSite, outside: Path) -> None:
    """renameat2(2) exchanges two names at once, some hundred thousand times a second."""
    folder = site.make("eta", **TEAM)
    words = """
        cd "$1"; mkdir real; ln -s "$2/grace" link; echo 1 > file; ln -s "$2/grace/secret" out
        mkdir real/in; ln -s "$2/root" real/there
        for n in 1 2 3 4 5 6 7 8 9; do echo 1 > real/in/$n; done
    """
    assert as_person("ada", words, folder, outside)
    elsewhere = tree_hash(outside)
    uid = PEOPLE["ada"]
    with subprocess.Popen(
        [sys.executable, "-c", _SWAP, str(folder)], user=uid, group=uid, extra_groups=[]
    ) as swapper:
        try:
            end = time.monotonic() + 5
            changed, calls = 0, 0
            while time.monotonic() < end or calls < 50:
                for action in ("archive", "restore"):
                    called = site.call("eta", action)
                    assert called.status == 0, called
                    changed += called.answer["changed_count"]
                    calls += 1
        finally:
            swapper.send_signal(signal.SIGKILL)
    assert changed > calls  # it did its work meanwhile
    assert tree_hash(outside) == elsewhere


def test_a_link_in_place_of_the_projects_folder(site: FolderSite, outside: Path) -> None:
    """Even root's own link: names are never followed."""
    before = tree_hash(outside)
    for name, target in (("theta", outside / "root"), ("iota", Path())):
        (site.projects / name).symlink_to(target)
        site.tell(name, TEAM)
        for action in ACTIONS[:-1]:
            assert site.call(name, action).status == 3
        (site.projects / name).unlink()
    (site.projects / "kappa").write_text("a file")
    site.tell("kappa", TEAM)
    assert site.call("kappa", "make").status == 3
    (site.projects / "kappa").unlink()
    assert tree_hash(outside) == before
