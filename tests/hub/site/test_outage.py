"""Slurm or the Hub away: nothing is killed, nothing is forgotten, and the page says so."""

from __future__ import annotations

import contextlib
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from hub_client import Person, wait_until
from jobs import job_state, living_jobs, only_job
from outages import without
from terminal import terminal
from web_service import kill_service, service_pids


def fill_the_cpu_nodes(demo: Any) -> list[str]:
    """Jobs of another person's that hold both nodes of the partition cpu; their ids."""
    command = ["sbatch", "--parsable", "--partition=cpu", "--exclusive", "--wrap=sleep 300"]
    jobs = [demo.run(command, user=demo.user("barbara")).stdout.strip() for _ in range(2)]
    wait_until("both nodes are held", lambda: all(job_state(demo, j) == "RUNNING" for j in jobs))
    return jobs


def hub_answers(demo: Any) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{demo.url}/hub/api/", timeout=5).status_code == 200
    return False


def test_slurmctld_away(demo: Any, ada: Person, barbara: Person) -> None:
    ada.launch({"environment": "python-venv"})
    ada.wait_ready()
    job_id = only_job(demo, "ada")
    with without(demo, "slurmctld"):
        # A minute: longer than several looks at the sessions and their jobs.
        until = time.monotonic() + 60
        while time.monotonic() < until:
            assert ada.session("GET", "api/status").status_code == 200
            assert ada.server()["ready"]
            time.sleep(5)
        assert "does not answer" in barbara.page("/hub/spawn")
        refused = barbara.launch({"environment": "python-venv"}, patience=0)
        assert refused.status_code == 503, refused.text
        assert "Slurm does not answer" in refused.json()["message"]
    wait_until("Slurm answers again", lambda: job_state(demo, job_id) == "RUNNING")
    assert ada.server()["ready"]
    wait_until(
        "a launch works again",
        lambda: barbara.launch({"environment": "python-venv"}).status_code in (201, 202),
    )
    barbara.wait_ready()


def test_a_launch_that_slurm_forgets_is_asked_for_again(demo: Any, ada: Person) -> None:
    """Killed before it has written a new job down, slurmctld has never heard of it."""
    blockers = fill_the_cpu_nodes(demo)
    try:
        ada.launch({"environment": "python-venv", "partition": "cpu"})
        wait_until("it waits in the queue", lambda: living_jobs(demo, "ada"), every=0.05)
        demo.control("kill", "slurmctld")
        demo.control("start", "slurmctld")
    finally:
        demo.run(["scancel", *blockers], user=demo.user("barbara"), check=False)
    ada.wait_ready()
    assert job_state(demo, only_job(demo, "ada")) == "RUNNING"


def test_a_hub_that_was_killed_takes_its_sessions_up_again(demo: Any, ada: Person) -> None:
    ada.launch({"environment": "python-venv"})
    ada.wait_ready()
    job_id = only_job(demo, "ada")
    terminal(ada, "echo kept")
    demo.control("kill", "hub")
    # The proxy and the session do not need the Hub.
    assert ada.session("GET", "api/contents").status_code in (200, 403, 503)
    demo.control("start", "hub")
    wait_until("the Hub is back", lambda: hub_answers(demo))
    model = ada.wait_ready()
    assert model["ready"]
    assert job_state(demo, job_id) == "RUNNING"
    assert "back" in terminal(ada, "echo back")
    ada.stop()
    assert job_state(demo, job_id) in ("", "COMPLETING", "CANCELLED")


def test_a_pending_session_starts_while_the_hub_is_down(demo: Any, ada: Person) -> None:
    # cpu nodes full: the session waits.
    blockers = fill_the_cpu_nodes(demo)
    try:
        wait_until(
            "the nodes are full", lambda: all(job_state(demo, b) == "RUNNING" for b in blockers)
        )
        answer = ada.launch({"environment": "python-venv", "partition": "cpu"})
        assert answer.status_code == 202, answer.text
        wait_until("it is pending", lambda: ada.server().get("pending") == "spawn")
        job_id = wait_until(
            "the job is submitted",
            lambda: demo.run(
                ["squeue", "-h", "--states=PENDING", "--user", "ada", "--format=%i"]
            ).stdout.strip(),
        )
        assert job_state(demo, job_id) == "PENDING"
        demo.control("kill", "hub")
        demo.run(["scancel", *blockers], user=demo.user("barbara"))
        wait_until("it starts while the Hub is down", lambda: job_state(demo, job_id) == "RUNNING")
        time.sleep(3)  # its server comes up and has nobody to tell
        demo.control("start", "hub")
        wait_until("the Hub is back", lambda: hub_answers(demo))
        ada.wait_ready()
        assert job_state(demo, job_id) == "RUNNING"
        # The Hub tells the proxy of sessions that it takes up when it has looked at all of them;
        # until then it answers in their place and sends a browser round to ask again.
        wait_until(
            "the proxy knows the way", lambda: ada.session("GET", "api/status").status_code == 200
        )
    finally:
        demo.run(["scancel", *blockers], user=demo.user("barbara"), check=False)


def tokens_of(ada: Person) -> set[str]:
    """The ids of the tokens that servers of hers have."""
    found = ada.api("GET", f"/users/{ada.name}/tokens").json()["api_tokens"]
    return {str(one["id"]) for one in found if one["note"].startswith("Server at")}


def test_a_session_that_is_still_pending_after_a_restart_waits_on(demo: Any, ada: Person) -> None:
    before = tokens_of(ada)
    blockers = fill_the_cpu_nodes(demo)
    try:
        wait_until(
            "the nodes are full", lambda: all(job_state(demo, b) == "RUNNING" for b in blockers)
        )
        ada.launch({"environment": "python-venv", "partition": "cpu"})
        job_id = wait_until(
            "the job is submitted",
            lambda: demo.run(
                ["squeue", "-h", "--states=PENDING", "--user", "ada", "--format=%i"]
            ).stdout.strip(),
        )
        demo.control("stop", "hub")
        demo.control("start", "hub")
        wait_until("the Hub is back", lambda: hub_answers(demo))
        time.sleep(5)
        assert job_state(demo, job_id) == "PENDING"
        demo.run(["scancel", *blockers], user=demo.user("barbara"))
        ada.wait_ready()
        assert job_state(demo, job_id) == "RUNNING"
        assert tokens_of(ada) - before
        ada.stop()
        assert tokens_of(ada) <= before  # the restarted Hub has revoked its token, too
    finally:
        demo.run(["scancel", *blockers], user=demo.user("barbara"), check=False)


def test_a_suspended_session_is_not_dead(demo: Any, ada: Person) -> None:
    ada.launch({"environment": "python-venv"})
    ada.wait_ready()
    job_id = only_job(demo, "ada")
    demo.run(["scontrol", "suspend", job_id])
    try:
        wait_until("Slurm suspends it", lambda: job_state(demo, job_id) == "SUSPENDED")
        time.sleep(12)  # one look at every running session
        assert ada.server()["ready"]
        wait_until(
            "the page says so",
            lambda: "uspended" in ada.page("/hub/home"),
            every=1,
        )
    finally:
        demo.run(["scontrol", "resume", job_id])
    wait_until("it runs again", lambda: job_state(demo, job_id) == "RUNNING")
    assert ada.session("GET", "api/status").status_code == 200


def test_the_directory_away(demo: Any, ada: Person) -> None:
    with without(demo, "slapd"):
        stranger = Person(demo.url, "student01")
        assert not stranger.logged_in
        assert "does not answer" in stranger.login_answer.text
        assert "does not answer" not in ada.page("/hub/home")
    assert Person(demo.url, "student01").logged_in


def test_refused_logins_look_alike(demo: Any) -> None:
    answers = {
        (name, password): Person(demo.url, name, password)
        for name, password in [
            ("ada", "wrong"),
            ("nobody-here", "portal-demo"),
            ("*)(uid=*", "portal-demo"),
            ("ada", ""),
        ]
    }
    pages = set()
    for (name, _), someone in answers.items():
        assert not someone.logged_in, name
        words = re.search(r'id="login-error">([^<]*)<', someone.login_answer.text)
        pages.add((someone.login_answer.status_code, words[1].strip() if words else ""))
    assert pages == {(403, "Invalid username or password")}


def test_the_service_is_killed_while_the_hub_starts(demo: Any) -> None:
    """The Hub, which waits for its first answer, ended with it; both are there afterwards."""
    with without(demo, "hub"), ThreadPoolExecutor(1) as thread:
        start = thread.submit(demo.control, "start", "hub")
        killed: set[str] = set()
        for _ in range(2):  # the second is killed before JupyterHub looks for its end
            wait_until("there is one", lambda: set(service_pids(demo)) - killed, every=0.05)
            killed.update(service_pids(demo))
            kill_service(demo)
        start.result()
        assert hub_answers(demo)
