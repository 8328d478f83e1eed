"""Endpoints on the demo's real Slurm: a model answers by its address, through proxy, gateway and
job, while versions, jobs and the portal's own programs come and go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from api_client import Caller
from endpoint_load import PROGRAM, Load
from hub_client import wait_until
from jobs import living_jobs, nothing_left

pytestmark = [pytest.mark.slurm, pytest.mark.hub]
NAME = "echo"
VERSION = {
    "environment": "python-venv",
    "command": ["{python}", "echo.py", "{socket}"],
    "example": {"method": "POST", "path": "/v1/say", "body": {"say": "hello"}},
    "paths": ["/v1/"],
    "cpus": 1,
    "memory": "400M",
    "time": "0:30:00",
}


@pytest.fixture
def ada(demo: Any) -> Iterator[Caller]:
    write = ["sh", "-c", "cat > ~ada/echo.py"]
    demo.run(write, user=demo.user("ada"), input=PROGRAM)
    with Caller(demo.url, "ada") as ada:
        yield ada
        ada.delete(f"models/{NAME}")
        nothing_left(demo, "ada")


def made(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def replicas(ada: Caller, state: str) -> list[dict[str, Any]]:
    detail = made(ada.get(f"models/{NAME}"))
    assert detail["problem"] == "", detail
    return [each for each in detail["replicas"] if each["state"] == state]


class Asking(threading.Thread):
    """Requests one after the other until the block ends, and their answers."""

    def __init__(self, ask: Callable[[], httpx.Response]) -> None:
        super().__init__(daemon=True)
        self._ask, self._over = ask, threading.Event()
        self.answers: list[tuple[int, Any]] = []

    def run(self) -> None:
        while not self._over.is_set():
            answer = self._ask()
            what = answer.json()["pid"] if answer.is_success else answer.text
            self.answers.append((answer.status_code, what))
            time.sleep(0.02)

    def __enter__(self) -> Asking:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(60)


def test_a_model_answers_and_a_version_takes_over_without_a_failed_request(
    demo: Any, ada: Caller
) -> None:
    address = f"{demo.url}{made(ada.put(f'models/{NAME}', json={'least': 1}))['address']}"
    say = {"url": f"{address}v1/say", "json": {"say": "good day"}}
    made(ada.post(f"models/{NAME}/versions", json=VERSION))
    wait_until("a replica has answered the example", lambda: replicas(ada, "ready"), 90)
    answer = made(ada.post(**say))
    (job,) = living_jobs(demo, "ada")
    pid = answer.pop("pid")
    assert answer == {"said": {"say": "good day"}, "headers": {"X-Portal-User": "ada"}}
    assert ada.get(f"{address}other").status_code == 404, "only paths below /v1/ are let through"

    with Caller(demo.url, "barbara") as barbara, httpx.Client(trust_env=False) as nobody:
        assert barbara.post(**say).status_code in (403, 404)
        assert nobody.post(**say).status_code == 401
        assert barbara.put(f"models/{NAME}", json={}).status_code == 409
        made(ada.put(f"models/{NAME}", json={"users": ["barbara"]}))
        wait_until("barbara may use it", lambda: barbara.post(**say).is_success, 10)
        assert made(barbara.post(**say))["headers"] == {"X-Portal-User": "barbara"}

    with Asking(lambda: ada.post(**say)) as asking:
        made(ada.post(f"models/{NAME}/versions", json={**VERSION, "share": 100}))
        wait_until(
            "the second version has taken over and the first has ended",
            lambda: (
                [each.id for each in living_jobs(demo, "ada")] not in ([], [job.id])
                and job.id not in [each.id for each in living_jobs(demo, "ada")]
            ),
            120,
        )
    assert {status for status, _ in asking.answers} == {200}, asking.answers[-1]
    programs = [program for _, program in asking.answers]
    assert programs[0] == pid and programs[-1] != pid and len(set(programs)) == 2
    (ready,) = replicas(ada, "ready")
    assert ready["version"] == 2 and ready["job_id"] != job.id

    made(ada.put(f"models/{NAME}/shares", json={"shares": {"1": 100}}))
    wait_until("the first version is back", lambda: replicas(ada, "ready")[-1]["version"] == 1, 120)

    made(ada.delete(f"models/{NAME}"))
    assert ada.get(f"models/{NAME}").status_code == 404
    wait_until("its address is gone", lambda: ada.post(**say).status_code == 404, 10)


def serving(ada: Caller, number: int, **wanted: Any) -> tuple[str, list[dict[str, Any]]]:
    """Make the endpoint; return its address and the first ``number`` replicas once they answer."""
    more = {"least": number, "most": number, **wanted}
    address = made(ada.put(f"models/{NAME}", json={k: v for k, v in more.items() if k != "time"}))
    version = {**VERSION, "time": wanted.get("time", VERSION["time"])}
    made(ada.post(f"models/{NAME}/versions", json=version))
    ready = wait_until(
        f"{number} replicas have answered the example",
        lambda: len(found := replicas(ada, "ready")) >= number and found,
        90,
    )
    return f"{address['address']}v1/say", ready


def test_no_request_fails_over_five_handovers(demo: Any, ada: Caller) -> None:
    address, _ = serving(ada, 2, time="0:01:00")
    successors: set[str] = set()

    def handed_over() -> bool:
        detail = made(ada.get(f"models/{NAME}"))
        ended = {each["id"] for each in detail["replicas"] if each["state"] == "ended"}
        successors.update(
            each["id"] for each in detail["replicas"]
            if each["ready_at"] is not None and each["successor_of"] in ended
        )  # fmt: skip
        return len(successors) >= 5

    with Load(f"{demo.url}{address}", ada.person.token) as load:
        wait_until("five replicas have handed over", handed_over, 170, every=1)
    print(f"{load.answered} answers in {load.now():.0f} s, the slowest in {load.slowest:.2f} s")
    assert load.failures == []
    assert load.answered > 60 * load.now() and abs(load.answered - 2 * load.streams) <= 1
