"""The Hub remembers sessions: what they were, how they ended and who ended them."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from brief_session import brief_session
from hub_client import Person, wait_until
from jobs import job_state, living_jobs, only_job
from machine_clock import awake
from other_hub import other_hub
from postgres import PostgreSQL
from remembered import closed, database, forget, lock, measured, of_job, put, remembered
from session_records import recorded
from terminal import terminal
from web_service import service_token

from portal.models.session.session import SessionState


@pytest.fixture(scope="module", autouse=True)
def minute(demo: Any) -> tuple[Person, str]:
    student = Person(demo.url, "student16")
    return student, brief_session(demo, student)


def launch(ada: Person, demo: Any, **options: Any) -> str:
    """Launch a session and wait for it; the id of its job."""
    answer = ada.launch({"environment": "python-venv", **options})
    assert answer.status_code in (201, 202), answer.text
    ada.wait_ready()
    return only_job(demo, ada.name)


def stop(ada: Person, token: str, **headers: str) -> None:
    """Stop Ada's session with somebody's token."""
    answer = httpx.delete(
        f"{ada.url}/hub/api/users/{ada.name}/server",
        headers={"Authorization": f"token {token}", **headers},
        timeout=60,
    )
    assert answer.status_code in (202, 204), answer.text
    wait_until("it is stopped", lambda: not ada.server().get("pending"))


def token_of(someone: Person) -> str:
    someone.api("GET", "/user")
    return someone.token


def test_a_session_from_launch_to_stop(demo: Any, ada: Person) -> None:
    before = time.time()
    job_id = launch(ada, demo, gpus=1, gpu_type="v100", memory="1G")
    record = of_job(database(demo), "ada", job_id)
    wait_until(
        "it is recorded as running",
        lambda: of_job(database(demo), "ada", job_id).state is SessionState.RUNNING,
    )
    running = of_job(database(demo), "ada", job_id)
    assert running.id == record.id
    assert (running.user, running.server, running.environment) == ("ada", "", "python-venv")
    assert running.environment_title
    assert running.account == ("ada" if demo.people else demo.words["account"])
    assert "gpu-users" in running.groups
    assert running.options["gpus"] == 1
    assert running.options["gpu_type"] == "v100"
    assert running.options["environment"] == "python-venv"
    (node,) = running.nodes
    assert node.startswith("gpu")
    assert running.started_at is not None
    assert running.ready_at is not None
    assert before - 1 <= running.submitted_at <= running.ready_at <= time.time()
    assert running.ended_at is None
    assert running.ending_code == ""
    terminal(ada, "sleep 3")  # Slurm measures memory every two seconds

    ada.stop()
    over = measured(database(demo), "ada", job_id)
    assert over.id == record.id
    assert (over.ending_code, over.stopped_by) == ("stopped", "ada")
    assert over.ending_message == "You stopped the session."
    assert over.ended_at is not None
    assert over.ready_at == running.ready_at
    assert running.ready_at <= over.ended_at <= time.time() + 1
    assert over.peak_memory
    assert over.peak_memory > 10
    assert over.exit_code is not None
    assert "jupyter" in over.log.lower()
    assert re.search(r"You stopped this session at \d\d:\d\d\.", ada.page("/hub/user/ada/"))


def test_stopped_by_an_admin(demo: Any, ada: Person, person: Callable[[str], Person]) -> None:
    job_id = launch(ada, demo)
    stop(ada, token_of(person("grace")))
    record = closed(database(demo), "ada", job_id)
    assert (record.ending_code, record.stopped_by) == ("stopped", "grace")
    words = r"An administrator \(grace\) stopped this session at \d\d:\d\d\."
    assert re.search(words, ada.page("/hub/user/ada/"))


def test_stopped_by_an_admin_through_the_service(demo: Any, ada: Person) -> None:
    job_id = launch(ada, demo)
    stop(ada, service_token(demo), **{"X-Portal-For": "grace"})
    assert closed(database(demo), "ada", job_id).stopped_by == "grace"


def test_a_persons_own_header_means_nothing(demo: Any, ada: Person) -> None:
    job_id = launch(ada, demo)
    stop(ada, token_of(ada), **{"X-Portal-For": "grace"})
    assert closed(database(demo), "ada", job_id).stopped_by == "ada"


def test_a_name_that_is_nobodys_is_the_services_own_stop(demo: Any, ada: Person) -> None:
    """Others of the kind: tests/unit/spawners/lifecycle/test_stop_reason.py."""
    job_id = launch(ada, demo)
    stop(ada, service_token(demo), **{"X-Portal-For": "%00<script>"})
    assert closed(database(demo), "ada", job_id).stopped_by == "portal"


def test_nobody_stops_anothers_session(demo: Any, ada: Person, barbara: Person) -> None:
    job_id = launch(ada, demo)
    answer = httpx.delete(
        f"{demo.url}/hub/api/users/ada/server",
        headers={"Authorization": f"token {token_of(barbara)}", "X-Portal-For": "grace"},
        timeout=60,
    )
    assert answer.status_code in (403, 404)
    assert ada.server()["ready"]
    assert of_job(database(demo), "ada", job_id).stopped_by == ""


def test_a_named_session_that_is_removed_at_once(demo: Any, ada: Person) -> None:
    assert ada.launch({"environment": "python-venv"}, "second").status_code in (201, 202)
    ada.wait_ready("second")
    job_id = only_job(demo, "ada")
    answer = ada.api("DELETE", ada.server_path("second"), {"remove": True})
    assert answer.status_code in (202, 204), answer.text
    record = closed(database(demo), "ada", job_id)
    assert (record.server, record.ending_code, record.stopped_by) == ("second", "stopped", "ada")


def test_the_session_of_a_person_who_is_deleted(demo: Any, person: Callable[[str], Person]) -> None:
    student = Person(demo.url, "student08")
    job_id = launch(student, demo)
    answer = person("grace").api("DELETE", "/users/student08")
    assert answer.status_code == 204, answer.text
    record = closed(database(demo), "student08", job_id)
    assert (record.ending_code, record.stopped_by) == ("stopped", "grace")


def test_scancel(demo: Any, ada: Person) -> None:
    job_id = launch(ada, demo)
    demo.run(["scancel", job_id], user=demo.user("ada"))
    record = closed(database(demo), "ada", job_id)
    assert record.ending_code == "cancelled"
    assert record.stopped_by == record.account
    assert "scancel" in record.ending_message


def test_scancel_by_an_admin(demo: Any, ada: Person) -> None:
    job_id = launch(ada, demo)
    demo.run(["scancel", job_id])  # the demo's starter
    record = closed(database(demo), "ada", job_id)
    assert record.ending_code == "cancelled"
    assert record.stopped_by == ("root" if demo.people else record.account)


def test_a_pending_session_that_is_given_up(demo: Any, ada: Person) -> None:
    command = ["sbatch", "--parsable", "--partition=cpu", "--exclusive", "--wrap=sleep 300"]
    blockers = [demo.run(command, user=demo.user("barbara")).stdout.strip() for _ in range(2)]
    try:
        wait_until("full", lambda: all(job_state(demo, one) == "RUNNING" for one in blockers))
        assert ada.launch({"environment": "python-venv", "partition": "cpu"}).status_code == 202
        record = wait_until(
            "it is recorded",
            lambda: [
                one
                for one in remembered(database(demo), "ada")
                if one.state is SessionState.PENDING
            ],
        )[0]
        assert not record.nodes
        ada.stop()
        over = closed(database(demo), "ada", record.job_id)
        assert (over.ending_code, over.stopped_by) == ("stopped", "ada")
        assert (over.started_at, over.ready_at, over.nodes) == (None, None, ())
    finally:
        demo.run(["scancel", *blockers], user=demo.user("barbara"), check=False)


def test_a_start_that_fails(demo: Any, ada: Person) -> None:
    broken = demo.environments / "broken2.yaml"
    broken.write_text("name: broken2\ntitle: Broken\nkind: venv\npath: /nonexistent\n")
    broken.chmod(0o644)
    options = {"environment": "broken2"}
    try:
        wait_until(
            "the catalog has the new file",
            lambda: "environment with this name" not in ada.launch(options).text,
        )
        (record,) = wait_until(
            "it is recorded",
            lambda: [
                one
                for one in remembered(database(demo), "ada")
                if one.environment == "broken2" and one.state is SessionState.ENDED
            ][:1],
        )
    finally:
        broken.unlink()
    assert record.ending_code == "start_failed"
    assert record.ready_at is None
    assert record.stopped_by == ""
    assert record.job_id
    assert "/nonexistent/bin/python3" in record.log
    assert record.environment_title == "Broken"


def test_what_is_refused_is_no_session(demo: Any, ada: Person) -> None:
    before = len(remembered(database(demo), "ada"))
    for options in ({"environment": "no-such"}, {"environment": "python-venv", "gpus": 99}):
        assert ada.launch(options).status_code in (400, 403, 404)
    time.sleep(1)
    assert len(remembered(database(demo), "ada")) == before


def test_starts_that_fail_for_the_hubs_own_reasons(demo: Any) -> None:
    """Nothing could be submitted; and a server that never says its port."""
    settings = """
c.Store.url = f"sqlite:///{place}/portal.sqlite"
c.PortalSpawner.server_timeout = 3
c.PortalSpawner.cmd = ["/bin/sleep", "100"]
c.PortalSpawner.log_directory = f"{place}/none"
"""
    with other_hub(demo, settings) as (url, place):
        student = Person(url, "student06")
        assert student.launch({"environment": "python-venv"}).status_code >= 500
        file = place / "portal.sqlite"
        (record,) = wait_until("it is recorded", lambda: remembered(file, "student06"))
        assert (record.ending_code, record.job_id, record.nodes) == ("start_failed", "", ())
        assert "log of the session cannot be created" in record.ending_message
        assert record.ended_at is not None

        (place / "none").mkdir(mode=0o711)
        if demo.people:
            demo.run(["chown", "portal", str(place / "none")])
        student.launch({"environment": "python-venv"})
        (job_id,) = wait_until(
            "the second one is recorded",
            lambda: [one.job_id for one in remembered(file, "student06") if one.job_id],
        )
        record = closed(file, "student06", job_id)
        assert record.ending_code == "start_failed"
        assert "did not answer within 3 s" in record.ending_message
        assert record.stopped_by == ""
        assert record.ready_at is None
        assert record.started_at is not None


@contextlib.contextmanager
def held_database(demo: Any) -> Iterator[None]:
    connection = lock(demo)
    try:
        yield
    finally:
        connection.close()


def test_the_database_is_locked(demo: Any, ada: Person) -> None:
    """A launch and a stop take their time and no more, and are recorded afterwards."""
    known = {record.job_id for record in remembered(database(demo), "ada")}
    with held_database(demo):
        job_id = launch(ada, demo)
        began = awake()
        ada.stop()
        assert awake() - began < 20
        assert {record.job_id for record in remembered(database(demo), "ada")} == known
    record = closed(database(demo), "ada", job_id)
    assert (record.ending_code, record.stopped_by) == ("stopped", "ada")
    assert record.ready_at is not None


def test_the_database_is_away(demo: Any, own_postgres: PostgreSQL) -> None:
    """PostgreSQL that is not up yet, that is there, and that hangs."""
    server = own_postgres
    database_url = server.new()
    server.stop()
    try:
        with other_hub(demo, f"c.Store.url = {database_url!r}\n") as (url, _):
            student = Person(url, "student07")
            options = {"environment": "python-venv"}
            assert student.launch(options).status_code in (201, 202)
            student.wait_ready()
            job_id = only_job(demo, "student07")
            server.start()
            record = of_job(database_url, "student07", job_id)
            assert record.state is SessionState.RUNNING
            server.freeze()
            began = awake()
            student.stop()
            assert student.page("/hub/home")
            assert awake() - began < 20
            server.thaw()
            over = closed(database_url, "student07", job_id)
            assert (over.id, over.ending_code) == (record.id, "stopped")
            assert student.launch(options).status_code in (201, 202)
            student.wait_ready()
            server.freeze()
            student.stop()
            began = awake()
        assert awake() - began < 20  # the Hub ends all the same
    finally:
        demo.run(["scancel", "--user=student07"], user=demo.user("student07"), check=False)


def hub_answers(demo: Any) -> bool:
    """The Hub and its service, which comes up a moment later."""
    with contextlib.suppress(httpx.HTTPError):
        hub = httpx.get(f"{demo.url}/hub/api/", timeout=5)
        service = httpx.get(f"{demo.url}/services/portal/api/v1/environments", timeout=5)
        return (hub.status_code, service.status_code) == (200, 403)
    return False


def back(demo: Any) -> None:
    demo.control("start", "hub")
    wait_until("the Hub is back", lambda: hub_answers(demo))


def test_a_hub_that_was_killed_goes_on_with_the_same_record(demo: Any, ada: Person) -> None:
    job_id = launch(ada, demo)
    wait_until(
        "it is recorded as running",
        lambda: of_job(database(demo), "ada", job_id).state is SessionState.RUNNING,
    )
    before = of_job(database(demo), "ada", job_id)
    demo.control("kill", "hub")
    back(demo)
    ada.wait_ready()
    assert of_job(database(demo), "ada", job_id) == before
    ada.stop()
    record = closed(database(demo), "ada", job_id)
    assert (record.id, record.stopped_by, record.ready_at) == (before.id, "ada", before.ready_at)


def test_a_session_that_ended_while_the_hub_was_away(demo: Any, ada: Person) -> None:
    job_id = launch(ada, demo)
    before = of_job(database(demo), "ada", job_id)
    demo.control("kill", "hub")
    demo.run(["scancel", job_id], user=demo.user("ada"))
    wait_until("the job is over", lambda: job_state(demo, job_id) in ("", "CANCELLED"))
    back(demo)
    record = closed(database(demo), "ada", job_id)
    assert (record.id, record.ending_code) == (before.id, "cancelled")
    assert record.stopped_by == record.account
    assert record.log


def test_a_session_of_a_portal_without_a_history(demo: Any, ada: Person) -> None:
    """After an upgrade, what runs gets a record, and only one."""
    began = time.time()
    job_id = launch(ada, demo)
    demo.control("stop", "hub")
    forget(demo, "ada", job_id)
    for _ in range(2):
        back(demo)
        ada.wait_ready()
        record = of_job(database(demo), "ada", job_id)
        assert record.state is SessionState.RUNNING
        assert (record.environment, record.options["cpus"]) == ("python-venv", 2)
        assert began - 1 < record.submitted_at < time.time()
        demo.control("kill", "hub")
    back(demo)
    ada.wait_ready()
    ada.stop()
    over = closed(database(demo), "ada", job_id)
    assert (over.id, over.ending_code, over.stopped_by) == (record.id, "stopped", "ada")
    assert over.nodes


def test_what_the_database_has_not_in_time_outlives_the_hub(demo: Any, ada: Person) -> None:
    """The database is away from the launch to the Hub's end; the next Hub records it."""
    with held_database(demo):
        job_id = launch(ada, demo)
        ada.stop()
        demo.control("kill", "hub")
        assert all(record.job_id != job_id for record in remembered(database(demo), "ada"))
    back(demo)
    record = closed(database(demo), "ada", job_id)
    assert (record.ending_code, record.stopped_by) == ("stopped", "ada")


def test_open_sessions_without_a_server_are_closed_when_slurm_says_so(
    demo: Any, ada: Person
) -> None:
    """What a Hub left behind that lost its state: only an answer of Slurm closes it."""
    account = "ada" if demo.people else demo.words["account"]

    def job(seconds: int) -> str:
        command = ["sbatch", "--parsable", "--output=/dev/null", f"--wrap=sleep {seconds}"]
        return str(demo.run(command, user=demo.user("ada")).stdout.strip())

    over, living, gone = job(0), job(600), "99999999"
    wait_until("one is over", lambda: job_state(demo, over) in ("", "COMPLETED"))
    at = time.time()
    for one in (over, living, gone):
        put(
            demo,
            recorded(
                id=f"left-{one}-{at:.0f}",
                user="ada",
                account=account,
                job_id=one,
                state=SessionState.RUNNING,
                submitted_at=at - 100,
                ready_at=at - 90,
            ),
        )
    demo.control("stop", "slurmctld")
    try:
        demo.control("kill", "hub")
        back(demo)
        time.sleep(8)
        for one in (over, living, gone):
            assert of_job(database(demo), "ada", one).state is SessionState.RUNNING
    finally:
        demo.control("start", "slurmctld")
    record = wait_until(
        "the first is closed",
        lambda: (one := of_job(database(demo), "ada", over)).state is SessionState.ENDED and one,
        timeout=120,
    )
    assert record.ending_code == "completed"
    assert record.ended_at < at + 60
    assert of_job(database(demo), "ada", living).state is SessionState.RUNNING
    demo.run(["scancel", living], user=demo.user("ada"))
    wait_until(
        "the second is closed",
        lambda: of_job(database(demo), "ada", living).ending_code == "cancelled",
        timeout=120,
    )
    wait_until(
        "the third is closed",
        lambda: of_job(database(demo), "ada", gone).ending_code == "unknown",
        timeout=150,
    )


def test_walltime(demo: Any, minute: tuple[Person, str]) -> None:
    _, job_id = minute
    record = closed(database(demo), "student16", job_id, timeout=150)
    assert record.ending_code == "walltime"
    assert record.stopped_by == ""
    assert "time limit of 1 min." in record.ending_message
    assert living_jobs(demo, "student16") == []
