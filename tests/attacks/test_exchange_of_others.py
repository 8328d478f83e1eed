"""A course's exchange, tried by accounts that are not in the course and know its path: it stands in
/proc/PID/mountinfo of every session, which everyone on the node may read."""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stored_courses import a_course, stored

from portal.acl import NoAcls, others_of, problem_of
from portal.courses.files.nbgrader_exchange import INSIDE, Exchanges, admit, expel, folder_of
from portal.errors import ConfigurationError
from portal.models.course.course import CourseMember, StoredCourse
from portal.models.space import Role
from portal.store import Store
from spawners.launch.course_exchange import exchange_of

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs commands as others")
MEMBER, STRANGER, LEFT = "daemon", "games", "bin"  # accounts that every Debian has
OF = {name: pwd.getpwnam(name).pw_uid for name in (MEMBER, STRANGER, LEFT)}
LOG = logging.getLogger("test")

# What is tried with the folder, and with what lies in it and is open to all, as nbgrader leaves it.
ATTEMPTS = (
    "ls {folder}",
    "ls {folder}/.",
    "ls {gate}",
    "cd {gate}",
    "touch {gate}/mine",
    "rm -r {gate}",
    "chmod 777 {gate}",
    "mv {gate} {gate}2",
    """python3 -c 'import os; os.removexattr("{gate}", "system.posix_acl_access")' """,
    """python3 -c 'import os; os.open("{gate}", os.O_RDONLY)' """,
    """python3 -c 'import os; os.open("{folder}", os.O_PATH | os.O_DIRECTORY)' """,
    "ls {folder}/../exchange",
    "ls -R {folder}",
    "find {folder} -name answer.txt | grep answer",
    "ls {inbound}",
    "ls {inbound}/..",
    "cd {inbound}",
    "stat {submission}",
    "cat {submission}",
    "head -c 1 {submission}",
    "cp {submission} /dev/null",
    "tar cf - {folder}/deep >/dev/null",
    "cat {folder}/./deep/../deep/inbound/one+ps1/answer.txt",
    "cat /proc/self/root{submission}",
    "cat {link}",
    "ls {link}/../..",
    "touch {folder}/mine",
    "touch {inbound}/mine",
    "touch {submission}",
    "echo forged >{submission}",
    "echo forged >>{submission}",
    "mkdir {folder}/outbound",
    "mkdir {inbound}/two+ps1",
    "rm {submission}",
    "rm -r {folder}/deep",
    "rmdir {folder}",
    "mv {submission} /var/tmp",
    "mv {folder} {folder}2",
    "ln {submission} /var/tmp/portal-taken",
    "ln -s /etc/passwd {inbound}/answer",
    "chmod 777 {folder}",
    "chmod 777 {submission}",
    "chown {number} {folder}",
    "setfacl -m u:{number}:rwx {folder}",
    "setfacl -b {folder}",
    "rm {directory}/deep",
    "touch {directory}/deep2",
    "ls {directory}",
    "mkdir {directory}/other",
    "ln -s /tmp {directory}/other",
)


class Place:
    """An exchange with a submission of MEMBER's in it."""

    def __init__(self, root: Path) -> None:
        self.directory = root / "exchange"
        self.gate = folder_of(self.directory, "deep")
        self.folder = self.gate / INSIDE
        self.inbound = self.folder / "deep/inbound"
        self.submission = self.inbound / "one+ps1/answer.txt"
        self.submission.parent.mkdir(parents=True)
        self.submission.write_text("forty-two")
        for path in (self.submission, *list(self.submission.parents)[:3]):
            path.chmod(0o777)
            os.chown(path, OF[MEMBER], -1)
        self.link = root / "link"
        self.link.symlink_to(self.submission)

    def told(self, attempt: str, account: str) -> subprocess.CompletedProcess[str]:
        """What a shell of this account says to an attempt."""
        words = attempt.format(number=OF[account], **vars(self))
        return subprocess.run(
            ["sh", "-c", words], capture_output=True, text=True, check=False, timeout=30, cwd="/",
            user=OF[account], group=pwd.getpwnam(account).pw_gid, extra_groups=[],
        )  # fmt: skip


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="portal-exchange-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        made = Place(Path(name))
        admit(made.gate, OF[MEMBER])
        admit(made.gate, OF[LEFT])
        expel(made.gate, [OF[LEFT]])
        yield made


@needs_root
@pytest.mark.parametrize("account", [STRANGER, LEFT])
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_stranger_who_knows_the_path_gets_nothing(
    place: Place, attempt: str, account: str
) -> None:
    said = place.told(attempt, account)
    assert said.returncode != 0, said.stdout
    assert "forty-two" not in said.stdout + said.stderr
    assert place.submission.read_text() == "forty-two"
    assert others_of(place.gate) == {OF[MEMBER]}
    assert not Path("/var/tmp/portal-taken").exists()


@needs_root
def test_a_member_works_there(place: Place) -> None:
    assert place.told("cat {submission}", MEMBER).stdout == "forty-two"
    said = place.told("mkdir {folder}/own && touch {folder}/own/file && rm -r {folder}/own", MEMBER)
    assert said.returncode == 0, said.stderr
    # Nor may a member let anybody else in, or do away with the folder.
    for attempt in ("chmod 777 {gate}", "touch {gate}/mine", "mv {folder} {gate}/a"):
        assert place.told(attempt, MEMBER).returncode != 0


@needs_root
def test_one_with_a_secret_name_is_closed_and_keeps_what_is_in_it(tmp_path: Path) -> None:
    """As the portal made them once: open to all who knew the name."""
    with tempfile.TemporaryDirectory(prefix="portal-exchange-", dir="/var/tmp") as name:
        root = Path(name)
        root.chmod(0o755)
        before = root / "exchange/deep.0123456789abcdef"
        (before / "deep/inbound").mkdir(parents=True)
        before.chmod(0o1777)
        made = Place(root)
        admit(made.gate, OF[MEMBER])
        assert (
            made.folder == root / "exchange/deep/exchange"
            and (made.folder / "deep/inbound").is_dir()
        )
        for path in (before, made.folder):
            again = f"cat {path}/deep/inbound/one+ps1/answer.txt"
            assert made.told(again, STRANGER).returncode != 0
            assert made.told(again, MEMBER).stdout == "forty-two"
        assert folder_of(root / "exchange", "deep") == made.gate


# -- the roster -----------------------------------------------------------------------------------


def course(name: str) -> StoredCourse:
    return stored(a_course(name, begins="2027-01-01", ends="2027-03-01"))


@needs_root
async def test_the_acl_follows_the_roster(store: Store, tmp_path: Path) -> None:
    people = (MEMBER, LEFT)
    roster = [CourseMember(course="deep", person=one, role=Role.STUDENT) for one in people]
    await store.courses.add_space(course("deep"), roster)
    directory = str(tmp_path / "exchange")
    folders = await asyncio.gather(*(exchange_of(directory, "deep", name) for name in people))
    other = await exchange_of(directory, "gone", MEMBER)  # a course that is not there any more
    deep = Path(folders[0]).parent
    keeper = Exchanges(store, directory, LOG)
    await keeper.run_due(0)
    assert others_of(deep) == {OF[MEMBER], OF[LEFT]}
    assert others_of(Path(other).parent) == frozenset()
    await store.members.remove("deep", [LEFT])
    await keeper.run_due(1)
    assert others_of(deep) == {OF[MEMBER]}


async def test_without_a_place_nothing_is_looked_at(store: Store, tmp_path: Path) -> None:
    await Exchanges(store, "", LOG).run_due(0)
    await Exchanges(store, str(tmp_path / "none"), LOG).run_due(0)


# -- file systems without ACLs --------------------------------------------------------------------


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", refused)


async def test_where_the_file_system_has_none_nothing_is_opened(
    without: None, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match="no POSIX ACLs"):
        await exchange_of(str(tmp_path / "exchange"), "deep", MEMBER)
    assert list((tmp_path / "exchange").iterdir()) == []
    with pytest.raises(NoAcls):
        folder_of(tmp_path / "exchange", "deep")
    assert "no POSIX ACLs" in problem_of(tmp_path)


def test_where_it_has_them_the_doctor_says_nothing(tmp_path: Path) -> None:
    assert problem_of(tmp_path) == ""
    assert list(tmp_path.iterdir()) == []
