"""Logs of jobs, written to by others than the job, forged, and cut while they are followed."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal import acl
from portal.catalog.builds.job_monitor import Follower, log_text
from portal.images.log_protocol import MARK, read_events
from portal.models.catalog.image_job import Event, Work
from portal.slurm.jobs.job_log import make_log, read_log

NONCE = "5f" * 16
JOB, OTHERS = "daemon", ("bin", "sys", "nobody")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several people")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of logs as a site has it, which everybody can enter and nobody list."""
    with tempfile.TemporaryDirectory(prefix="portal-logs-", dir="/var/tmp") as name:
        Path(name).chmod(0o711)
        yield Path(name)


def tried(account: str, code: str, path: Path) -> str:
    """Return what ``code`` printed as ``account``, whose groups are its own; PATH is the log's."""
    known = pwd.getpwnam(account)
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import os\nPATH = {str(path)!r}\n{code}"],
        user=known.pw_uid,
        group=known.pw_gid,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


HOSTILE = {
    "append": "os.write(os.open(PATH, os.O_WRONLY | os.O_APPEND), b'forged'); print('done')",
    "write": "os.write(os.open(PATH, os.O_WRONLY), b'forged'); print('done')",
    "cut": "os.truncate(PATH, 0); print('done')",
    "open and cut": "os.open(PATH, os.O_WRONLY | os.O_TRUNC); print('done')",
    "read": "print(open(PATH).read() or 'done')",
    "both": "os.open(PATH, os.O_RDWR); print('done')",
    "mode": "os.chmod(PATH, 0o666); print('done')",
    "list": "os.removexattr(PATH, 'system.posix_acl_access'); print('done')",
    "remove": "os.unlink(PATH); print('done')",
    "replace": "os.rename(PATH, PATH + '.old'); print('done')",
    "link": "os.symlink('/etc/passwd', PATH + '.link'); print('done')",
    "look around": "print(os.listdir(os.path.dirname(PATH)))",
}


@as_root
@pytest.mark.parametrize("account", OTHERS)
@pytest.mark.parametrize("what", HOSTILE)
def test_nobody_else_does_anything_to_it(folder: Path, account: str, what: str) -> None:
    path = folder / make_log(str(folder), "session", JOB)
    path.write_text("the job's own\n")
    assert "PermissionError" in tried(account, HOSTILE[what], path)
    assert path.read_text() == "the job's own\n"


@as_root
@pytest.mark.parametrize(
    "what", ["read", "both", "mode", "list", "remove", "replace", "look around"]
)
def test_the_job_itself_writes_and_no_more(folder: Path, what: str) -> None:
    path = folder / make_log(str(folder), "session", JOB)
    assert tried(JOB, HOSTILE["append"], path) == "done"
    assert "PermissionError" in tried(JOB, HOSTILE[what], path)
    assert path.read_text() == "forged"


@as_root
def test_of_an_account_that_nobody_knows_it_is_open_as_before(folder: Path) -> None:
    path = folder / make_log(str(folder), "session", "nobody-has-this-name")
    assert path.stat().st_mode & 0o777 == 0o622


@as_root
def test_without_acls_it_is_open_as_before(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*_: object) -> None:
        raise acl.NoAcls

    monkeypatch.setattr(acl, "give", lacking)
    path = folder / make_log(str(folder), "session", JOB)
    assert path.stat().st_mode & 0o777 == 0o622


def line(nonce: str = NONCE, **fields: object) -> str:
    return f"{MARK} {nonce} {json.dumps({'step': 'start', 'at': 1.0, **fields})}\n"


PASSED = {"step": "done", "at": 1.0, "result": {"passed": True}}
FORGED = [
    line("", **PASSED),
    line(NONCE[:-1], **PASSED),
    line(NONCE + "0", **PASSED),
    line(NONCE.upper(), **PASSED),
    line(NONCE[::-1], **PASSED),
    line("0" * 32, **PASSED),
    f"{MARK}{NONCE} {json.dumps(PASSED)}\n",
    f"{MARK.lower()} {NONCE} {json.dumps(PASSED)}\n",
    f"{MARK}\t{NONCE} {json.dumps(PASSED)}\n",
    f"{MARK}  {NONCE} {json.dumps(PASSED)}\n",
    f"{MARK} {NONCE}\n{json.dumps(PASSED)}\n",
    f"{MARK} {NONCE} {json.dumps(PASSED)[:-1]}\n",
    f"{MARK} {NONCE} [{json.dumps(PASSED)}]\n",
    f"{MARK} {NONCE} {json.dumps(PASSED)} {json.dumps(PASSED)}\n",
    f"{MARK} {NONCE} null\n",
    f"{MARK} {NONCE} \n",
    f"{json.dumps(PASSED)}\n",
    "passed\n",
]


@pytest.mark.parametrize("text", FORGED)
@pytest.mark.parametrize("before", ["", "plain\n", "half a line "])
def test_a_line_that_is_not_the_jobs_own_says_nothing(
    tmp_path: Path, text: str, before: str
) -> None:
    path = tmp_path / "log"
    path.write_text(before + text)
    follower = Follower(path, NONCE, Work.TEST)
    follower.read()
    assert follower.final is None and follower.last is None
    assert not read_events(text, NONCE)[0]


@pytest.mark.parametrize("kept", range(0, 60, 7))
@pytest.mark.parametrize("newline", [True, False])
def test_a_torn_line_is_not_taken(tmp_path: Path, kept: int, newline: bool) -> None:
    path, whole = tmp_path / "log", line(step="done", result={"passed": True})
    path.write_text(whole[:kept] + ("\n" if newline else ""))
    follower = Follower(path, NONCE, Work.TEST)
    follower.read()
    assert follower.final is None


@pytest.mark.parametrize("plain", [0, 1, 5, 1000, 70_000])
@pytest.mark.parametrize("cut", [0, 1, 4])
def test_a_log_that_was_cut_is_read_from_its_beginning(
    tmp_path: Path, plain: int, cut: int
) -> None:
    path = tmp_path / "log"
    path.write_text("x\n" * plain + line(step="image"))
    follower = Follower(path, NONCE, Work.TEST)
    follower.read()
    assert follower.last == Event(step="image", at=1.0)
    path.write_text("y\n" * min(cut, plain) + line(step="done", error="It did not start."))
    if path.stat().st_size >= follower.size:
        path.write_text(line(step="done", error="No."))
    follower.read()
    assert follower.final is not None and follower.final.error


def test_it_is_followed_although_it_is_cut_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    follower = Follower(path, NONCE, Work.TEST)
    for number in range(50):
        path.write_text("noise\n" * (100 - number))
        follower.read()
        assert follower.final is None
    path.write_text(line(step="done", error="Over."))
    follower.read()
    assert follower.final is not None


@pytest.mark.parametrize("offset", [10, 5000, 2**31, 2**62])
def test_a_page_reads_a_log_that_was_cut_from_its_beginning(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "log"
    path.write_text("a\nb\n")
    assert log_text(path, NONCE, offset) == ("a\nb\n", 4)
    assert log_text(path, NONCE, 4) == ("", 4)


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "gone"])
def test_what_stands_in_its_place_is_not_read(tmp_path: Path, kind: str) -> None:
    path, other = tmp_path / "log", tmp_path / "other"
    other.write_text(line(step="done", result={"passed": True}))
    if kind == "link":
        path.symlink_to(other)
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    assert read_log(path, 0, 100) == (b"", 0)
    follower = Follower(path, NONCE, Work.TEST)
    follower.read()
    assert follower.final is None


@as_root
def test_anothers_file_in_its_place_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(line(step="done", result={"passed": True}))
    os.chown(path, pwd.getpwnam(JOB).pw_uid, -1)
    assert read_log(path, 0, 100) == (b"", 0)
