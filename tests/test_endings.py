"""Why a session ended, in words, and logs as text."""

from __future__ import annotations

import os
import timeit
from pathlib import Path

import pytest

from portal.models.cluster import Job, JobState
from portal.sessions.ending import explain
from portal.sessions.log import clean, tail

STEPD = (
    "slurmstepd: error: Exceeded job memory limit\n"
    "slurmstepd: error: *** JOB 9 ON gpu01 CANCELLED ***"
)
NODE = {"nodes": ("gpu01",)}


@pytest.mark.parametrize(
    ("job", "log", "code", "words"),
    [
        ({"state": "TIMEOUT", "time_limit": 3600}, "", "walltime", "time limit of 1:00:00"),
        ({"state": "DEADLINE"}, "", "walltime", "deadline"),
        (
            {"state": "OUT_OF_MEMORY", "memory": 100, "peak_memory": 812},
            "",
            "out_of_memory",
            "asked for 100 MB. Its peak was 812 MB",
        ),
        ({"state": "FAILED", "exit_code": 1}, STEPD, "out_of_memory", "more memory"),
        (
            {"state": "FAILED", "exit_code": 0, "exit_signal": 9},
            "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=9.batch.",
            "out_of_memory",
            "more memory",
        ),
        ({"state": "NODE_FAIL", **NODE}, "", "node_failure", "failed on gpu01"),
        ({"state": "PREEMPTED"}, "", "preempted", "higher priority"),
        ({"state": "CANCELLED"}, "", "cancelled", "scancel"),
        ({"state": "COMPLETED", "exit_code": 0}, "", "completed", "from inside"),
        ({"state": "FAILED", "exit_code": 3, **NODE}, "", "failed", "code 3 on gpu01"),
        ({"state": "LAUNCH_FAILED", **NODE}, "", "failed", "could not launch"),
    ],
)
def test_ending_in_words(job: dict[str, object], log: str, code: str, words: str) -> None:
    ending = explain(Job(id="9", **job), log)  # type: ignore[arg-type]
    assert (ending.code, ending.job_id) == (code, "9")
    assert words in ending.message


def test_every_ended_state_has_a_sentence() -> None:
    for state in JobState:
        if state.ended:
            ending = explain(Job(id="1", state=state, exit_code=1), "")
            assert ending.message.endswith("."), state


def test_stopped_on_request_is_told_from_scancel() -> None:
    job = Job(id="1", state=JobState.CANCELLED)
    assert explain(job, "", stopped=True).code == "stopped"
    assert explain(job, "").code == "cancelled"


def test_a_server_that_never_answered_could_not_start() -> None:
    job = Job(id="1", state=JobState.FAILED, exit_code=127)
    ending = explain(job, "session.sh: python3: not found", ready=False)
    assert (ending.code, ending.log) == ("start_failed", "session.sh: python3: not found")
    assert "could not start" in ending.message


def test_a_log_is_shown_as_text() -> None:
    dirty = "\x1b[31mred\x1b[0m \x1b]0;title\x07<b>\x00\x9b\ra\tb\r\nc"
    assert clean(dirty) == "red <b>\na\tb\nc"


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"line %d\n" % n for n in range(9999)) + b"\xff\xfe end")
    lines = tail(log, 3).splitlines()
    assert lines == ["line 9997", "line 9998", "\N{REPLACEMENT CHARACTER}" * 2 + " end"]
    assert tail(tmp_path / "missing") == ""


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/etc/hostname")
    assert tail(link) == ""


def test_a_fifo_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert tail(tmp_path / "fifo") == ""


def test_a_log_of_escapes_is_cleaned_in_linear_time() -> None:
    """Half a second of one page would be the whole Hub's: re holds the interpreter's lock."""
    short, long = (
        min(timeit.repeat(lambda n=n: clean("\x1b]" * n), number=1)) for n in (1000, 8000)
    )
    assert long < short * 8 * 4 + 0.05
