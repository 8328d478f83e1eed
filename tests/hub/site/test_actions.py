"""Actions through the portal's API, on the real Hub and Slurm: who may, who may not, and the line
that each leaves in the audit log."""

from __future__ import annotations

import contextlib
import csv
import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import httpx
import local_hosts
import pytest
from hub_client import Person, wait_until
from jobs import job_state, only_job
from nodes import HOSTILE_REASONS, PLAIN_REASONS, reason_of, set_level
from other_hub import other_hub
from postgres import PostgreSQL
from remembered import lock, put
from session_records import recorded

from portal.demo.daemons.ports import free_port
from portal.models.scope import JOBS_MANAGE, right
from portal.models.session.session import SessionState

API = "/services/portal/api/v1/"
Log = Callable[..., dict[str, Any]]
Waiting = Callable[[str], str]


def ask(
    someone: Person, method: str, path: str, body: Any = None, **headers: str
) -> httpx.Response:
    """A call of the portal's API with this person's token."""
    if not someone.token:
        someone.api("GET", "/user")
    return httpx.request(
        method,
        someone.url + API + path,
        headers={"Authorization": f"token {someone.token}", **headers},
        content=None if body is None else json.dumps(body),
        timeout=60,
    )


def message(answer: httpx.Response) -> str:
    """The sentence of an error or of what was done."""
    found = answer.json()
    return str(found["error"]["message"] if "error" in found else found["message"])


def lines(grace: Person, **filters: Any) -> list[dict[str, Any]]:
    """The audit log's lines, newest first."""
    words = "&".join(f"{name}={quote(str(value))}" for name, value in filters.items())
    answer = ask(grace, "GET", f"audit?{words}")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["items"])


@pytest.fixture
def grace(person: Callable[[str], Person]) -> Person:
    return person("grace")


@pytest.fixture
def log(grace: Person) -> Log:
    """``log(action=…)``: the newest line that was written since the test began."""
    before = max((line["id"] for line in lines(grace, limit=1)), default=0)

    def newest(**filters: Any) -> dict[str, Any]:
        found = [line for line in lines(grace, **filters) if line["id"] > before]
        return found[0] if found else {}

    return newest


def job_on_page(someone: Person, job_id: str) -> dict[str, Any]:
    """The job as the portal shows it, once it does."""

    def shown() -> Any:
        answer = ask(someone, "GET", f"jobs/{job_id}")
        return answer.json() if answer.status_code == 200 else None

    return dict(wait_until(f"the portal shows job {job_id}", shown))


@pytest.fixture
def waiting(demo: Any, grace: Person) -> Iterator[Waiting]:
    """``waiting("ada")``: the id of a job of hers that waits, and that the portal shows."""
    made: list[str] = []

    def submit(user: str) -> str:
        command = ["sbatch", "--parsable", "--partition=cpu", "--begin=now+1hour"]
        made.append(demo.run([*command, "--wrap=sleep 60"], user=demo.user(user)).stdout.strip())
        job_on_page(grace, made[-1])
        return made[-1]

    yield submit
    demo.run(["scancel", *made], check=False)


def session_of(demo: Any, grace: Person, owner: Person) -> tuple[str, str]:
    """Launch a session of ``owner``; the ids of it and of its job, once the portal knows them."""
    answer = owner.launch({"environment": "python-venv"})
    assert answer.status_code in (201, 202), answer.text
    owner.wait_ready()
    found = wait_until(
        "the portal knows the session",
        lambda: (
            (one := ask(grace, "GET", f"jobs?portal=true&user={owner.name}")).status_code == 200
            and one.json()["items"]
        ),
    )
    return found[0]["session_id"], found[0]["id"]


def gone(owner: Person) -> bool:
    model = owner.server()
    return not model.get("ready") and not model.get("pending")


# -- sessions ------------------------------------------------------------------------------


def test_an_admin_stops_a_session(demo: Any, grace: Person, barbara: Person, log: Log) -> None:
    session, job = session_of(demo, grace, barbara)
    made_up = {"X-Real-Ip": "192.0.2.1"}
    reason = {"reason": "the node is needed"}
    answer = ask(grace, "POST", f"sessions/{session}/stop", reason, **made_up)
    assert answer.status_code == 200, answer.text
    assert "being stopped" in message(answer)
    wait_until("the session is gone", lambda: gone(barbara))
    wait_until("its job too", lambda: job_state(demo, job) in ("", "CANCELLED", "COMPLETED"))
    line = log(action="stop-session", target=f"session {session}")
    assert line["actor"] == "grace"
    assert line["owner"] == "barbara"
    assert line["outcome"] == "done"
    assert line["detail"] == "the node is needed"
    assert line["address"] == "127.0.0.1"
    wait_until("the ending names her", lambda: "grace" in barbara.page("/hub/user/barbara/"))
    again = wait_until(
        "the portal knows that it is over",
        lambda: (
            (a := ask(grace, "POST", f"sessions/{session}/stop")) and a.status_code == 409 and a
        ),
    )
    assert message(again) == "This session has already ended."
    assert log(action="stop-session")["outcome"] == "failed"


def test_one_stops_and_opens_ones_own_and_nobody_elses(
    demo: Any, grace: Person, ada: Person, barbara: Person, log: Log
) -> None:
    hers, job = session_of(demo, grace, barbara)
    unknown = hers[:-1] + ("1" if hers.endswith("0") else "0")
    for action in ("stop", "open"):
        answer = ask(ada, "POST", f"sessions/{hers}/{action}")
        assert answer.status_code == 404, answer.text
        line = log(action="denied", actor="ada")
        assert (line["target"], line["owner"]) == (f"session {hers}", "barbara")
        assert line["outcome"] == "refused"
        # The same words as for one that never was: nobody learns that it is there.
        forged = ask(ada, "POST", f"sessions/{unknown}/{action}")
        assert (forged.status_code, message(forged)) == (404, message(answer))
        assert log(action="denied", actor="ada")["detail"].endswith("Not found.")
    # A job is on everyone's page, so it is no secret that it is there.
    answer = ask(ada, "POST", f"jobs/{job}/cancel")
    assert answer.status_code == 403
    assert log(action="denied", actor="ada")["owner"] == "barbara"
    assert barbara.server()["ready"]
    assert "barbara" not in ask(ada, "GET", f"jobs/{job}").text

    opened = ask(barbara, "POST", f"sessions/{hers}/open")
    assert opened.json() == {"url": "/user/barbara/"}
    assert ask(barbara, "POST", f"sessions/{hers}/stop").status_code == 200
    wait_until("the session is gone", lambda: gone(barbara))
    line = log(action="stop-session", actor="barbara")
    assert (line["owner"], line["outcome"]) == ("barbara", "done")


def test_an_admin_opens_a_server(
    demo: Any, grace: Person, ada: Person, barbara: Person, log: Log
) -> None:
    session, job = session_of(demo, grace, ada)
    answer = ask(grace, "POST", f"sessions/{session}/open", {"reason": "ada asked for help"})
    assert answer.json() == {"url": "/user/ada/"}
    line = log(action="open-server")
    assert (line["actor"], line["owner"], line["outcome"]) == ("grace", "ada", "done")
    # The Hub's own check lets her in (access:servers).
    inside = f"{ada.session_url()}api/status"
    for someone, status in ((grace, 200), (barbara, 403)):
        someone.api("GET", "/user")
        header = {"Authorization": f"token {someone.token}"}
        answer = local_hosts.request("GET", inside, headers=header)
        assert answer.status_code == status, someone.name
    # Cancelling the job of a session is stopping the session.
    assert "session of the portal" in message(ask(grace, "POST", f"jobs/{job}/cancel"))
    wait_until("the session is gone", lambda: gone(ada))
    line = log(action="stop-session", target=f"session {session}")
    assert (line["owner"], line["outcome"]) == ("ada", "done")


@pytest.mark.parametrize("newer", [True, False], ids=["another in its place", "none"])
def test_a_session_that_the_hub_has_lost_is_cancelled_in_slurm(
    demo: Any, grace: Person, ada: Person, waiting: Waiting, newer: bool
) -> None:
    """And the one that has its place in the Hub lives on."""
    if newer:
        session_of(demo, grace, ada)
    job = waiting("ada")
    lost = recorded(
        id=f"lost-{job}",
        user="ada",
        account="ada" if demo.people else demo.words["account"],
        job_id=job,
        state=SessionState.RUNNING,
        submitted_at=time.time() - 3600,
    )
    put(demo, lost)
    try:
        answer = ask(grace, "POST", f"sessions/{lost.id}/stop")
        assert answer.status_code == 200, answer.text
        wait_until("its job is cancelled", lambda: job_state(demo, job) in ("", "CANCELLED"))
        assert bool(ada.server().get("ready")) is newer
        wait_until(
            "it is over",
            lambda: ask(grace, "POST", f"sessions/{lost.id}/stop").status_code == 409,
        )
        assert bool(ada.server().get("ready")) is newer
    finally:
        put(demo, lost.model_copy(update={"state": SessionState.ENDED, "ended_at": time.time()}))


@pytest.mark.parametrize(
    "id_", ["0", "x" * 64, "..%2f..", "%00", "a'%20OR%201=1--", "<b>", "$(id)", "x" * 65]
)
def test_a_forged_session_is_not_there(grace: Person, ada: Person, id_: str) -> None:
    for someone in (grace, ada):
        for action in ("stop", "open"):
            answer = ask(someone, "POST", f"sessions/{id_}/{action}")
            assert answer.status_code == 404, answer.text


# -- jobs ----------------------------------------------------------------------------------


def test_ones_own_job_is_cancelled_as_oneself(
    demo: Any, ada: Person, waiting: Waiting, log: Log
) -> None:
    if not demo.people:
        pytest.skip("in the one-account form no job outside the portal belongs to a person")
    job = waiting("ada")
    for action in ("hold", "release"):
        answer = ask(ada, "POST", f"jobs/{job}/{action}")
        assert answer.status_code == 403
        assert right(JOBS_MANAGE) in message(answer)
    answer = ask(ada, "POST", f"jobs/{job}/cancel")
    assert answer.status_code == 200, answer.text
    wait_until("it is cancelled", lambda: job_state(demo, job) in ("", "CANCELLED"))
    ada_id = demo.run(["id", "-u", "ada"]).stdout.strip()
    shown = ["sacct", "-n", "-X", "-P", "-j", job, "-o", "State"]
    wait_until("accounting names her", lambda: f"by {ada_id}" in demo.run(shown).stdout)
    line = log(action="cancel-job")
    assert (line["actor"], line["owner"], line["target"]) == ("ada", "ada", f"job {job}")


def test_an_admin_holds_releases_and_cancels(
    demo: Any, grace: Person, ada: Person, waiting: Waiting, log: Log
) -> None:
    job = waiting("barbara")
    owner = job_on_page(grace, job)["user"]
    refused = ask(ada, "POST", f"jobs/{job}/cancel")
    assert refused.status_code == 403
    assert log(action="denied", actor="ada")["owner"] == owner

    assert ask(grace, "POST", f"jobs/{job}/hold", {"reason": "later"}).status_code == 200
    wait_until("the page shows it", lambda: job_on_page(grace, job)["held"])
    assert log(action="hold-job")["detail"] == "later"
    assert ask(grace, "POST", f"jobs/{job}/release").status_code == 200
    wait_until("the page shows it", lambda: not job_on_page(grace, job)["held"])
    assert log(action="release-job")["outcome"] == "done"

    answers = [ask(grace, "POST", f"jobs/{job}/cancel") for _ in range(2)]
    assert answers[0].status_code == 200, answers[0].text
    assert answers[1].status_code in (200, 404, 409), answers[1].text
    wait_until("it is cancelled", lambda: job_state(demo, job) in ("", "CANCELLED"))
    line = log(action="cancel-job", outcome="done")
    assert (line["actor"], line["owner"]) == ("grace", owner)
    wait_until("it is off the page", lambda: ask(grace, "GET", f"jobs/{job}").status_code == 404)
    over = ask(grace, "POST", f"jobs/{job}/hold")
    assert over.status_code == 404
    assert f"no pending or running job {job}" in message(over)
    assert log(action="hold-job")["outcome"] == "failed"


def test_a_job_that_ended_meanwhile(demo: Any, grace: Person, waiting: Waiting, log: Log) -> None:
    job = waiting("ada")
    demo.run(["scancel", job])
    answer = ask(grace, "POST", f"jobs/{job}/hold")  # the page may still show it
    assert answer.status_code in (404, 409), answer.text
    assert "already ended" in message(answer) or "no pending or running job" in message(answer)


def test_a_running_job_is_not_held(demo: Any, grace: Person, ada: Person) -> None:
    session_of(demo, grace, ada)
    job = only_job(demo, "ada") if demo.people else ""
    if job:
        answer = ask(grace, "POST", f"jobs/{job}/hold")
        assert answer.status_code == 409
        assert "is not waiting" in message(answer)


@pytest.mark.parametrize("id_", ["0", "999999999", "1;id", "%2d%2duser=ada", "1%0a2", "ALL", "-1"])
def test_a_forged_job_is_not_there(grace: Person, ada: Person, id_: str) -> None:
    for someone in (grace, ada):
        assert ask(someone, "POST", f"jobs/{id_}/cancel").status_code == 404
    assert ask(grace, "POST", f"jobs/{id_}/hold").status_code == 404
    assert ask(ada, "POST", f"jobs/{id_}/hold").status_code in (403, 404)


# -- nodes ---------------------------------------------------------------------------------


def test_draining_names_the_right_that_is_missing_and_works_with_it(
    demo: Any, grace: Person, ada: Person, log: Log
) -> None:
    if not demo.people:
        pytest.skip("in the one-account form the portal's account is SlurmUser")
    set_level(demo, "Operator")
    wait_until(
        "the service has heard of it",
        lambda: not ask(grace, "GET", "cluster").json()["control"]["nodes"],
        timeout=90,
    )
    drain = {"reason": "fan 3"}
    refused = ask(ada, "POST", "nodes/cpu02/drain", drain)
    assert refused.status_code == 403
    assert log(action="denied", actor="ada")["target"].endswith("nodes/cpu02/drain")

    answer = ask(grace, "POST", "nodes/cpu02/drain", drain)
    assert answer.status_code == 403
    assert "sacctmgr modify user portal set adminlevel=Administrator" in message(answer)
    line = log(action="drain-node")
    assert (line["outcome"], line["target"]) == ("refused", "node cpu02")
    assert "fan 3" in line["detail"]
    control = ask(grace, "GET", "cluster").json()["control"]
    assert (control["jobs"], control["nodes"]) == (True, False)
    assert control["missing"]["nodes"] == message(answer)
    assert ask(ada, "GET", "cluster").json()["control"] is None

    time.sleep(1)  # a refusal is believed for a second
    set_level(demo, "Administrator")
    try:
        for reason in PLAIN_REASONS:
            answer = ask(grace, "POST", "nodes/cpu02/drain", {"reason": f"  {reason} "})
            assert answer.status_code == 200, answer.text
            assert reason_of(demo, "cpu02") == f"grace: {reason}"
            assert log(action="drain-node", outcome="done")["detail"] == reason
        wait_until(
            "the page shows it",
            lambda: (
                (node := ask(ada, "GET", "nodes/cpu02").json())["usable"] is False
                and node["reason"] == f"grace: {PLAIN_REASONS[-1]}"
            ),
        )
        assert ask(grace, "POST", "nodes/cpu02/resume").status_code == 200
        assert log(action="resume-node")["outcome"] == "done"
        again = ask(grace, "POST", "nodes/cpu02/resume")
        assert again.status_code == 409
        assert "neither drained nor down" in message(again)
    finally:
        demo.run(["scontrol", "update", "NodeName=cpu02", "State=RESUME"], check=False)


@pytest.mark.parametrize("reason", [*HOSTILE_REASONS, "", "  ", "x" * 201, "x" * 10240, 7, None])
def test_a_hostile_reason_never_reaches_slurm(
    demo: Any, grace: Person, reason: Any, log: Log
) -> None:
    answer = ask(grace, "POST", "nodes/cpu02/drain", {"reason": reason})
    assert answer.status_code == 400, answer.text
    assert "reason" in message(answer)
    assert log(action="drain-node") == {}


@pytest.mark.parametrize("name", ["ALL", "gpu[01-06]", "gpu01,gpu02", "nonode", "a%20b", "%0a"])
def test_a_forged_node_is_not_there(grace: Person, name: str) -> None:
    answer = ask(grace, "POST", f"nodes/{name}/drain", {"reason": "x"})
    assert answer.status_code == 404, answer.text
    assert ask(grace, "POST", f"nodes/{name}/resume").status_code == 404


# -- announcements -------------------------------------------------------------------------


def test_announcements(grace: Person, ada: Person, log: Log) -> None:
    now = time.time()
    text = "Maintenance <b>on Monday</b>;\nsave your work 👩\u200d🔬"
    draft = {"text": text, "level": "warning", "starts_at": now - 1, "ends_at": now + 600}
    refused = ask(ada, "POST", "announcements", draft)
    assert refused.status_code == 403
    assert log(action="denied", actor="ada")["target"] == "api/v1/announcements"

    made = ask(grace, "POST", "announcements", draft)
    assert made.status_code == 201, made.text
    id_ = made.json()["id"]
    later = ask(grace, "POST", "announcements", draft | {"text": "later", "starts_at": now + 300})
    try:
        line = log(action="announce", target=f"announcement {id_}")
        assert (line["actor"], line["outcome"], line["detail"]) == ("grace", "done", text)
        seen = ask(ada, "GET", "announcements").json()
        assert [(one["id"], one["text"], one["author"]) for one in seen["items"]] == [
            (id_, text, "grace")
        ]
        every = ask(grace, "GET", "announcements?limit=2").json()
        assert [one["id"] for one in every["items"]] == [later.json()["id"], id_]
        assert [
            one["id"] for one in ask(grace, "GET", "announcements?active=true").json()["items"]
        ] == [id_]
        assert ask(ada, "DELETE", f"announcements/{id_}").status_code == 403
    finally:
        for one in (id_, later.json()["id"]):
            gone_ = ask(grace, "DELETE", f"announcements/{one}")
            assert gone_.status_code == 204, gone_.text
    assert log(action="withdraw-announcement")["outcome"] == "done"
    assert ask(ada, "GET", "announcements").json()["items"] == []
    assert ask(grace, "DELETE", "announcements/999999999").status_code == 404
    assert log(action="withdraw-announcement")["outcome"] == "failed"


@pytest.mark.parametrize(
    "change",
    [
        {"text": ""},
        {"text": "  \n"},
        {"text": "bell \a"},
        {"text": "turned \u202e"},
        {"text": "x" * 2001},
        {"ends_at": 1000.0},
        {"starts_at": 4e9},
        {"ends_at": 1e300},
        {"ends_at": "tomorrow"},
        {"level": "<script>"},
        {"author": "ada"},
    ],
    ids=lambda change: ascii(change)[:30],
)
def test_a_wrong_announcement_is_refused(grace: Person, change: dict[str, Any]) -> None:
    now = time.time()
    draft = {"text": "x", "starts_at": now, "ends_at": now + 60} | change
    answer = ask(grace, "POST", "announcements", draft)
    assert answer.status_code == 400, answer.text
    (field,) = change
    assert field in message(answer) or "ends_at" in message(answer)


# -- the audit log -------------------------------------------------------------------------


def test_the_audit_log_is_filtered_sorted_paged_and_a_file(
    grace: Person, ada: Person, log: Log
) -> None:
    started = time.time()
    for path in ("audit", "audit.csv"):
        assert ask(ada, "GET", path).status_code == 403
        assert log(action="denied", actor="ada")["target"] == f"api/v1/{path}"
    ask(grace, "POST", "sessions/not-there/stop")

    found = lines(grace, since=started, sort="at")
    assert [line["actor"] for line in found] == ["ada", "ada", "grace"]
    assert [line["at"] for line in found] == sorted(line["at"] for line in found)
    assert len(lines(grace, since=started, actor="ada", action="denied", outcome="refused")) == 2
    assert len(lines(grace, since=started, text="NOT-there")) == 1
    assert lines(grace, since=started, until=started) == []
    assert lines(grace, since=started, owner="barbara") == []

    first = ask(grace, "GET", f"audit?since={started}&limit=2").json()
    assert (first["total"], len(first["items"])) == (3, 2)
    rest = ask(grace, "GET", f"audit?since={started}&limit=2&after={first['next']}").json()
    assert (len(rest["items"]), rest["next"]) == (1, None)

    answer = ask(grace, "GET", f"audit.csv?since={started}")
    assert answer.headers["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(answer.text.splitlines()))
    assert [row["actor"] for row in rows] == ["grace", "ada", "ada"]
    for wrong in ("sort=detail", "outcome=maybe", "since=x", "limit=0", "after=x", "x=1"):
        assert ask(grace, "GET", f"audit?{wrong}").status_code == 400, wrong
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert ask(grace, method, "audit", {}).status_code == 405


# -- parts of the site that are away -------------------------------------------------------


def test_slurm_away(demo: Any, grace: Person, waiting: Waiting, log: Log) -> None:
    job = waiting("ada")
    demo.stop_slurmctld()
    try:
        for action in ("hold", "cancel"):
            answer = ask(grace, "POST", f"jobs/{job}/{action}")
            assert answer.status_code == 503, answer.text
            assert "Slurm" in message(answer)
            line = log(action=f"{action}-job")
            assert line["outcome"] == "failed"
            assert "not answer" in line["detail"]
    finally:
        demo.start_slurmctld()
    wait_until("Slurm is back", lambda: job_state(demo, job) == "PENDING")
    wait_until("the page is fresh", lambda: ask(grace, "GET", "cluster").json()["error"] == "")
    assert ask(grace, "POST", f"jobs/{job}/cancel").status_code == 200


def test_an_action_works_without_the_database_and_says_where_its_line_is(
    demo: Any, grace: Person, waiting: Waiting, log: Log
) -> None:
    job = waiting("ada")
    with contextlib.closing(lock(demo)):
        answer = ask(grace, "POST", f"jobs/{job}/cancel", {"reason": "without a database"})
    assert answer.status_code == 200, answer.text
    assert "service's log" in message(answer)
    wait_until("it is cancelled", lambda: job_state(demo, job) in ("", "CANCELLED"))
    assert log(action="cancel-job") == {}
    service_log = (demo.home.demo / "log" / "hub.out").read_text()
    told = [
        json.JSONDecoder().raw_decode(one.partition("audit: ")[2])[0]  # the request's id follows
        for one in service_log.splitlines()
        if "audit: {" in one
    ]
    (line,) = [one for one in told if one["target"] == f"job {job}"]
    assert (line["action"], line["detail"]) == ("cancel-job", "without a database")


WITH_SERVICE = """
import os
from portal.paths import data_path
os.environ["PORTAL_SERVICE_PORT"] = "{port}"
for name in ("20-service.py", "30-roles.py"):
    load_subconfig(str(data_path("deploy") / "jupyterhub_config.d" / name))
c.Store.url = {url!r}
c.Store.timeout = 3
"""


def test_a_session_is_stopped_while_the_database_is_gone(
    demo: Any, own_postgres: PostgreSQL
) -> None:
    """The dashboard remembers which sessions live. The rest comes back with the database."""
    settings = WITH_SERVICE.format(port=free_port(), url=own_postgres.new())
    with other_hub(demo, settings) as (url, _):
        grace, student, other = (Person(url, who) for who in ("grace", "student08", "ada"))
        session, job = session_of(demo, grace, student)
        own_postgres.stop()
        refused = ask(other, "POST", f"sessions/{session}/stop")
        assert refused.status_code == 404, refused.text
        unknown = ask(grace, "POST", "sessions/not-there/stop")
        assert unknown.status_code == 503
        assert "database" in message(unknown)
        for path in ("audit", "announcements"):
            assert ask(grace, "GET", path).status_code == 503
        draft = {"text": "x", "starts_at": time.time(), "ends_at": time.time() + 60}
        assert ask(grace, "POST", "announcements", draft).status_code == 503

        answer = ask(grace, "POST", f"sessions/{session}/stop")
        assert answer.status_code == 200, answer.text
        assert "service's log" in message(answer)
        wait_until("the session is gone", lambda: gone(student))
        wait_until("its job too", lambda: job_state(demo, job) in ("", "CANCELLED", "COMPLETED"))
        own_postgres.start()
        wait_until("the log is back", lambda: ask(grace, "GET", "audit").status_code == 200)
        again = wait_until(
            "it is known to be over",
            lambda: (
                (one := ask(grace, "POST", f"sessions/{session}/stop")).status_code == 409 and one
            ),
        )
        assert message(again) == "This session has already ended."
        assert lines(grace, action="stop-session", outcome="failed")


def test_a_cookie_without_its_xsrf_token_does_nothing(
    demo: Any, grace: Person, waiting: Waiting
) -> None:
    """A page of another site makes the browser send the cookie, and cannot read the token."""
    job = waiting("ada")
    grace.http.get("/services/portal/")  # the service's own login
    answer = grace.http.post(f"{API}jobs/{job}/cancel", content="{}")
    assert answer.status_code == 403, answer.text
    assert job_state(demo, job) == "PENDING"
    xsrf = next(
        cookie.value or ""
        for cookie in grace.http.cookies.jar
        if cookie.name == "_xsrf" and "services" in cookie.path
    )
    answer = grace.http.post(f"{API}jobs/{job}/cancel", content="{}", headers={"X-XSRFToken": xsrf})
    assert answer.status_code == 200, answer.text
