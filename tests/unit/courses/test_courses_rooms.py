"""Rooms of courses (portal.courses.live.rooms, portal/handlers/courses/room.py): who opens, closes
and enters one. The Hub is played; tests/hub/courses/test_course_room.py has the real one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from courses_site import Site, running
from fake_hub import FakeHub
from session_records import recorded

from portal.errors import HubUnavailable, NotFound
from portal.handlers.base import entry
from portal.launch.course_space import CourseSpace
from portal.launch.kinds.jupyterlab import JupyterLab
from portal.models.session.session import SessionRecord, SessionState
from portal.models.session.stop_reason import StopCode
from portal.models.space import Role
from portal.work.course.kind import Room
from portal.work.course.parts import CourseParts

TODAY = datetime.now(UTC).date()
NOW = {"begins": str(TODAY - timedelta(1)), "ends": str(TODAY + timedelta(1)), "together": True}
ROOM = "courses/deep/room"


class Hub(FakeHub):
    """Starts servers by writing their record, as the real one does; ``shared`` are its shares."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.site = site
        self.shared: set[tuple[str, str]] = set()
        self.no_shares = False
        self.may_share = asyncio.Event()
        self.may_share.set()

    async def start_server(self, user: str, server: str, options: Any) -> None:
        assert options == {"course": "deep"}
        await super().start_server(user, server, options)
        await self.site.parts.store.sessions.save(
            recorded(
                id=f"r{len(self.begun)}", user=user, server=server, space="deep", job_id="7",
                state=SessionState.RUNNING, submitted_at=time.time(), started_at=time.time(),
            )
        )  # fmt: skip

    async def stop_server(self, user: str, server: str, **about: Any) -> None:
        await super().stop_server(user, server, **about)
        (record,) = await self.site.parts.store.sessions.living()
        over = {"state": SessionState.ENDED, "ended_at": time.time()}
        await self.site.parts.store.sessions.save(record.model_copy(update=over))

    async def open_room(self, user: str, server: str) -> None:
        if self.no_shares:
            raise HubUnavailable("The Hub does not answer.")
        await self.may_share.wait()
        self.shared.add((user, server))

    async def close_room(self, user: str, server: str) -> None:
        if self.no_shares:
            raise HubUnavailable("The Hub does not answer.")
        self.shared.discard((user, server))

    async def room_url(self, user: str, server: str) -> str:
        return f"http://room.localhost/user/{user}/{server}/"

    async def rooms(self) -> list[tuple[str, str]]:
        return sorted(self.shared)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running(tmp_path) as found:
        await found.approved(**NOW)
        await found.put("deep", ada=Role.ASSISTANT, student01=Role.STUDENT)
        found.parts.parts_for(CourseParts).rooms.hub = Hub(found)  # type: ignore[assignment]
        found.parts.parts_for(CourseParts).rooms.subdomains = True
        yield found


def hub_of(site: Site) -> Hub:
    return site.parts.parts_for(CourseParts).rooms.hub  # type: ignore[return-value]


async def room_record(site: Site) -> SessionRecord:
    (record,) = await site.parts.store.sessions.living()
    return record


async def test_staff_opens_it_and_the_course_sees_where_it_is(site: Site) -> None:
    before = await site.done("student01", "GET", ROOM)
    assert before["state"] is None and before["why_not"] == ""
    await site.refused(403, "student01", "POST", ROOM)
    await site.refused(403, "eve", "GET", ROOM)
    assert not hub_of(site).shared
    await site.done("ada", "POST", ROOM)
    assert hub_of(site).shared == {("ada", "room-deep")}
    site.parts.parts_for(CourseParts).rooms.record_people(
        await room_record(site), ["student01", "ada"]
    )
    room = await site.done("student01", "GET", ROOM)
    assert room["by"] == "ada" and room["people"] == ["ada", "student01"]
    assert room["url"] == "http://room.localhost/user/ada/room-deep/" and room["since"]
    again = await site.refused(409, "barbara", "POST", ROOM)
    assert "ada has already opened the room" in again["message"]
    # An admin who is not in the course may look, and does not get in by opening one.
    await site.done("grace", "GET", ROOM)
    await site.refused(403, "grace", "POST", ROOM)
    await site.refused(403, "student01", "DELETE", ROOM)
    await site.done("barbara", "DELETE", ROOM)
    assert not hub_of(site).shared
    assert (await site.done("student01", "GET", ROOM))["state"] is None
    lines = [line for line in await site.audit() if "room" in line[1]]
    assert ("ada", "open-room", "course deep", "done") in lines
    assert ("barbara", "close-room", "session r1", "done") in lines
    assert ("grace", "open-room", "course deep", "refused") in lines


async def test_members_enter_from_the_portals_page(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, "is_click", lambda handler: True)
    door = f"{ROOM}/enter"
    await site.refused(409, "student01", "POST", door)
    await site.done("ada", "POST", ROOM)
    for outsider in ("eve", "grace"):
        await site.refused(403, outsider, "POST", door)
    await site.refused(405, "student01", "GET", door)
    assert site.hub.admitted == []
    opened = await site.done("student01", "POST", door)
    assert opened == {"url": "http://ada.localhost/user/ada/room-deep/"}
    assert site.hub.admitted == [("ada", "room-deep", "student01")]


async def test_nobody_is_sent_to_a_room_that_is_not_shared_yet(site: Site) -> None:
    """The Hub would turn them away."""
    for _ in range(2):  # the second is another session
        hub_of(site).may_share.clear()
        opening = asyncio.ensure_future(site.done("ada", "POST", ROOM))
        async with asyncio.timeout(120):
            while (room := await site.done("student01", "GET", ROOM))["state"] != "running":
                await asyncio.sleep(0.01)
        assert room["url"] == ""
        hub_of(site).may_share.set()
        await opening
        assert (await site.done("student01", "GET", ROOM))["url"]
        await site.done("ada", "DELETE", ROOM)


async def test_a_service_that_starts_anew_finds_the_room(site: Site) -> None:
    await site.done("ada", "POST", ROOM)
    site.parts.parts_for(CourseParts).rooms._shared.clear()
    site.parts.parts_for(CourseParts).rooms._shares_at = float("-inf")
    assert (await site.done("student01", "GET", ROOM))["url"] == ""
    await site.parts.parts_for(CourseParts).rooms.run_due(time.time())
    assert (await site.done("student01", "GET", ROOM))["url"]


async def test_its_session_lets_in_members_and_nobody_when_it_closes(site: Site) -> None:
    rooms = site.parts.parts_for(CourseParts).rooms
    await site.done("barbara", "POST", ROOM)
    record = await room_record(site)
    assert set(await rooms.guests(record, time.time())) == {"barbara", "ada", "student01"}
    await site.parts.store.members.remove("deep", ["student01"])
    assert set(await rooms.guests(record, time.time())) == {"barbara", "ada"}
    later = time.time() + 5 * 86400  # the course has ended
    assert await rooms.guests(record, later) == {}
    hub_of(site).no_shares = True
    await site.done("barbara", "DELETE", ROOM)
    assert await rooms.guests(record, time.time()) == {}
    # The share that could not be taken back then is taken back later.
    assert hub_of(site).shared
    hub_of(site).no_shares = False
    await rooms.run_due(time.time())
    assert not hub_of(site).shared


async def test_what_the_hub_refuses_for_one_room_is_not_in_the_way_of_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody's own server can be called like a room, and shared."""
    await site.done("ada", "POST", ROOM)
    hub = hub_of(site)
    hub.shared = {("aaron", "room-of-his-own-with-a-long-name")}
    close = hub.close_room

    async def close_room(user: str, server: str) -> None:
        if user == "aaron":
            raise NotFound("There is no such course room.")
        await close(user, server)

    monkeypatch.setattr(hub, "close_room", close_room)
    await site.parts.parts_for(CourseParts).rooms.run_due(time.time())
    assert ("ada", "room-deep") in hub.shared


async def test_a_room_that_may_be_no_longer_is_closed(site: Site) -> None:
    await site.done("ada", "POST", ROOM)
    await site.parts.parts_for(CourseParts).rooms.run_due(time.time())
    assert hub_of(site).shared == {("ada", "room-deep")}
    await site.parts.store.members.remove("deep", ["ada"])
    await site.parts.parts_for(CourseParts).rooms.run_due(time.time())
    assert not hub_of(site).shared and not await site.parts.store.sessions.living()
    ((*_, reason),) = hub_of(site).stopped
    assert reason and reason.code is StopCode.COURSE_OVER
    assert reason.words == "ada is no longer on the course's staff."
    assert ("portal", "close-room", "session r1", "done") in await site.audit()


async def test_where_there_can_be_none(site: Site) -> None:
    site.parts.parts_for(CourseParts).rooms.subdomains = False
    error = await site.refused(409, "barbara", "POST", ROOM)
    assert "subdomain_host" in error["message"]
    assert "subdomain_host" in (await site.done("student01", "GET", ROOM))["why_not"]
    site.parts.parts_for(CourseParts).rooms.subdomains = True
    stored = await site.parts.store.courses.get("deep")
    alone = stored.course.model_copy(update={"together": False})
    await site.parts.store.courses.save(stored.model_copy(update={"course": alone}))
    site.parts.memberships.forget()
    error = await site.refused(409, "barbara", "POST", ROOM)
    assert "instructor can enable them" in error["message"]


async def test_a_room_that_cannot_be_shared_does_not_stay(site: Site) -> None:
    hub_of(site).no_shares = True
    await site.refused(503, "barbara", "POST", ROOM)
    assert not await site.parts.store.sessions.living()


def test_a_room_s_folder_is_not_its_owner_s_own() -> None:
    space = CourseSpace(name="deep", role=Role.INSTRUCTOR)
    folders = [
        kind(space=space).script_variables("ada", "/home/ada") for kind in (JupyterLab, Room)
    ]
    folders = [one["PORTAL_COURSE_FOLDER"] for one in folders]
    assert folders == ["/home/ada/courses/deep", "/home/ada/courses/deep.room"]
