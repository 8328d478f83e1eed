"""Help in a course, on the real demo: a member of the staff in a student's session, with a terminal
open, and out again; nobody else is ever in."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import local_hosts
import pytest
from api_client import API, SERVICE, Caller
from hub_client import Person, wait_until
from listening import Run, listening_sockets, reached
from notebook_kernel import NotebookKernel
from terminal import type_in, until_closed
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

COURSE = "courses/dl101"
DEBUGGED = "import debugpy; print(debugpy.listen(('127.0.0.1', 0))[1])"
SERVER = "course-dl101"
HELP = f"{COURSE}/people/student01/help"
CUT = 10  # seconds within which who is to go is out


class Class:
    """The people, and student01's session of the course."""

    def __init__(self, url: str) -> None:
        names = ("barbara", "student01", "student02", "grace")
        self.people = {name: Caller(url, name) for name in names}
        self.student = self.people["student01"].person
        self.barbara = self.people["barbara"]
        self.url = self.student.session_url(SERVER)

    def inside(self, who: str, path: str, method: str = "GET", **more: Any) -> httpx.Response:
        headers = {"Authorization": f"token {self.people[who].person.token}"}
        return local_hosts.request(method, self.url + path, headers=headers, **more)

    async def socket(self, who: str, path: str) -> WebSocketClientConnection:
        url, headers = local_hosts.reached(self.url + path)
        headers["Authorization"] = f"token {self.people[who].person.token}"
        return await websocket_connect(HTTPRequest(url.replace("http", "ws", 1), headers=headers))

    def situation(self) -> dict[str, Any]:
        """What the session knows of its course; {} until it was told."""
        found = self.inside("student01", "portal/situation").json()["situation"]
        return dict((found or {}).get("course") or {})

    def reply(self, number: int, answer: str) -> None:
        """As the student's page does."""
        said = self.inside(
            "student01", "portal/help", "POST", json={"id": number, "answer": answer}
        )
        assert said.is_success, said.text

    def shares(self) -> set[tuple[str, str]]:
        """Who may enter which of student01's servers, by the Hub's own word."""
        scopes = self.barbara.person.api("GET", "/user").json()["scopes"]
        return {one for one in scopes if "student01/" in one}

    def granted(self, minutes: int = 10) -> dict[str, Any]:
        """barbara is let in; the help as the service has it."""
        asked = self.barbara.post(HELP, json={"minutes": minutes})
        assert asked.status_code == 202, asked.text
        number = asked.json()["help"]["id"]
        wait_until("the student sees it", lambda: self.situation().get("help"))
        self.reply(number, "agree")
        found = self.barbara.post(HELP, json={"minutes": minutes}).json()
        assert found["help"]["state"] == "granted" and found["url"] == self.url
        return dict(found["help"])


@pytest.fixture(scope="module")
def course(demo: Any) -> Iterator[Class]:
    made = Class(demo.url)
    made.student.stop(SERVER)
    answer = made.student.launch({"course": "dl101"}, SERVER)
    assert answer.status_code in (201, 202), answer.text
    made.student.wait_ready(SERVER)
    wait_until("it knows its course", lambda: made.situation().get("name") == "dl101")
    yield made
    made.student.stop(SERVER)
    for one in made.people.values():
        one.close()


@pytest.fixture(autouse=True)
def nobody_is_in(course: Class) -> Iterator[None]:
    yield
    for one in course.barbara.get(f"{COURSE}/help").json()["open"]:
        course.barbara.post(f"{COURSE}/help/{one['id']}/end")


def test_nobody_but_its_owner_enters(course: Class) -> None:
    """grace is an admin and may open everybody's servers; of a course's she may not."""
    assert course.inside("student01", "api/terminals").status_code == 200
    for who in ("grace", "barbara", "student02"):
        for path in ("api/terminals", "lab", "portal/situation"):
            assert course.inside(who, path).status_code == 403, (who, path)


def test_nothing_of_it_answers_from_inside_another_students_container(
    demo: Any, course: Class
) -> None:
    """The containers share their node's network, and nothing else."""
    if not demo.people:
        pytest.skip("the one-account form has no other student")
    other = course.people["student02"].person
    assert other.launch({"course": "dl101"}, SERVER).status_code in (201, 202)
    owned = {
        name: NotebookKernel.start(course.student, name, server=SERVER)
        for name in ("python3", "bash")
    }
    try:
        assert owned["bash"].run("echo $((6 * 7))").printed == "42\n"
        port = owned["python3"].run(DEBUGGED)
        assert port.status == "ok", port.error
        sockets = listening_sockets(lambda argv: str(demo.run(argv).stdout), "/home/student01")
        other.wait_ready(SERVER)
        intruder = NotebookKernel.start(other, "python3", server=SERVER)
        inside = _inside(intruder)
        ports = inside(["", "-c", "print(open('/proc/net/tcp').read())"])
        assert f"0100007F:{int(port.printed):04X}" in ports, "the network is the node's"
        assert len(sockets) >= 12, "those of two kernels, the debugger, and the session's page"
        assert not [at for _, at in sockets if str(at).startswith("\0")], "abstract sockets"
        assert reached(inside, sockets, f"/user/student01/{SERVER}/api/kernels") == {}
        intruder.leave()
    finally:
        for kernel in owned.values():
            kernel.shut_down()
            kernel.leave()
        other.stop(SERVER)


def _inside(kernel: NotebookKernel) -> Run:
    """Run a program for Python in the container of a kernel."""

    def run(argv: list[str]) -> str:
        code = f"import subprocess, sys; argv = [sys.executable, *{argv[1:]!r}]"
        ran = kernel.run(f"{code}\nprint(subprocess.check_output(argv, text=True), end='')", 300)
        assert ran.status == "ok", ran.error
        return ran.printed

    return run


@pytest.mark.parametrize("by", ["student", "staff"])
async def test_an_open_terminal_ends_with_the_help(course: Class, by: str) -> None:
    name = course.inside("student01", "api/terminals", "POST").json()["name"]
    path = f"terminals/websocket/{name}"
    help_ = await asyncio.to_thread(course.granted)
    assert course.shares() == {f"access:servers!server=student01/{SERVER}"}, "one server, no more"
    own, helper = await course.socket("student01", path), await course.socket("barbara", path)
    await type_in(helper, "echo $((6 * 7))", "42")
    assert course.inside("grace", "api/terminals").status_code == 403
    assert course.situation()["help"][0]["helper"] == "barbara"

    if by == "student":
        course.reply(help_["id"], "end")
    else:
        assert course.barbara.post(f"{COURSE}/help/{help_['id']}/end").is_success

    def out() -> bool:  # the session's server believes an answer for half a second
        return course.inside("barbara", "api/terminals").status_code == 403

    await asyncio.to_thread(wait_until, "barbara is out", out, CUT)
    with pytest.raises(HTTPClientError, match="403"):
        await course.socket("barbara", path)
    assert await until_closed(helper) < CUT
    assert course.shares() == set()
    await type_in(own, "echo $((6 * 8))", "48")
    own.close()


def test_a_login_in_a_browser_ends_with_the_help(course: Class) -> None:
    """The cookie of the session's host holds a token of the Hub, which is gone afterwards."""
    http = new_browser(course).http
    help_ = course.granted()
    page = http.get(f"{course.url}lab")
    assert asks(page), "a bare link"
    form = re.findall(r'name="(_xsrf|scopes)"[^>]*value="([^"]*)"', page.text)
    page = http.post(str(page.url), data=dict(form))
    assert page.status_code == 200 and "jupyter-config-data" in page.text
    client = f"jupyterhub-user-student01-{SERVER}"

    def logins() -> list[dict[str, Any]]:
        found = course.barbara.person.api("GET", "/users/barbara/tokens").json()["api_tokens"]
        return [one for one in found if client in json.dumps(one) or SERVER in json.dumps(one)]

    assert logins()
    assert course.barbara.post(f"{COURSE}/help/{help_['id']}/end").is_success
    # The session's server believes an answer of the portal for half a second.
    wait_until("out", lambda: http.get(f"{course.url}api/contents").status_code == 403, CUT)
    assert logins() == []
    # The Hub does not lead back in.
    assert http.get(f"{course.url}lab").status_code == 403


def asks(page: httpx.Response) -> bool:
    """Whether the Hub asks before it lets a browser into another's session."""
    return "/hub/api/oauth2/authorize" in str(page.url) and "Authorize" in page.text


def new_browser(course: Class) -> Person:
    """barbara's, which no session knows: one remembers logins for minutes."""
    person = Person(course.barbara.person.url, "barbara")
    person.api("GET", "/user")  # a token
    return person


def xsrf_of_service(person: Person) -> str:
    """The token of the service's pages, for this login."""
    page = person.http.get(f"{SERVICE}sessions", headers={"Sec-Fetch-Mode": "navigate"})
    assert page.status_code == 200
    jar = person.http.cookies.jar
    (token,) = [one.value for one in jar if (one.name, one.path) == ("_xsrf", SERVICE)]
    return str(token)


def test_one_click_after_consent_opens_the_session(course: Class) -> None:
    person, help_ = new_browser(course), course.granted()
    assert asks(person.http.get(f"{course.url}lab"))
    pressed = person.http.post(
        f"{API}{COURSE}/help/{help_['id']}/enter",
        headers={"X-XSRFToken": xsrf_of_service(person), "Sec-Fetch-Site": "same-origin"},
    )
    assert (pressed.status_code, pressed.json()) == (200, {"url": course.url}), pressed.text
    page = person.http.get(f"{course.url}lab")
    assert page.status_code == 200 and "jupyter-config-data" in page.text, page.url
    # What that login may do: say who it is, and enter this one session.
    tokens = person.api("GET", "/users/barbara/tokens").json()["api_tokens"]
    (login,) = [one for one in tokens if SERVER in one["oauth_client"]]
    assert set(login["scopes"]) == {
        f"access:servers!server=student01/{SERVER}",
        "read:users:groups!user=barbara",
        "read:users:name!user=barbara",
    }


def test_no_page_or_program_presses_for_the_helper(course: Class) -> None:
    person, help_ = new_browser(course), course.granted()
    door = f"{API}{COURSE}/help/{help_['id']}/enter"
    xsrf, token = xsrf_of_service(person), {"Authorization": f"token {person.token}"}
    pressed = {"X-XSRFToken": xsrf, "Sec-Fetch-Site": "same-origin"}
    attacks: dict[str, tuple[str, dict[str, str], int]] = {
        "a form of another page": ("POST", {}, 403),
        "with the Hub's token": ("POST", {**pressed, "X-XSRFToken": person.xsrf}, 403),
        "a session's page that knows it": ("POST", {**pressed, "Sec-Fetch-Site": "same-site"}, 403),
        "a page of another site": ("POST", {**pressed, "Sec-Fetch-Site": "cross-site"}, 403),
        "a program": ("POST", {**token, **pressed}, 403),
        "a link": ("GET", {"Sec-Fetch-Mode": "navigate"}, 405),
    }
    for name, (method, headers, status) in attacks.items():
        answer = person.http.request(method, door, headers=headers, follow_redirects=False)
        assert answer.status_code == status, f"{name}: {answer.status_code} {answer.text}"
        assert asks(person.http.get(f"{course.url}lab")), name
    for who in ("student01", "student02", "grace"):
        other = course.people[who].person
        headers = {**pressed, "X-XSRFToken": xsrf_of_service(other)}
        assert other.http.post(door, headers=headers).status_code == 403, who
    assert asks(person.http.get(f"{course.url}lab"))
    page = person.http.get(f"{SERVICE}courses/dl101/board")
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]


def test_an_own_session_asks_nothing(course: Class) -> None:
    page = course.student.http.get(f"{course.url}lab")
    assert page.status_code == 200 and "jupyter-config-data" in page.text, page.url


def test_the_audit_log_tells_it(course: Class) -> None:
    help_ = course.granted()
    course.reply(help_["id"], "end")
    grace = course.people["grace"]
    items = grace.get("audit", params={"limit": 20}).json()["items"]
    lines = [(one["actor"], one["action"]) for one in items if "session" in one["target"]]
    told = {
        ("student01", "end-help"), ("student01", "agree-to-help"), ("portal", "grant-help"),
        ("barbara", "ask-to-help"),
    }  # fmt: skip
    assert told <= set(lines)


def test_a_hand_and_a_message(course: Class) -> None:
    said = course.inside("student01", "portal/hand", "POST", json={"text": "Cell 3"})
    assert said.is_success, said.text
    wait_until("the hand is up", lambda: course.situation()["hand"] == "Cell 3")
    assert course.barbara.delete(f"{COURSE}/people/student01/hand").is_success
    wait_until("the hand is down", lambda: course.situation()["hand"] == "")
    made = course.barbara.post(f"{COURSE}/messages", json={"text": "Ten minutes", "minutes": 5})
    assert made.status_code == 201, made.text
    wait_until("it is shown", lambda: course.situation()["messages"])
    path = f"{COURSE}/messages/{made.json()['id']}"
    assert course.barbara.delete(path).is_success
    wait_until("it is gone", lambda: not course.situation()["messages"])


def test_only_the_hub_s_service_lets_people_in(course: Class) -> None:
    path = f"/portal/guests/student01/{SERVER}/barbara"
    entry = f"/portal/entries/barbara/student01/{SERVER}"
    for who in ("barbara", "grace", "student01"):
        for method, address in (("PUT", path), ("DELETE", path), ("PUT", entry)):
            assert course.people[who].person.api(method, address).status_code == 403
