"""A course's room, on the real demo: two people in one notebook, and nobody who is not in the
course."""

from __future__ import annotations

import asyncio
import html
import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import local_hosts
import pytest
from api_client import API, SERVICE, Caller
from hub_client import wait_until
from machine_clock import awake
from shared_notebook import FILE, NOTEBOOK, SharedNotebook, opened, opened_by_two

COURSE = "courses/dl101"
ROOM = f"{COURSE}/room"
SERVER = "room-dl101"
CUT = 10  # seconds within which who is to go is out
People = dict[str, Caller]
Room = dict[str, Any]


def token(caller: Caller) -> dict[str, str]:
    return {"Authorization": f"token {caller.person.token}"}


def inside(caller: Caller, url: str, path: str, method: str = "GET", **more: Any) -> httpx.Response:
    return local_hosts.request(method, url + path, headers=token(caller), **more)


@pytest.fixture(scope="module")
def people(demo: Any) -> Iterator[People]:
    found = {name: Caller(demo.url, name) for name in ("barbara", "student01", "student30", "ada")}
    yield found
    for one in found.values():
        one.close()


@pytest.fixture(scope="module")
def room(people: People) -> Iterator[Room]:
    """The room, opened by barbara, with a notebook in it."""
    barbara = people["barbara"]
    barbara.delete(ROOM)
    wait_until("no room", lambda: barbara.get(ROOM).json()["state"] is None)
    refused = people["student01"].post(ROOM)
    assert refused.status_code == 403, refused.text
    answer = barbara.post(ROOM)
    assert answer.status_code == 202, answer.text
    found = wait_until(
        "the room runs", lambda: (one := people["student01"].get(ROOM).json())["url"] and one, 180
    )
    model = {"type": "notebook", "format": "json", "content": NOTEBOOK}
    path = f"api/contents/{FILE}"
    made = wait_until(
        "the room answers",
        lambda: (one := inside(barbara, found["url"], path, "PUT", json=model)).is_success and one,
    )
    assert made.json()["writable"]
    yield found
    barbara.delete(ROOM)
    wait_until("the room is closed", lambda: barbara.get(ROOM).json()["state"] is None)


async def until_closed(page: SharedNotebook) -> float:
    """Seconds until the server has closed this page's socket."""
    began = awake()
    while not page.channel.closed:
        assert awake() - began < 2 * CUT, "the socket is still open"
        await asyncio.sleep(0.1)
    return awake() - began


async def test_two_people_in_one_notebook(room: Room, people: People) -> None:
    url, barbara, student = room["url"], people["barbara"], people["student01"]
    async with opened_by_two(url, token(barbara), token(student)) as (first, second):
        first.type("\ny = 2  # barbara")
        await second.until("y = 2  # barbara")
        second.type("\nz = 3  # student01")
        await first.until("z = 3  # student01")
        there = await asyncio.to_thread(
            wait_until,
            "both are seen",
            lambda: (one := student.get(ROOM).json())["people"] == ["barbara", "student01"] and one,
        )
    assert there["by"] == "barbara" and there["since"] < time.time()
    # JupyterLab shows people by the names that the Hub knows.
    assert inside(student, url, "api/me").json()["identity"]["display_name"] == "student01"
    await asyncio.to_thread(
        wait_until,
        "it is saved",
        lambda: "z = 3" in inside(student, url, f"api/contents/{FILE}").text,
    )


def test_nobody_else_is_let_in(room: Room, people: People) -> None:
    ada, url = people["ada"], room["url"]
    assert ada.get(ROOM).status_code == 403
    assert inside(ada, url, f"api/contents/{FILE}").status_code == 403
    answer = inside(ada, url, f"api/collaboration/session/{FILE}", "PUT", json={})
    assert answer.status_code == 403


def test_a_member_is_let_into_the_room_and_nothing_else(room: Room, people: People) -> None:
    url, student, barbara = room["url"], people["student01"], people["barbara"]
    # A host of its own: what runs in the room's pages is at no other session's origin.
    assert urlsplit(url).hostname not in {urlsplit(barbara.person.host()).hostname, "localhost"}
    assert inside(student, url, "api/terminals").status_code == 404
    assert inside(student, url, "portal/extend", "POST", json={"minutes": 5}).status_code == 403
    names = {one["name"] for one in inside(student, url, "api/contents").json()["content"]}
    assert names == {FILE}
    assert student.person.api("DELETE", f"/users/barbara/servers/{SERVER}").status_code in (
        403,
        404,
    )


def test_a_browser_s_login_comes_back_to_the_room_s_host(room: Room, people: People) -> None:
    """With a cookie, and after JupyterHub has asked whether they want to enter another's server."""
    browser, host = people["student01"].person.http, urlsplit(room["url"]).netloc
    page = browser.get(f"{room['url']}lab")
    if urlsplit(str(page.url)).path == "/hub/api/oauth2/authorize":
        fields: dict[str, list[str]] = {}
        for name, value in re.findall(r'<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"', page.text):
            fields.setdefault(name, []).append(html.unescape(value))
        page = browser.post(page.url, data=fields, headers={"Referer": str(page.url)})
    assert page.status_code == 200 and page.url.netloc.decode() == host, page.url
    assert page.url.path.endswith("/lab") and "jupyter-config-data" in page.text
    ada = people["ada"].person.http.get(f"{room['url']}lab")
    assert ada.status_code == 403 or "jupyter-config-data" not in ada.text


def test_a_click_on_the_courses_page_opens_the_room(room: Room, people: People) -> None:
    browser = people["student30"].person.http
    visit = browser.get(f"{SERVICE}courses/dl101", headers={"Sec-Fetch-Mode": "navigate"})
    assert visit.status_code == 200
    jar = browser.cookies.jar
    (xsrf,) = [one.value for one in jar if (one.name, one.path) == ("_xsrf", SERVICE)]
    opened = browser.post(f"{API}{ROOM}/enter", headers={"X-XSRFToken": str(xsrf)})
    assert (opened.status_code, opened.json()) == (200, {"url": room["url"]}), opened.text
    page = browser.get(f"{room['url']}lab")
    assert page.status_code == 200 and "jupyter-config-data" in page.text, page.url


async def test_who_leaves_the_course_is_out(room: Room, people: People) -> None:
    url, barbara, student = room["url"], people["barbara"], people["student30"]
    async with opened(url, FILE, token(student)) as page:
        await page.until("x = 1")
        answer = barbara.delete(f"{COURSE}/roster", params={"person": "student30"})
        assert answer.is_success, answer.text
        try:
            assert await until_closed(page) < CUT
            assert inside(student, url, "api/contents").status_code == 403
        finally:
            barbara.post(f"{COURSE}/roster", json={"text": "student30"})


async def test_when_it_closes_everyone_is_out(room: Room, people: People) -> None:
    url, barbara, student = room["url"], people["barbara"], people["student01"]
    async with opened(url, FILE, token(student)) as page:
        await page.until("x = 1")
        answer = barbara.delete(ROOM)
        assert answer.status_code == 200, answer.text
        assert await until_closed(page) < CUT
    await asyncio.to_thread(wait_until, "closed", lambda: student.get(ROOM).json()["state"] is None)
    left = inside(student, url, "api/contents")
    # The room's host is gone: the Hub answers, from its own.
    host = urlsplit(left.headers.get("Location", "")).hostname
    assert (left.status_code, host) == (302, "localhost") or left.status_code in (403, 404, 424)
