"""Commands of portal-run about schedules."""

from __future__ import annotations

from typing import Any

import pytest
from portal_session.job_kernels.broker_client import Broker
from portal_session.runs import RunError
from portal_session.runs.portal_run import command, schedules

ENVIRON = {"PORTAL_KERNEL_BROKER": "/nowhere/broker"}
ID = "0f2f3c1a-0b7d-4c8e-9a6f-1d2e3f405162"
MADE = {
    "id": ID,
    "name": "train",
    "runs": [{"id": "1", "name": "prepare"}, {"id": "2", "name": "train"}],
    "at": "02:00",
    "days": [0, 1, 2, 3, 4],
    "timezone": "Europe/Berlin",
    "until": "",
    "next_at": 1_790_000_000.0,
    "last_at": None,
    "paused": False,
    "message": "\x1b[31mNo.",
}


class PlayedBroker(Broker):
    """Broker of a portal with one run and these schedules."""

    def __init__(self, *found: dict[str, Any]) -> None:
        super().__init__("/nowhere")
        self.found = found
        self.asked: list[tuple[str, Any]] = []

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        self.asked.append((f"{method} {path}", body))
        if method == "POST":
            return MADE
        if path == "/runs":
            return {"items": [{"id": "5e2f3c1a", "name": "train", "ended_at": None}]}
        return {"items": list(self.found)}


def test_a_schedule_is_made() -> None:
    broker = PlayedBroker()
    words = ["train", "--at", "02:00", "--days", "mon-fri", "--notify", "end", "--notify", "end"]
    said = schedules.run(["schedule", *words], broker)
    assert broker.asked[-1] == (
        "POST /runs/schedules",
        {"run": "5e2f3c1a", "at": "02:00", "days": [*range(5)], "until": "", "notify": ["end"]},
    )
    assert "'train' will be repeated at 02:00 Europe/Berlin, mon,tue,wed,thu,fri." in said
    assert "Chain: prepare → train" in said and "Next:  2026-09-21 16:13 CEST" in said
    assert f"Id:    {ID}" in said
    words = ["train", "--at", "02:00", "--timezone", "UTC", "--until", "2026-12-24"]
    schedules.run(["schedule", *words], broker)
    body = broker.asked[-1][1]
    assert body["days"] == [*range(7)] and body["timezone"] == "UTC", "the portal checks the rest"
    assert body["until"] == "2026-12-24"


def test_they_are_listed_and_deleted() -> None:
    broker = PlayedBroker(MADE, {**MADE, "id": "1", "name": "other", "paused": True})
    said = schedules.run(["schedules"], broker)
    assert ID in said and "2026-09-21 16:13 CEST" in said, "the schedule's own time zone"
    assert "train" in said and "paused" in said and "\x1b" not in said and "?[31mNo." in said
    assert schedules.run(["unschedule", "train"], broker) == "The schedule of 'train' was deleted."
    assert broker.asked[-1] == (f"DELETE /runs/schedules/{ID}", None)
    assert schedules.run(["schedules"], PlayedBroker()) == "You have no schedules."
    with pytest.raises(RunError, match="You have no schedule of 'nowhere'"):
        schedules.run(["unschedule", "nowhere"], broker)
    with pytest.raises(RunError, match=f"2 schedules of 'train'. Specify the id: {ID}, 1"):
        schedules.run(["unschedule", "train"], PlayedBroker(MADE, {**MADE, "id": "1"}))
    assert schedules.run(["unschedule", "1"], broker) == "The schedule of 'other' was deleted."
    assert broker.asked[-1] == ("DELETE /runs/schedules/1", None)
    for words in (["schedules", "x"], ["unschedule"], ["unschedule", "a", "b"]):
        with pytest.raises(RunError):
            schedules.run(words, broker)


def test_times_of_a_schedule_that_ends_in_a_zone_that_is_not_known_here() -> None:
    more = {"days": [*range(7)], "until": "2026-12-24", "timezone": "Mars/Base", "last_at": 0}
    said = schedules.run(["schedules"], PlayedBroker({**MADE, **more, "next_at": None}))
    assert "02:00 Mars/Base, each day until 2026-12-24" in said
    assert "ended" in said and "1970-01-01 00:00 UTC" in said


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("mon-sun", (0, 1, 2, 3, 4, 5, 6)),
        ("mon-fri", (0, 1, 2, 3, 4)),
        ("Sat-Mon", (0, 5, 6)),
        ("mon, wed,mon", (0, 2)),
        ("sun", (6,)),
    ],
)
def test_days(text: str, days: tuple[int, ...]) -> None:
    assert schedules.read_days(text) == days


@pytest.mark.parametrize("text", ["", "monday", "mon-", "-mon", "mon-fri-sun", "1-5", "mon;id"])
def test_what_are_no_days(text: str) -> None:
    with pytest.raises(RunError, match="is not a list of days"):
        schedules.read_days(text)


def test_the_command_line_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "Broker", lambda path: PlayedBroker())
    assert command.run(["schedules"], ENVIRON) == "You have no schedules."


@pytest.mark.parametrize("at", ["2:30", "24:00", "02:60", "noon", "02:30:00", ""])
def test_what_is_no_time_of_day(at: str) -> None:
    broker = PlayedBroker()
    with pytest.raises(RunError, match="is not a time of day"):
        schedules.run(["schedule", "train", "--at", at], broker)
    assert broker.asked == []
