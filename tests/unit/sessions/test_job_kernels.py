"""The state of a kernel in a job of its own, as its notebook's session is told."""

from __future__ import annotations

import time
from typing import Any

import pytest
from clusters import record

from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import Job, JobState
from portal.models.cluster.dashboard import JobItem
from portal.models.session.idle import IdleMode, IdleState
from portal.models.session.session import SessionRecord, SessionState
from portal.sessions.ending import explain
from portal.sessions.item import SessionContext, session_item
from portal.sessions.links import SessionLinks
from portal.work.kernel.kind import JobKernel
from portal.work.kernel.states import JobKernelPhase, state_of, submitting, unrecorded

ID = "5e2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
SERVER = "kernel-5e2f3c1a0b7d4c8e9a6f"
NOON = time.mktime((2026, 11, 21, 12, 0, 0, 0, 0, -1))
LAB = Environment(name="lab", title="Lab", kind="venv", path="/opt/lab")


def kernel(state: SessionState, **more: Any) -> SessionRecord:
    values: dict[str, Any] = {
        "server": SERVER,
        "state": state,
        "environment": "lab",
        "environment_title": "Kernel of Lab",
        "options": {"gpus": 1, "kernel": {"id": ID, "name": "python3"}},
        "log": "Traceback: no module named torch",
        "nodes": (),
    }
    return record("K1", "17", **{**values, **more})


def job(state: str = "PENDING", **more: Any) -> JobItem:
    return JobItem(id="17", state=state, words="waiting for resources", **more)


def test_while_it_waits_it_says_why_and_until_when() -> None:
    waiting = kernel(SessionState.PENDING)
    queued = job(position=3, expected_start=NOON + 600)
    state = state_of(ID, waiting, queued, NOON)
    assert state.state is JobKernelPhase.WAITING and (state.id, state.job_id) == (ID, "17")
    assert state.message == ("Job 17: waiting for resources: 3rd in the queue, expected 12:10.")
    assert (state.log, state.node) == ("", "")
    assert (state.position, state.expected_start) == (3, NOON + 600)
    assert state_of(ID, waiting, job(), NOON).message == "Job 17: waiting for resources."
    tomorrow = state_of(ID, waiting, job(expected_start=NOON + 86_400), NOON).message
    assert tomorrow == "Job 17: waiting for resources: expected 22 Nov, 12:00."
    assert state_of(ID, waiting, job(expected_start=NOON - 5), NOON).message.endswith("resources.")


def test_its_notebook_is_warned_of_idle_gpus() -> None:
    running, now = kernel(SessionState.RUNNING, nodes=("gpu01",)), NOON
    on = job("RUNNING", end_time=NOON + 7200)
    idle = IdleState(mode=IdleMode.ON, idle_since=NOON - 60, stops_at=NOON + 900)
    assert state_of(ID, running, on, now, idle) == state_of(ID, running, on, now)
    state = state_of(ID, running, on, now, idle.model_copy(update={"warned": True}))
    assert state.message == (
        "Job 17 is running on gpu01. Its GPUs are idle: it will be stopped at 12:15 unless a cell "
        "runs."
    )
    assert state.ends_at == NOON + 900
    warned = IdleState(mode=IdleMode.WARN, idle_since=NOON - 60, warned=True)
    state = state_of(ID, running, on, now, warned)
    assert state.message.endswith("Its GPUs are idle. Shut it down if you do not need them.")
    assert state.ends_at == NOON + 7200


def test_a_job_that_slurm_was_not_asked_for_yet() -> None:
    state = state_of(ID, kernel(SessionState.PENDING), None, NOON)
    assert (state.state, state.message) == (JobKernelPhase.WAITING, "Job 17 was submitted.")
    assert submitting(ID).state is JobKernelPhase.WAITING and not submitting(ID).job_id
    assert unrecorded(ID).state is JobKernelPhase.RUNNING


@pytest.mark.parametrize("of_record", [SessionState.PENDING, SessionState.RUNNING])
def test_it_runs_when_its_job_does(of_record: SessionState) -> None:
    running = job("RUNNING", nodes=("gpu01",), end_time=NOON + 3600, position=1)
    state = state_of(ID, kernel(of_record), running, NOON)
    assert (state.state, state.node) == (JobKernelPhase.RUNNING, "gpu01")
    assert (state.ends_at, state.position) == (NOON + 3600, None)
    assert state.message == "Job 17 is running on gpu01." and state.log == ""


def test_a_bad_end_is_told_with_the_log() -> None:
    job = Job(id="17", state=JobState.OUT_OF_MEMORY, memory=4096)
    words = explain(job, "", about=JobKernel.words).message
    over = kernel(
        SessionState.ENDED,
        ending_code="out_of_memory",
        ending_message=words,
        nodes=("gpu01",),
    )
    state = state_of(ID, over, None, NOON)
    assert state.state is JobKernelPhase.ENDED and state.node == "gpu01"
    assert state.message.startswith("The kernel used more memory than requested")
    assert state.log == "Traceback: no module named torch"
    job = Job(id="17", state=JobState.FAILED, exit_code=1, nodes=("gpu01",))
    failed = explain(job, "", about=JobKernel.words).message
    over = kernel(SessionState.ENDED, ending_code="failed", ending_message=failed)
    assert state_of(ID, over, None, NOON).message == (
        "The kernel ended: its program exited with code 1 on gpu01."
    )


def test_an_end_that_was_wanted_has_no_log() -> None:
    over = kernel(SessionState.ENDED, ending_code="stopped", stopped_by="ada")
    state = state_of(ID, over, None, NOON)
    assert (state.message, state.log) == ("You stopped the kernel.", "")
    words = explain(Job(id="17", state=JobState.COMPLETED), "", about=JobKernel.words).message
    over = kernel(SessionState.ENDED, ending_code="completed", ending_message=words)
    state = state_of(ID, over, None, NOON)
    assert (state.message, state.log) == ("The kernel was shut down.", "")
    assert "unknown" in state_of(ID, kernel(SessionState.ENDED), None, NOON).message


@pytest.mark.parametrize("state", SessionState)
def test_its_item_has_a_name_and_no_page(state: SessionState) -> None:
    around = SessionContext(viewer="ada", base="/", now=NOON, environment=LAB)
    item = session_item(kernel(state), around)
    assert item.environment_title == "Kernel of Lab"
    assert item.links == SessionLinks() and not item.has_page
    assert item.options["kernel"] == {"id": ID, "name": "python3"}
    assert session_item(kernel(state, server=""), around).has_page
