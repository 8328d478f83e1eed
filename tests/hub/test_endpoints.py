"""Endpoints on the demo's real Slurm: a model answers by its address, through proxy, gateway and
job, while versions, jobs and the portal's own programs come and go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from api_client import Caller
from endpoint_load import PROGRAM, VERSION, Load
from hub_client import wait_until
from jobs import jobs_ever, living_jobs, lose_processes, nothing_left
from outages import without
from web_service import kill_service

pytestmark = [pytest.mark.slurm, pytest.mark.hub]
NAME = "echo"


def with_program(demo: Any, user: str) -> None:
    home = demo.run(["sh", "-c", f"echo ~{user}"]).stdout.strip()
    demo.run(["tee", f"{home}/echo.py"], user=demo.user(user), input=PROGRAM)


@pytest.fixture(scope="module", autouse=True)
def asleep(demo: Any) -> Iterator[tuple[Caller, str]]:
    """An endpoint of barbara's that falls asleep while other tests run, and its address."""
    with_program(demo, "barbara")
    with Caller(demo.url, "barbara") as barbara:
        wanted = {"most": 3, "target": 64, "idle": 60}
        address = made(barbara.put("models/sleeper", json=wanted))["address"]
        made(barbara.post("models/sleeper/versions", json=VERSION))
        yield barbara, address
        barbara.delete("models/sleeper")
        nothing_left(demo, "barbara")


@pytest.fixture
def ada(demo: Any) -> Iterator[Caller]:
    with_program(demo, "ada")
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


def serving(ada: Caller, number: int, time: str = "0:30:00", **wanted: Any) -> str:
    """Make the endpoint; return the path of its program once so many replicas answer."""
    wanted = {"least": number, "most": number, **wanted}
    address = made(ada.put(f"models/{NAME}", json=wanted))["address"]
    made(ada.post(f"models/{NAME}/versions", json={**VERSION, "time": time}))
    words = f"{number} replicas have answered the example"
    wait_until(words, lambda: len(replicas(ada, "ready")) == number, 90)
    return f"{address}v1/say"


def test_no_request_fails_over_five_handovers(demo: Any, ada: Caller) -> None:
    address = serving(ada, 3, time="0:01:00")
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


def test_the_portals_own_programs_end_under_load(demo: Any, ada: Caller) -> None:
    address = serving(ada, 2)
    with Load(f"{demo.url}{address}", ada.person.token) as load:
        time.sleep(2)
        with without(demo, "hub", "kill"):
            time.sleep(12)  # longer than an answer about a token holds
        kill_service(demo)
        time.sleep(2)
        with without(demo, "slurmctld", "kill"):
            time.sleep(5)
        wait_until("the service answers", lambda: ada.get(f"models/{NAME}").is_success, 120)
        assert len(replicas(ada, "ready")) == 2
        assert load.failures == []

        # What is in flight at the gateway fails, and what comes before the next one listens.
        begin = load.now()
        demo.control("kill", "gateway")
        demo.control("start", "gateway")
        back = load.now()
        time.sleep(3)
        killed = load.failed_since(begin - 1)
        print(f"gateway: {len(killed)} requests failed, it was away for {back - begin:.2f} s")
        assert 0 < len(killed) < 60 + 100 * (back - begin) and not load.failed_since(back)
        assert load.failures == killed
        time.sleep(2)

        # A node is lost: only what is in flight there fails, once and with an error, and the rest
        # waits for other replicas.
        begin, before = load.now(), len(load.failures)
        jobs = living_jobs(demo, "ada")
        for job in jobs:
            lose_processes(demo, "ada", job.id)
        gone = load.now()
        demo.run(["scontrol", "update", f"NodeName={jobs[0].node}", "State=DOWN", "Reason=test"])
        try:
            wait_until("others answer", lambda: len(replicas(ada, "ready")) == 2, 60)
        finally:
            again = ["scontrol", "update", f"NodeName={jobs[0].node}", "State=RESUME"]
            demo.run(again, check=False)
        wait_until("as before", lambda: load.open < 50, 60)
    lost = load.failures[before:]
    print(f"node: {len(lost)} requests failed; the slowest answer took {load.slowest:.2f} s")
    assert 0 < len(lost) < 100 and load.failed_since(gone + 1) == []
    assert all("A replica of model 'echo' did not answer" in words
               or "A replica of model 'echo' broke off its answer." in words
               for _, words in lost), lost  # fmt: skip


def test_fifty_requests_wake_it_once_and_a_revoked_token_is_refused(
    demo: Any, asleep: tuple[Caller, str]
) -> None:
    owner, address = asleep
    say = {"url": f"{demo.url}{address}v1/say", "json": {"say": "good day"}}
    wait_until("it sleeps", lambda: not living_jobs(demo, "barbara"), 120)
    before = jobs_ever(demo)
    with ThreadPoolExecutor(50) as threads:
        asked = [threads.submit(owner.post, **say) for _ in range(50)]
        answers = [each.result() for each in asked]
    woken = time.time()
    assert {made(answer)["said"]["say"] for answer in answers} == {"good day"}
    assert len({answer.json()["pid"] for answer in answers}) == 1
    assert jobs_ever(demo) == before + 1
    replica = max(
        made(owner.get("models/sleeper"))["replicas"], key=lambda each: each["created_at"]
    )
    began = replica["started_at"]
    print(f"ready {replica['ready_at'] - began:.1f} s after the start of its job, and 50 answers"
          f" after {woken - began:.1f} s")  # fmt: skip
    assert woken - replica["ready_at"] < 5

    token = owner.person.api("POST", "/users/barbara/tokens", {"note": "a notebook"}).json()
    with httpx.Client(
        headers={"Authorization": f"Bearer {token['token']}"}, trust_env=False, timeout=60
    ) as notebook:
        assert notebook.post(**say).is_success
        owner.person.api("DELETE", f"/users/barbara/tokens/{token['id']}")
        wait_until("it is refused", lambda: notebook.post(**say).status_code == 401, 11)
