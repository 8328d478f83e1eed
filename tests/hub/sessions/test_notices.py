"""A session that waits in a real queue: its owner leaves, and mail says that it has started."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from api_client import Caller, error_of
from hub_client import Person, wait_until
from jobs import cpu_nodes_held, living_jobs
from mail_server import Inbox, mail_server
from remembered import database

from portal.models.cluster.cluster import Job, JobState
from portal.models.session.session import SessionState
from portal.notices import Notices
from portal.store import Store

OPTIONS = {"environment": "python-venv", "partition": "cpu", "time": "0:10:00"}


async def test_mail_when_a_session_that_waited_has_started(demo: Any, ada: Person) -> None:
    inbox, store = Inbox(), Store(url=f"sqlite:///{database(demo)}")
    with cpu_nodes_held(demo) as held:
        assert ada.launch(OPTIONS).status_code in (201, 202)
        job_id = wait_until("the job waits", lambda: living_jobs(demo, demo.user("ada")))[0].id
        with mail_server(inbox) as port:
            notices = Notices(
                store=store,
                smtp_host="127.0.0.1",
                smtp_port=port,
                encryption="none",
                sender="portal@example.org",
                address="{username}@portal.demo",
                public_url=demo.url,
                waited=1,
                wanted=True,
            )
            waiting = await record_of(store, job_id)
            assert waiting.state is SessionState.PENDING
            await notices.send_due(view_of(demo, waiting), time.time())
            assert inbox.mails == []
            time.sleep(1)  # what it must have waited
            demo.run(["scancel", *held], user=demo.user("barbara"))
            ada.wait_ready()
            while (running := await record_of(store, job_id)).state is not SessionState.RUNNING:
                time.sleep(0.2)
            for _ in range(2):
                await notices.send_due(view_of(demo, running), time.time())
        (told,) = inbox.mails
        assert told["To"] == "ada@portal.demo"
        assert told["Subject"].startswith("Your session has started")
        text = told.get_content()
        assert f"(Slurm job {job_id}) has started" in text
        assert "It ends on" in text
        # The way in the mail leads into the session.
        address = next(line for line in text.splitlines() if "/user/ada/" in line)
        assert ada.http.get(address).status_code == 200
    await store.close()


async def record_of(store: Store, job_id: str) -> Any:
    """The session of a job, once the Hub has written it down."""
    for _ in range(600):
        for one in await store.sessions.living():
            if one.job_id == job_id:
                return one
        time.sleep(0.2)
    raise AssertionError(f"job {job_id} is not recorded")


def view_of(demo: Any, record: Any) -> Any:
    """What the dashboard has of it, from Slurm itself."""
    command = ["squeue", "--noheader", f"--job={record.job_id}", "--format=%T|%e"]
    state, end = demo.run(command).stdout.strip().split("|")
    ends_at = (
        None if end in ("N/A", "NONE") else time.mktime(time.strptime(end, "%Y-%m-%dT%H:%M:%S"))
    )
    job = Job(id=record.job_id, state=JobState(state), end_time=ends_at)
    return SimpleNamespace(
        sessions={record.job_id: record}, snapshot=SimpleNamespace(jobs={record.job_id: job})
    )


def test_the_endpoint_of_a_site_without_mail(demo: Any) -> None:
    with Caller(demo.url, "student02") as caller:
        known = caller.get("notices").json()
        assert known == {"available": False, "mail": False, "before_end": 900}
        refused = caller.put("notices", json={"mail": True})
        assert (refused.status_code, error_of(refused)["message"]) == (
            409,
            "This site sends no mail.",
        )
        assert caller.put("notices", json={"mail": False}).json() == known
        for wrong in ({}, {"mail": "yes"}, {"mail": 1}, {"mail": False, "user": "ada"}):
            assert caller.put("notices", json=wrong).status_code == 400
