"""Why a session ended, in words."""

from __future__ import annotations

import time
import timeit
from typing import Any

import pytest
from session_records import recorded

from portal.models.cluster.cluster import Job, JobState
from portal.models.session.session import SessionRecord, SessionState
from portal.sessions.ending import TITLES, Ending, explain, stop_words, title_of, words_for
from spawners.launch.resubmit import lost, reason_of

STEPD = (
    "slurmstepd: error: Exceeded job memory limit\n"
    "slurmstepd: error: *** JOB 9 ON gpu01 CANCELLED ***"
)
LOOP = (  # Apptainer 1.1
    "container creation failed: mount hook function failure: mount /proc/self/fd/3->"
    "/var/lib/apptainer/mnt/session/rootfs error: while mounting image /proc/self/fd/3: failed to "
    "find loop device: could not attach image file to loop device: failed to set loop flags on "
    "loop device: resource temporarily unavailable"
)
NODE = {"nodes": ("gpu01",)}


@pytest.mark.parametrize(
    ("job", "log", "code", "words"),
    [
        ({"state": "TIMEOUT", "time_limit": 3600}, "", "walltime", "time limit of 1 h"),
        ({"state": "DEADLINE"}, "", "walltime", "deadline"),
        (
            {"state": "OUT_OF_MEMORY", "memory": 100, "peak_memory": 812},
            "",
            "out_of_memory",
            "Requested: 100 MB. Peak: 812 MB",
        ),
        (
            {"state": "OUT_OF_MEMORY", "memory": 4096, "peak_memory": 3900},
            "",
            "out_of_memory",
            "Requested: 4.0 GB. Highest value sampled by Slurm: 3.8 GB",
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


@pytest.mark.parametrize(
    ("state", "reason", "ready", "code", "words"),
    [
        (
            "CANCELLED",
            "CancelledBy:root",
            False,
            "start_failed",
            "The session could not start on gpu01 (Prolog error), and Slurm took that node out of "
            "service. Launch again: Slurm chooses another node.",
        ),
        (
            "CANCELLED",
            "CancelledBy:root",
            True,
            "node_failure",
            "The job was cancelled in Slurm by root while its node was taken out of service: "
            "gpu01 (Prolog error). Your files are safe: launch again.",
        ),
        ("NODE_FAIL", "", True, "node_failure", "The node failed on gpu01 (Prolog error)."),
        ("LAUNCH_FAILED", "", False, "start_failed", "launch the job on gpu01 (Prolog error)"),
    ],
)
def test_what_slurm_says_of_the_node_is_in_the_sentence(
    state: str, reason: str, ready: bool, code: str, words: str
) -> None:
    job = Job(id="9", state=state, reason=reason, **NODE, node_trouble="gpu01 (Prolog error)")
    ending = explain(job, "", ready=ready)
    assert ending.code == code and words in ending.message
    assert "administrator" not in ending.message
    assert explain(job, "", stopped=True).code in ("stopped", "node_failure")


def test_every_ended_state_has_a_sentence() -> None:
    for state in JobState:
        if state.ended:
            ending = explain(Job(id="1", state=state, exit_code=1), "")
            assert ending.message.endswith("."), state
            assert ending.code in TITLES


NOON = time.mktime((2026, 11, 28, 12, 0, 0, 0, 0, -1))


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (
            {"code": "stopped", "by": "ada", "message": "You stopped the session."},
            "You stopped this session at 12:00.",
        ),
        (
            {
                "code": "stopped",
                "by": "root",
                "message": stop_words("root", "ada", "ada", "session", "gpu01 is repaired."),
            },
            "An administrator (root) stopped this session at 12:00: gpu01 is repaired.",
        ),
        (
            {"code": "stopped", "message": "The session was stopped from the portal."},
            "This session was stopped from the portal at 12:00.",
        ),
        (
            {"code": "walltime", "message": "The session reached its time limit of 1 h."},
            "Ended at 12:00. The session reached its time limit of 1 h.",
        ),
        (
            {"code": "idle", "by": "portal", "message": "The session was idle."},
            "Ended at 12:00. The session was idle.",
        ),
    ],
)
def test_a_page_says_when_too(ending: dict[str, str], words: str) -> None:
    dated = Ending(**ending, at=NOON)
    assert dated.dated_words("ada", "session", NOON + 60) == words
    later = dated.dated_words("ada", "session", NOON + 86400)
    assert later == words.replace("at 12:00", "on 28 Nov, 12:00")
    # An earlier portal stored no time.
    undated = Ending(**ending).dated_words("ada", "session", NOON)
    assert undated == ending["message"]


def test_stopped_on_request_is_told_from_scancel() -> None:
    job = Job(id="1", state=JobState.CANCELLED)
    assert explain(job, "", stopped=True).code == "stopped"
    assert explain(job, "").code == "cancelled"


def test_a_server_that_never_answered_could_not_start() -> None:
    job = Job(id="1", state=JobState.FAILED, exit_code=127)
    ending = explain(job, "session.sh: python3: not found", ready=False)
    assert (ending.code, ending.log) == ("start_failed", "session.sh: python3: not found")
    assert "could not start" in ending.message


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (
            "/var/spool/job/slurm_script: line 98: /opt/x/bin/python3: No such file or directory",
            "The program is not on this node: /opt/x/bin/python3.",
        ),
        (
            "x: line 98: /opt/x/python3: Permission denied",
            "The program is not executable: /opt/x/p",
        ),
        ("/opt/x/python3: No module named portal_session", "lacks the Python package 'portal_s"),
        (
            "Error while finding module specification for 'portal_session.job_kernels.starter' "
            "(ModuleNotFoundError: No module named 'portal_session.job_kernels')",
            "portal-session is too old for kernels in jobs of their own",
        ),
        ("The module 'cuda/99' could not be loaded.", "The module 'cuda/99' could not be loaded."),
        ("a\nThe modules could not be loaded: a b", "The modules could not be loaded: a b."),
        ("FATAL:   could not open image /x.sif: no such file", "Apptainer says: could not open im"),
        ("OSError: [Errno 28] No space left on device", "A file system is full (No space left"),
        ("OSError: [Errno 122] Disk quota exceeded: '/home'", "is full (Disk quota exceeded)"),
        (f"FATAL: {LOOP}", f"Apptainer says: {LOOP}."),  # whole: the cause stands last
        (
            f"FATAL: container creation failed: {'while x: ' * 90}no loop device is free",
            "Apptainer says: container creation failed: …: while x: while x: while x: ",
        ),
        (f"FATAL: {'a: ' * 300}no loop device is free", "a: a: no loop device is free."),
        (f"FATAL: {'words ' * 120}", "words words…."),
        (
            "The portal's folder is no folder: /home/ada/.portal -> /scratch/gone",
            "is a broken link or no folder (/home/ada/.portal -> /scratch/gone). Remove or rename",
        ),
        ("all is well", "exited with code 1 on gpu01."),
    ],
)
def test_a_start_that_failed_names_its_cause(log: str, cause: str) -> None:
    job = Job(id="1", state=JobState.FAILED, exit_code=1, nodes=("gpu01",))
    message = explain(job, f"first\n{log}\nlast", ready=False).message
    assert cause in message
    assert message.startswith(
        "The session could not start: its server exited with code 1 on gpu01."
    )


@pytest.mark.parametrize("line", [": line 1: /", "memory limit ", "FATAL: ", "\x85"])
def test_a_log_that_is_made_for_it_takes_no_time(line: str) -> None:
    """Half a second of one page would be the whole Hub's."""
    job = Job(id="1", state=JobState.FAILED, exit_code=1)
    log = line * (16_384 // len(line))
    assert min(timeit.repeat(lambda: explain(job, log, ready=False), number=1, repeat=3)) < 0.05


def a_record(code: str, by: str, message: str = "As it was recorded.") -> SessionRecord:
    return recorded(
        id="s",
        user="ada",
        account="alovelace",
        submitted_at=1,
        state=SessionState.ENDED,
        ending_code=code,
        ending_message=message,
        stopped_by=by,
    )


@pytest.mark.parametrize(
    ("code", "by", "viewer", "words"),
    [
        ("stopped", "ada", "ada", "You stopped the session."),
        ("stopped", "ada", "grace", "ada stopped the session."),
        ("stopped", "grace", "ada", "An administrator (grace) stopped the session."),
        ("stopped", "grace", "grace", "You stopped the session."),
        ("stopped", "grace", "hopper", "An administrator (grace) stopped the session."),
        ("stopped", "", "ada", "The session was stopped from the portal."),
        ("cancelled", "alovelace", "ada", "The job was cancelled in Slurm (scancel) by you."),
        (
            "cancelled",
            "alovelace",
            "grace",
            "The job was cancelled in Slurm (scancel) by alovelace.",
        ),
        ("cancelled", "root", "ada", "in Slurm (scancel) by an administrator (root)."),
        ("cancelled", "", "ada", "As it was recorded."),
        ("walltime", "", "ada", "As it was recorded."),
        ("walltime", "grace", "ada", "As it was recorded."),
    ],
)
def test_who_ended_it_is_said_to_whoever_looks(code: str, by: str, viewer: str, words: str) -> None:
    assert words_for(a_record(code, by), viewer).endswith(words)


def test_the_message_is_for_the_owner() -> None:
    job = Job(id="1", state=JobState.CANCELLED, user="ada")
    mine = explain(job, "", stopped=True, stopped_by="ada", owner="ada")
    assert (mine.message, mine.by) == ("You stopped the session.", "ada")
    admins = explain(job, "", stopped=True, stopped_by="grace", owner="ada")
    assert (admins.message, admins.by) == ("An administrator (grace) stopped the session.", "grace")
    nobodys = explain(job, "", stopped=True, owner="ada")
    assert (nobodys.message, nobodys.by) == ("The session was stopped from the portal.", "")
    cancelled = job.model_copy(update={"reason": "CancelledBy:root"})
    by_root = explain(cancelled, "", owner="ada")
    assert by_root.message.endswith("by an administrator (root).") and by_root.by == "root"
    assert explain(job, "", owner="ada").message == "The job was cancelled in Slurm (scancel)."


def refused(**more: Any) -> Job:
    """A job as Slurm has one whose number its node had just ended (slurmd's req.c)."""
    values = {
        "state": JobState.CANCELLED,
        "nodes": ("gpu01",),
        "start_time": 100.0,
        "end_time": 101.0,
        "reason": "CancelledBy:root",
    }
    return Job(id="7", user="ada", **{**values, **more})


def test_a_job_that_its_node_refused_was_cancelled_by_nobody() -> None:
    ending = explain(refused(), "", ready=False, owner="ada")
    assert (ending.code, ending.by) == ("start_failed", "")
    assert ending.message == (
        "The session could not start. gpu01 refused job 7: it had just ended a job with the same "
        "number, which Slurm had lost. Launch again."
    )
    assert lost(refused(), "") and reason_of(refused()) == "Its node did not start job 7"


@pytest.mark.parametrize(
    ("job", "log"),
    [
        (refused(), "Job 7 runs on gpu01."),
        (refused(end_time=200.0), ""),
        (refused(reason="CancelledBy:ada"), ""),
        (refused(nodes=()), ""),
    ],
    ids=["began", "later", "by its user", "waited"],
)
def test_other_cancellations_are_somebodys(job: Job, log: str) -> None:
    assert explain(job, log, ready=False, owner="ada").code == "cancelled" and not lost(job, log)


def test_a_run_is_called_a_run_and_has_its_numbers_for_a_title() -> None:
    run = a_record("failed", "", "The run has ended: 5 of 6 points succeeded, 1 failed.")
    run = run.model_copy(update={"options": {"run": {"id": "5e2f3c1a"}}, "work": "run"})
    assert title_of(run) == "5 of 6 succeeded"
    stopped = run.model_copy(
        update={"ending_code": "stopped", "ending_message": "", "stopped_by": "ada"}
    )
    assert title_of(stopped) == "Stopped"
    assert words_for(stopped, "ada") == "You stopped the run."
    assert words_for(stopped.model_copy(update={"stopped_by": ""}), "ada") == (
        "The run was stopped from the portal."
    )
    session = run.model_copy(update={"options": {}, "work": "jupyterlab"})
    assert title_of(session) == "Failed"
    session = stopped.model_copy(update={"options": {}, "work": "jupyterlab"})
    assert words_for(session, "ada") == "You stopped the session."
