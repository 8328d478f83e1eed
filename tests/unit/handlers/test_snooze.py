"""Who may put off the stop of a session whose GPUs are idle, and what is said. The owner's own page
asks on the real Hub: tests/hub/sessions/test_idle.py."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from test_extend import Site, site  # noqa: F401  a fixture

from portal.models.cluster.cluster import ClusterSnapshot
from portal.models.cluster.gpu import GpuReading
from portal.models.session.activity import SessionActivity

OWN = "session/snooze"
MINUTE = 60.0


class Warned:
    """The site with one session whose GPU is idle, and a clock that a test moves."""

    def __init__(self, of: Site) -> None:
        self.site, self.now = of, 0.0
        slurm, self.idle = of.slurm, of.parts.idle
        slurm.job = slurm.job.model_copy(update={"gpus": 1, "gpu_indexes": {"gpu01": (0,)}})
        self.idle.mode, self.idle.idle_time, self.idle.warn_time = "on", 3600, 600
        self.idle.snooze_time, self.idle.snoozes = 1800, 2
        self.idle._uptime = self.idle._wall = lambda: self.now
        reading = GpuReading(node="gpu01", index=0, at=0, source="dcgm", utilization=0)
        telemetry: Any = SimpleNamespace(
            report_gap=90.0, readings=lambda _: {("gpu01", 0): reading}, busy=lambda _: False
        )
        context = dataclasses.replace(
            self.idle.context, telemetry=telemetry, interval=lambda: 5.0, view=self.view
        )
        self.idle.context = context

    def view(self) -> Any:
        jobs = {"10": self.site.slurm.job}
        return SimpleNamespace(
            taken_at=self.now,
            sessions={"10": self.site.slurm.record},
            snapshot=ClusterSnapshot(taken_at=self.now, jobs=jobs),
        )

    async def go(self, minutes: float) -> None:
        end = self.now + minutes * MINUTE
        while self.now < end:
            self.now += 30
            self.idle.record_activity(
                "S10", SessionActivity(kernel=1e8, terminal=1e8, processes=1e8)
            )
            await self.idle.check_sessions()


@pytest.fixture
async def warned(site: Site) -> AsyncIterator[Warned]:  # noqa: F811
    made = Warned(site)
    await made.go(51)
    assert made.idle.state_of("S10").warned
    yield made


async def test_a_session_puts_it_off(warned: Warned) -> None:
    before = warned.idle.state_of("S10").stops_at
    answer = await warned.site.post("session", OWN, b"")
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert told["snoozed_until"] == warned.now + 1800
    assert told["stops_at"] == told["snoozed_until"] > (before or 0)
    assert (told["warned"], told["snoozes_left"], told["snooze"]) == (False, 1, 1800)
    assert (await warned.site.parts.store.snoozes.of_sessions(["S10"]))["S10"].times == 1
    assert await warned.site.audit() == [("ada", "snooze-session", "session S10", "ada", "done")]


@pytest.mark.parametrize(
    ("token", "status"),
    [
        ("ada", 403),  # a person's token is no session's
        ("grace", 403),
        ("barbaras-session", 503),  # it has no job here
        ("unknown", 403),
    ],
)
async def test_those_who_may_not(warned: Warned, token: str, status: int) -> None:
    answer = await warned.site.post(token, OWN, b"")
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]
    assert warned.idle.state_of("S10").snoozes_left == 2
    assert warned.idle.state_of("S10").warned


async def test_too_early_and_too_often_are_told_and_leave_a_line(site: Site) -> None:  # noqa: F811
    early = Warned(site)
    await early.go(20)
    answer = await site.post("session", OWN, b"")
    assert answer.status_code == 409
    assert "nothing to snooze" in answer.json()["error"]["message"]
    await early.go(31)
    for _ in range(2):
        assert (await site.post("session", OWN, b"")).status_code == 200
        await early.go(29)
        assert early.idle.state_of("S10").warned
    answer = await site.post("session", OWN, b"")
    assert answer.status_code == 409
    assert "2 snoozes in a row" in answer.json()["error"]["message"]
    assert [line[4] for line in await site.audit()] == ["failed", "done", "done", "failed"]


async def test_a_situation_has_the_same(warned: Warned) -> None:
    told = warned.site.parts.idle.state_of("S10")
    assert told == warned.idle.state_of("S10")
    assert told.warned and told.stops_at
