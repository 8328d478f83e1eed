"""Reports of a point: none is lost that matters, and a portal that is away is left in peace."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from machine import patience
from portal_session.runs.execution import reports
from portal_session.runs.execution.reports import Reports
from portal_session.service import ServiceError


class Service:
    """The portal's service, played: ``errors`` are raised first."""

    def __init__(self, *errors: ServiceError) -> None:
        self.errors = list(errors)
        self.asked: list[dict[str, Any]] = []

    def ask(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        assert (method, path) == ("POST", "session/points")
        self.asked.append(body)
        if self.errors:
            raise self.errors.pop(0)
        return {}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "_PAUSES", (0.01,))
    monkeypatch.setattr(reports, "SHORTEST", 0.05)
    monkeypatch.setattr("random.uniform", lambda least, most: least)


def made(service: Any, state: Any = dict) -> Reports:
    return Reports(service, {"point": 3, "job": "123_3", "attempt": 1}, state)


def away(status: int = 503) -> ServiceError:
    return ServiceError("The portal cannot be reached.", status)


def test_the_end_is_tried_again() -> None:
    service = Service(away(), away(404), away(429))
    assert made(service).finish({"state": "succeeded", "message": "x" * 3000}, 5) == ""
    assert len(service.asked) == 4
    last = service.asked[-1]
    assert last["point"] == 3 and last["state"] == "succeeded" and len(last["message"]) == 2000


def test_the_end_is_not_tried_for_ever() -> None:
    service = Service(*[away() for _ in range(1000)])
    began = time.monotonic()
    assert made(service).finish({}, 0.2) == "The portal cannot be reached."
    assert time.monotonic() - began < 2


def test_what_is_refused_is_not_repeated() -> None:
    service = Service(away(400))
    assert made(service).finish({}, 5) == "The portal cannot be reached."
    assert len(service.asked) == 1
    assert "address is not set" in made(None).finish({}, 0.1)


def test_only_changes_are_reported() -> None:
    service, state = Service(), {"cell": 1}
    thread = made(service, lambda: dict(state))
    thread.start()
    time.sleep(0.4)
    assert [report["cell"] for report in service.asked] == [1]
    state["cell"] = 2
    time.sleep(0.3)
    thread.finish({"cell": 3}, 1)
    time.sleep(0.2)
    assert [report["cell"] for report in service.asked] == [1, 2, 3], "the end is the last one"


def test_curves_are_sent_when_they_have_changed() -> None:
    service, state = Service(away()), {"cell": 1, "curves": {"loss": [(0, 1.0)]}}
    thread = made(service, lambda: dict(state))
    thread.start()

    def reach(cell: int) -> list[bool]:
        deadline = time.monotonic() + patience(30)
        while not service.asked or service.asked[-1]["cell"] != cell or service.errors:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return ["curves" in report for report in service.asked]

    reach(1)
    time.sleep(0.3)
    assert reach(1)[:2] == [True, True], "the first one was lost"
    state["cell"] = 2
    assert reach(2)[-1] is False
    state.update(cell=3, curves={"loss": [(0, 1.0), (1, 0.5)]})
    assert reach(3)[-1] is True
    thread.finish(dict(state, cell=4), 1)
    assert reach(4)[-1] is True


def test_a_portal_that_is_away_is_asked_less_and_gets_the_newest() -> None:
    service, states = Service(*[away() for _ in range(3)]), iter(range(100))
    thread, pauses = made(service, lambda: {"cell": next(states)}), list[float]()

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        return threading.Event.wait(thread._end, seconds)

    thread._end.wait = wait  # type: ignore[method-assign, assignment]
    thread.start()
    deadline = time.monotonic() + patience(20)
    while len(service.asked) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    _, *pauses = pauses[:4]  # the first is before any report
    assert pauses == sorted(pauses) and pauses[2] > 1.5 * pauses[0]
    assert [report["cell"] for report in service.asked[:4]] == [0, 1, 2, 3]
    thread.finish({}, 1)


def test_answers_are_heard() -> None:
    heard: list[dict[str, Any]] = []

    class Watched(Service):
        def ask(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
            super().ask(method, path, body)
            return {"watched": True}

    about = {"point": 3, "job": "123_3", "attempt": 1}
    told = Reports(Watched(away()), about, dict, heard.append)  # type: ignore[arg-type]
    assert told.finish({"state": "succeeded"}, 5) == ""
    assert heard == [{"watched": True}], "not of what failed"


def test_a_point_is_heard_soon_after_an_outage_of_any_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reports, "SHORTEST", 5.0)
    monkeypatch.setattr("random.uniform", lambda least, most: most)
    thread, pauses = made(Service(*[away() for _ in range(30)])), list[float]()

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) > 30

    thread._end.wait = wait  # type: ignore[method-assign, assignment]
    thread.run()
    assert max(pauses) <= 20, "pages are true within 30 s, of which the portal needs some to start"
