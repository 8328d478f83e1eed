"""Jobs after a restore: those that the Hub knows, those that it shows, those that it cancels."""

from __future__ import annotations

from clusters import snapshot

from portal.backup.jobs import report
from portal.models.cluster.cluster import Job, JobState
from portal.sessions.unknown_jobs import Known

LOGS = "/var/log/portal/session-0a1b2c3d-"


def job(id_: str, user: str, server: str = "", state: JobState = JobState.RUNNING) -> Job:
    return Job(
        id=id_, user=user, state=state, nodes=("gpu01",), comment=f"portal:lab:{server}",
        stdout=f"{LOGS}{id_}.log", submit_time=100.0, start_time=105.0,
    )  # fmt: skip


JOBS = snapshot(
    *[
        job("1", "ada"),
        job("2", "ada", "second"),
        job("3", "bob"),
        job("4", "bob"),
        job("5", "carol", state=JobState.COMPLETED),
        Job(id="6", user="dave", state=JobState.RUNNING, comment="portal:lab:", stdout="/x"),
    ]
).jobs


def test_each_job_is_named_with_what_becomes_of_it() -> None:
    known = Known({"1", "3", "9"}, (), {("ada", "", "1"), ("bob", "", "3")})
    lines = report(JOBS, known, set(), LOGS, 200.0)
    assert lines[0] == "2 jobs of sessions run or wait that the Hub knows."
    assert lines[1] == "2 jobs are newer than the backup:"
    assert lines[2].startswith("  Job 2 of ada, session 'second': the Hub shows it")
    assert lines[3].startswith("  Job 4 of bob, session '': the Hub cancels it")
    assert len(lines) == 4


def test_a_job_in_the_portals_database_is_not_cancelled() -> None:
    known = Known({"1", "3"}, (), {("bob", "", "3")})
    lines = report(JOBS, known, {"4"}, LOGS, 200.0)
    assert lines[3].startswith("  Job 4 of bob, session '': the Hub shows it")


def test_nothing_is_said_of_none() -> None:
    assert report({}, Known((), ()), (), LOGS, 200.0) == [
        "0 jobs of sessions run or wait that the Hub knows."
    ]
