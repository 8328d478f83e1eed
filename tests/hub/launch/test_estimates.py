"""When would it start? The Hub's route of the launch page, the service's for programs and sessions,
and the record of what was said."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from hostile import HOSTILE
from hub_client import Person, wait_until
from jobs import jobs_ever, no_free_t4
from terminal import session_token

CHOICE = {"environment": "python-venv", "time": "0:30:00"}
ROUTE = "/hub/api/portal/estimates"


def ask(person: Person, fields: Any, owner: str = "ada", **how: Any) -> httpx.Response:
    """As the page does: with the cookie, and the token in a header."""
    body = fields if isinstance(fields, str) else json.dumps(fields)
    headers = {"Content-Type": "application/json", "X-XSRFToken": person.xsrf}
    return person.http.post(f"{ROUTE}/{owner}", content=body, **{"headers": headers, **how})


def answer(person: Person, **more: str) -> dict[str, Any]:
    """The answer for a choice, once this person may ask again."""

    def asked() -> dict[str, Any] | None:
        said = ask(person, {**CHOICE, **more})
        return said.json() if said.status_code == 200 else None

    return wait_until("an answer", asked, every=0.5)


@pytest.fixture
def full(demo: Any) -> Iterator[None]:
    """All t4 are Barbara's, for half an hour."""
    if not demo.words["simulated_gpus"]:
        pytest.skip("needs the demo's simulated t4")
    with no_free_t4(demo, "--time=30"):
        yield


def test_now_and_later_and_nearby(demo: Any, ada: Person, full: None) -> None:
    assert answer(ada)["words"] == "Starts now."
    taken = wait_until(
        "the Hub knows that all t4 are taken",
        lambda: (said := answer(ada, gpus="1", gpu_type="t4"))["outlook"] == "later" and said,
        240,
        1,
    )
    assert taken["words"] == "Starts in about 30 min."
    assert taken["basis"] == "slurm" and "Slurm's estimate" in taken["source"]
    # On a busy machine Slurm may miss one of the questions, and then nothing nearby is named.
    v100 = wait_until("the v100 are offered", lambda: nearby(ada, "v100"), 60, 1)
    assert v100["words"] == "starts now"
    assert v100["changes"]["gpu_type"] == "v100"


def nearby(person: Person, label: str) -> dict[str, Any] | None:
    """What the answer for a t4 offers under this label instead."""
    choices = answer(person, gpus="1", gpu_type="t4")["nearby"]
    return next((one for one in choices if one["label"] == label), None)


def test_what_is_not_allowed_says_why_and_asks_nobody(demo: Any, ada: Person) -> None:
    before = jobs_ever(demo)
    said = answer(ada, gpus="99")
    assert said["outlook"] == "refused" and "GPUs" in said["words"] and said["nearby"] == []
    assert jobs_ever(demo) == before


def test_hostile_options(demo: Any, ada: Person) -> None:
    before, wrong = jobs_ever(demo), []
    as_text = [("gpus", "2"), ("partition", "gpu ")]  # as a form sends it: fine
    # Every third one: all go through the door that test_options.py knocks at.
    for key, value in [one for one in HOSTILE[::3] if one not in as_text]:
        said = ada.api("POST", "/portal/estimates/ada", {**CHOICE, "gpus": 1, key: value})
        while said.status_code == 429:
            time.sleep(0.3)
            said = ada.api("POST", "/portal/estimates/ada", {**CHOICE, "gpus": 1, key: value})
        refused = said.status_code == 200 and said.json()["outlook"] == "refused"
        if not refused and not (said.status_code == 400 and said.json().get("message")):
            wrong.append((key, value, said.status_code, said.text))
    for body in ("", "[]", "{", '"x"', "null", "[" * 5000, json.dumps({"cpus": "1" * 9000})):
        said = ask(ada, body)
        if said.status_code not in (400, 429) or not said.json().get("message"):
            wrong.append((body[:20], said.status_code, said.text))
    assert not wrong
    assert jobs_ever(demo) == before


def test_who_may_ask(demo: Any, ada: Person, person: Callable[[str], Person]) -> None:
    stranger = httpx.post(f"{demo.url}{ROUTE}/ada", json=CHOICE, timeout=60)
    assert stranger.status_code == 403
    without_token = ask(ada, CHOICE, headers={"Content-Type": "application/json"})
    assert without_token.status_code == 403  # a cookie alone: any page of the Web could send it
    assert ask(ada, CHOICE, "barbara").status_code == 404
    assert ask(ada, CHOICE, "nobody-of-that-name").status_code == 404
    grace = person("grace")  # an admin may start sessions for others
    assert ask(grace, CHOICE, "ada").status_code == 200


def test_one_person_cannot_keep_slurm_busy(
    demo: Any, ada: Person, person: Callable[[str], Person]
) -> None:
    before, began = jobs_ever(demo), time.monotonic()
    choices = [{**CHOICE, "memory": f"{number}M"} for number in range(100, 160)]
    with ThreadPoolExecutor(20) as pool:
        said = list(pool.map(lambda choice: ask(ada, choice), choices))
    took = time.monotonic() - began
    kinds = {one.status_code for one in said}
    assert kinds == {200, 429}, kinds
    assert (
        "Too many requests" in next(one for one in said if one.status_code == 429).json()["message"]
    )
    assert jobs_ever(demo) - before <= 6 + 2 * took
    assert ask(person("barbara"), CHOICE, "barbara").status_code == 200


def test_slurm_away_is_never_now(demo: Any, ada: Person) -> None:
    answer(ada)
    demo.stop_slurmctld()
    try:
        said = wait_until(
            "the Hub notices",
            lambda: (one := answer(ada, memory="777M"))["outlook"] != "now" and one,
            90,
            1,
        )
        assert said["outlook"] == "unknown" and "Slurm does not answer" in said["words"]
        assert said["nearby"] == []
    finally:
        demo.start_slurmctld()
    wait_until("it is back", lambda: answer(ada, memory="777M")["outlook"] == "now", 90, 1)


def service(person: Person, method: str, path: str, body: Any = None) -> httpx.Response:
    person.api("GET", "/user")  # makes the token
    return httpx.request(
        method,
        f"{person.url}/services/portal/api/v1/{path}",
        headers={"Authorization": f"token {person.token}"},
        json=body,
        timeout=60,
    )


def judged(person: Person, path: str, body: Any) -> httpx.Response:
    """The service's answer, once this person may ask again."""
    return wait_until(
        "an answer",
        lambda: (one := service(person, "POST", path, body)).status_code not in (429, 503) and one,
        every=0.5,
    )


def test_the_service_answers_too_and_admins_see_how_wrong_it_was(
    demo: Any, ada: Person, person: Callable[[str], Person]
) -> None:
    said = judged(ada, "estimates", {"options": CHOICE})
    assert said.status_code == 200, said.text
    assert said.json()["outlook"] == "now"
    refused = judged(ada, "estimates", {"options": {**CHOICE, "gpus": 99}}).json()
    assert refused["outlook"] == "refused"
    assert judged(ada, "estimates", {"options": {"x": 1}}).status_code == 400
    assert service(ada, "POST", "session/estimates", {"options": CHOICE}).status_code == 403
    assert service(ada, "GET", "estimates/errors").status_code == 403

    grace = person("grace")
    before = service(grace, "GET", "estimates/errors").json()["total"]["sessions"]
    answer(ada)  # what the page says before the launch
    ada.launch(CHOICE)
    ada.wait_ready()
    found = wait_until(
        "the estimate of this launch is recorded",
        lambda: (
            (rows := service(grace, "GET", "estimates/errors").json())["total"]["sessions"] > before
            and rows
        ),
    )
    row = next(one for one in found["items"] if one["basis"] == "slurm")
    assert row["sessions"] >= 1 and row["median_absolute"] is not None
    assert row["within_ten_minutes"] > 0
    token = session_token(ada)

    def inside() -> httpx.Response:
        return httpx.post(
            f"{demo.url}/services/portal/api/v1/session/estimates",
            headers={"Authorization": f"token {token}"},
            json={"options": {"gpus": 1, "gpu_type": "v100"}},
            timeout=30,
        )

    said = wait_until(
        "the service sees this session's job",
        lambda: (one := inside()).status_code != 503 and one,
    )
    assert said.status_code == 200, said.text
    assert said.json()["outlook"] in ("now", "later")
