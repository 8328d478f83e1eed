"""Idle GPUs and idle sessions, on a real Hub with its proxy and a real Slurm, with short times. The
GPUs are simulated: a job with "idle" in its name does not use its own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from cells import run_cell
from hub_client import Person, wait_until
from notebook_kernel import NotebookKernel
from other_hub import other_hub

from portal.demo.daemons.ports import free_port

API = "/services/portal/api/v1/"
ENVIRONMENT = "idle-gpus"
IDLE, WARN, SNOOZE, CULL = 40, 20, 25, 110  # seconds

SETTINGS = """
import os
from portal.paths import data_path
from spawners.lifecycle import culler
os.environ["PORTAL_SERVICE_PORT"] = "{port}"
for name in ("20-service.py", "30-roles.py"):
    load_subconfig(str(data_path("deploy") / "jupyterhub_config.d" / name))
c.PortalSpawner.service_url = c.JupyterHub.bind_url + "/services/portal/"
c.PortalSpawner.telemetry_interval = 2
# How often the Hub asks the proxy, and how often sessions report to the Hub.
c.JupyterHub.last_activity_interval = 1
c.PortalSpawner.environment = {{"JUPYTERHUB_ACTIVITY_INTERVAL": "2"}}
c.IdleGpus.mode = "on"
c.IdleGpus.idle_time = {idle}
c.IdleGpus.warn_time = {warn}
c.IdleGpus.snooze_time = {snooze}
c.IdleGpus.snoozes = 1
c.IdleGpus.exempt_users = {{"student12"}}
culler.LEAST, culler.CHECK_EVERY = 1, 3
c.IdleSessions.timeout = {cull}
"""


@pytest.fixture(scope="module")
def url(demo: Any) -> Iterator[str]:
    """A Hub with these settings, and an environment whose jobs' GPUs are idle."""
    template = (demo.environments / "python-venv.yaml").read_text()
    template = template.replace("name: python-venv", f"name: {ENVIRONMENT}")
    added = demo.environments / f"{ENVIRONMENT}.yaml"
    kernels = "kernels: [{name: python3, title: Python 3, language: python}]\n"
    added.write_text(template.replace("title: Python", "title: Idle Python") + kernels)
    settings = SETTINGS.format(port=free_port(), idle=IDLE, warn=WARN, snooze=SNOOZE, cull=CULL)
    try:
        with other_hub(demo, settings) as (address, _):
            wait_until(
                "the service answers",
                lambda: httpx.get(f"{address}{API}environments", timeout=60).status_code == 403,
            )
            yield address
    finally:
        added.unlink()


@pytest.fixture
def owners(url: str) -> Iterator[Any]:
    """``owners("ada", "barbara", gpus=1)``: people whose sessions run, started side by side, since
    the first is idle already while the next one starts. All are stopped afterwards."""
    with contextlib.ExitStack() as stack:

        def launch(*names: str, **options: Any) -> list[Person]:
            people = [Person(url, name) for name in names]
            for person in people:
                stack.callback(person.stop)
                answer = person.launch({"environment": ENVIRONMENT, **options})
                assert answer.status_code in (201, 202), answer.text
            for person in people:
                person.wait_ready()
            return people

        yield launch


def ask(person: Person, path: str, method: str = "GET") -> httpx.Response:
    return httpx.request(
        method,
        person.url + API + path,
        headers={"Authorization": f"token {person.token}"},
        timeout=60,
    )


def newest(person: Person) -> dict[str, Any]:
    """The person's newest session as the portal tells it; {} before it knows any."""
    found = ask(person, "sessions").json()["items"]
    return dict(found[0]) if found else {}


def idle(person: Person) -> dict[str, Any]:
    return dict(newest(person).get("idle") or {})


def hub_activity(person: Person) -> str:
    """When something was done in the session, as the Hub believes."""
    return str(person.server()["last_activity"])


def test_idle_gpus_are_warned_of_snoozed_and_given_back(url: str, owners: Any) -> None:
    ada, exempt = owners("ada", "student12", gpus=1)
    session = wait_until("the portal knows it", lambda: newest(ada).get("id"))

    theirs = wait_until("the portal knows it", lambda: newest(exempt).get("id"))
    early = ask(exempt, f"sessions/{theirs}/snooze", "POST")
    assert early.status_code == 409
    assert "nothing to snooze" in early.json()["error"]["message"]
    grace = Person(url, "grace")
    grace.api("GET", "/user")

    told = wait_until("it is warned", lambda: (one := idle(ada)).get("warned") and one, timeout=360)
    assert told["mode"] == "on"
    assert told["snoozes_left"] == 1
    assert 0 < told["stops_at"] - told["idle_since"] <= IDLE + WARN
    assert told["stops_at"] > time.time()
    assert ask(exempt, f"sessions/{session}/snooze", "POST").status_code == 404, "not theirs"

    asked = time.time()
    answer = ask(ada, f"sessions/{session}/snooze", "POST")
    answered = time.time()
    assert answer.status_code == 200, answer.text
    after = answer.json()
    assert (after["snoozes_left"], after["snooze"]) == (0, 0)
    assert after["stops_at"] > told["stops_at"]
    assert asked - 1 < after["snoozed_until"] - SNOOZE < answered + 1
    lines = ask(grace, "audit?action=snooze-session").json()["items"]
    assert [(one["actor"], one["target"], one["outcome"]) for one in lines] == [
        ("ada", f"session {session}", "done"),
        ("student12", f"session {theirs}", "failed"),
    ], "the refused one too"

    wait_until("it is warned again", lambda: idle(ada).get("warned"), timeout=360)
    assert ask(ada, f"sessions/{session}/snooze", "POST").status_code == 409, "once was all"

    spared = idle(exempt)
    assert spared["exempt"] == "Sessions of student12 are never stopped for idle GPUs here."
    assert spared["idle_since"] is not None, "an admin sees it"
    assert (spared["warned"], spared["stops_at"]) == (False, None)

    over = wait_until(
        "it has ended", lambda: (one := newest(ada))["state"] == "ended" and one, timeout=360
    )
    assert over["id"] == session
    assert over["ending"]["code"] == "idle"
    assert over["ending"]["title"] == "Idle"
    assert over["ending"]["words"].startswith("The session's GPUs were idle for ")
    assert over["ending"]["stopped_by"] == "portal"
    assert time.time() >= after["snoozed_until"]
    lines = ask(grace, "audit?action=stop-idle-session").json()["items"]
    assert [(one["actor"], one["owner"], one["target"], one["outcome"]) for one in lines] == [
        ("portal", "ada", f"session {session}", "done")
    ]
    assert "GPUs were idle" in ada.page("/hub/user/ada/")

    culled = wait_until(
        "whoever does nothing at all is culled, GPUs or not",
        lambda: (one := newest(exempt))["state"] == "ended" and one,
        timeout=540,
    )
    assert culled["ending"]["code"] == "idle"
    assert "The session was idle for a long time" in culled["ending"]["words"]
    assert culled["ending"]["stopped_by"] == "idle-culler"
    assert culled["ended_at"] - culled["ready_at"] >= CULL - 5


def test_an_idle_kernel_is_warned_of_and_given_back(url: str, owners: Any) -> None:
    """A kernel in a job of its own; its session has no GPUs, and stays."""
    (student,) = owners("student13", gpus=0)
    spec = f"job-{ENVIRONMENT}-python3-t4"

    def offered() -> bool:
        return spec in student.session("GET", "api/kernelspecs").json()["kernelspecs"]

    def state() -> dict[str, Any]:
        return dict(student.session("GET", "portal/job-kernels").json()["kernels"][kernel.id])

    wait_until("the kernels are offered", offered)
    kernel = NotebookKernel.start(student, spec)
    assert kernel.run("print(1)").printed == "1\n"
    began = time.monotonic()
    told = wait_until("it is warned", lambda: "idle" in (one := state())["message"] and one)
    assert told["message"].endswith("unless a cell runs.") and told["ends_at"] < time.time() + WARN
    (item,) = [one for one in ask(student, "sessions").json()["items"] if not one["has_page"]]
    assert item["idle"]["warned"] and item["idle"]["snoozes_left"] == 1, "as on its page"
    over = wait_until("it has ended", lambda: (one := state())["state"] == "ended" and one)
    assert time.monotonic() - began > IDLE
    assert over["message"].startswith("The kernel's GPUs were idle for ")
    ran = kernel.run("1")
    assert ran.status == "error" and "GPUs were idle for" in ran.error, ran
    assert student.server()["ready"], "its session stays"
    kernel.leave()


def test_what_goes_through_the_proxy_is_no_activity_and_a_cell_is(owners: Any) -> None:
    (barbara,) = owners("barbara")
    run_cell(barbara, "1 + 1")

    def steady() -> str:
        """The Hub's belief, once all that was done before is reported: the session looks every
        10 s and reports every 2, and what does not come has no sign but time."""
        first = hub_activity(barbara)
        time.sleep(13)
        return first if hub_activity(barbara) == first else ""

    before = wait_until("everything is reported", steady, timeout=120)
    for _ in range(10):  # what open pages ask by themselves
        for path in ("api/kernels", "api/sessions", "api/terminals", "api/contents", "lab"):
            assert barbara.session("GET", path).status_code < 400
    time.sleep(4)  # the Hub asks the proxy every second
    assert hub_activity(barbara) == before

    run_cell(barbara, "2 + 2")
    wait_until("the cell is activity", lambda: hub_activity(barbara) > before)
