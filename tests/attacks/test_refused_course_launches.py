"""Launching sessions of courses that one is not in, as fast as a program can ask."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import orm

from portal.errors import InvalidRequest, NotAllowed, SlurmUnavailable, TooManyRequests
from portal.launch.kinds import reserved_for
from portal.web.audit_rate_limit import AuditRateLimit
from spawners.launch import launch
from spawners.launch.launch import launch_request
from spawners.launch.refusals import refusal
from spawners.launch.refused import RefusedLaunches

MOST = 20


class Site:
    """A Hub on which every launch ends with ``error``; ``judged`` counts what was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.judged = 0
        self.error: Exception | None = NotAllowed("There is no course 'dl101' that you can access.")
        self.shared = SimpleNamespace(refused=RefusedLaunches(MOST))
        self.now = 1000.0
        monkeypatch.setattr("spawners.launch.refused.time.monotonic", lambda: self.now)
        monkeypatch.setattr(launch, "_validated", self._judge)

    async def _judge(self, *_: Any, **__: Any) -> str:
        self.judged += 1
        await asyncio.sleep(0)  # others come between
        if self.error:
            raise self.error
        return "request"

    async def ask(
        self, options: dict[str, Any], name: str = "", *, by: Any = None, runs: bool = False
    ) -> Any:
        handler = SimpleNamespace(current_user=by or orm.User(name="mallory"))
        owner = SimpleNamespace(name="mallory")
        spawner: Any = SimpleNamespace(
            name=name,
            shared=self.shared,
            handler=handler,
            user=owner,
            reserved=reserved_for(name),
        )
        return await launch_request(spawner, options, runs=runs)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


KINDS = ("course-dl101", "rehearsal-dl101", "room-dl101", "preview-dl101")
# Whatever is wrong with it: no such course, others', another server's name, no course at all.
LAUNCHES: list[tuple[dict[str, Any], str]] = [
    *(({"course": "dl101"}, name) for name in (*KINDS, "", "mine")),
    ({"course": "no-such"}, "course-no-such"),
    ({"course": "dl101", "gpus": 1}, "course-dl101"),
    ({"environment": "lab"}, "course-dl101"),
    ({}, "course-dl101"),
    ({}, "room-dl101"),
]


@pytest.mark.parametrize(("options", "name"), LAUNCHES)
@pytest.mark.parametrize("runs", [False, True], ids=["launch", "other resources"])
@pytest.mark.parametrize(
    "error", [NotAllowed("No."), InvalidRequest("No."), SlurmUnavailable("Later.")], ids=type
)
async def test_so_many_are_judged(
    site: Site, options: dict[str, Any], name: str, runs: bool, error: Exception
) -> None:
    site.error = error
    answers = [
        (await asyncio.gather(site.ask(options, name, runs=runs), return_exceptions=True))[0]
        for _ in range(100)
    ]
    assert site.judged == MOST
    assert all(type(one) is type(error) for one in answers[:MOST])
    assert all(type(one) is TooManyRequests for one in answers[MOST:])
    said = refusal(answers[-1])
    assert said.status_code == 429 and said.headers == {"Retry-After": "5"}
    assert "Too many of your launches" in str(said.log_message) and "in 5 s" in str(
        said.log_message
    )


async def test_many_at_once_are_no_more(site: Site) -> None:
    asked = [site.ask({"course": f"c{n}"}, f"course-c{n}") for n in range(200)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert site.judged == MOST
    assert sum(isinstance(one, TooManyRequests) for one in answers) == 200 - MOST


async def test_one_name_for_all_courses(site: Site) -> None:
    """The bound is the person's, not the course's or the server's."""
    for n in range(100):
        options, name = LAUNCHES[n % len(LAUNCHES)]
        with pytest.raises((NotAllowed, TooManyRequests)):
            await site.ask(options, name)
    assert site.judged == MOST


async def test_it_comes_back(site: Site) -> None:
    for _ in range(100):
        with pytest.raises((NotAllowed, TooManyRequests)):
            await site.ask({"course": "dl101"}, "course-dl101")
    for n in range(1, 11):
        site.now += 5
        with pytest.raises(NotAllowed):
            await site.ask({"course": "dl101"}, "course-dl101")
        assert site.judged == MOST + n


async def test_others_and_what_is_allowed_do_not_count(site: Site) -> None:
    for _ in range(100):
        with pytest.raises((NotAllowed, TooManyRequests)):
            await site.ask({"course": "dl101"}, "course-dl101")
    site.error = None
    assert await site.ask({"course": "dl101"}, "course-dl101", by=orm.User(name="ada"))
    for _ in range(100):  # who starts and stops all day
        assert await site.ask({"course": "dl101"}, "course-dl101", by=orm.User(name="ada"))


async def test_the_start_of_a_class_is_not_held_up(site: Site) -> None:
    """The service asks for the session of the one who was refused, among those of all others."""
    service = orm.Service(name="portal")
    for _ in range(300):
        with pytest.raises(NotAllowed):
            await site.ask({"course": "dl101"}, "course-dl101", by=service)
    with pytest.raises(NotAllowed):
        await site.ask({"course": "dl101"}, "course-dl101")


async def test_a_service_of_another_name_is_bounded(site: Site) -> None:
    for _ in range(100):
        with pytest.raises((NotAllowed, TooManyRequests)):
            await site.ask({"course": "dl101"}, "course-dl101", by=orm.Service(name="mallory"))
    assert site.judged == MOST


async def test_a_session_of_ones_own_is_not(site: Site) -> None:
    for _ in range(100):
        with pytest.raises(NotAllowed):
            await site.ask({"environment": "lab"}, "")
    assert site.judged == 100


def test_what_is_given_back_is_never_more_than_there_was() -> None:
    allowance = AuditRateLimit(most=2, per_second=1)
    for _ in range(5):
        allowance.give_back("ada")
    assert [allowance.take("ada", 0) for _ in range(3)] == [0, 0, None]
    for _ in range(5):
        allowance.give_back("ada")
    assert [allowance.take("ada", 0) is None for _ in range(3)] == [False, False, True]
