"""Each person's sessions have a host of their own: what runs there has not the Hub's origin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import local_hosts
import pytest
from hub_client import Person, wait_until, with_session
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

SERVICE = "/services/portal/"


@pytest.fixture(scope="module")
def student(demo: Any) -> Iterator[Person]:
    """Someone with a session, who logged in at the Hub alone."""
    yield from with_session(Person(demo.url, "student11"), {"environment": "python-venv"})


def origin(url: str) -> tuple[str, str]:
    parts = urlsplit(str(url))
    return parts.scheme, parts.netloc


def cookies(person: Person, url: str) -> list[str]:
    """The names of the cookies that a browser of this person would send to ``url``."""
    header = person.http.build_request("GET", url).headers.get("Cookie", "")
    return [one.split("=")[0].strip() for one in header.split(";") if one]


def test_a_session_has_another_origin_than_the_hub(demo: Any, student: Person) -> None:
    own = student.server()["full_url"]
    assert own == student.session_url()
    assert urlsplit(own).hostname == "student11.localhost"
    assert origin(own) != origin(demo.url)
    assert student.session("GET", "api/status").status_code == 200
    # On the Hub's host there is no session, only the way to it, and none for other methods.
    there = f"{demo.url}/user/student11/api/status"
    token = {"Authorization": f"token {student.token}"}
    assert local_hosts.request("GET", there, headers=token).status_code == 302
    assert local_hosts.request("POST", there, headers=token).status_code in (403, 405)


def test_a_link_leads_from_the_hub_to_the_session(demo: Any, student: Person) -> None:
    page = student.http.get("/user/student11/lab?reset=1#x")
    assert page.status_code == 200
    assert str(page.url).startswith(f"{student.session_url()}lab?reset=1")
    known = {origin(demo.url), origin(student.host())}
    assert {origin(str(step.url)) for step in page.history} <= known


def test_a_session_links_to_the_portals_pages(demo: Any, student: Person) -> None:
    told = wait_until(
        "the portal has seen the session",
        lambda: (
            (answer := student.session("GET", "portal/situation")).status_code == 200
            and answer.json().get("situation")
        ),
    )
    assert len(told["links"]) == 3
    for link in told["links"].values():
        assert link.startswith(f"{demo.url}/")
        assert student.http.get(link).status_code == 200


def test_the_hubs_cookies_stay_with_the_hub(demo: Any, student: Person) -> None:
    assert student.http.get("/user/student11/lab").status_code == 200  # logged in there
    assert student.http.get(SERVICE).status_code == 200
    hub = cookies(student, f"{demo.url}/hub/home")
    inside = cookies(student, f"{student.session_url()}lab")
    assert "jupyterhub-hub-login" in hub and "jupyterhub-session-id" in hub
    assert set(inside) == {"jupyterhub-user-student11", "_xsrf"}
    assert "jupyterhub-user-student11" not in hub
    assert "service-portal" in cookies(student, f"{demo.url}{SERVICE}")
    assert cookies(student, f"{student.host()}/hub/home") == []
    assert cookies(student, f"{student.host()}{SERVICE}") == []
    assert cookies(student, f"{demo.url.replace('//', '//student12.')}/user/student11/lab") == []


def test_at_a_sessions_host_nobody_is_logged_in_at_the_hub(demo: Any, student: Person) -> None:
    for path in ("/hub/api/user", f"{SERVICE}api/v1/sessions"):
        answer = student.http.get(student.host() + path, follow_redirects=False)
        assert answer.status_code in (302, 403), path
        assert answer.headers.get("Location", demo.url).startswith(demo.url)


def test_the_service_stays_on_the_hubs_host(demo: Any, person: Callable[[str], Person]) -> None:
    ada = person("ada")
    page = ada.http.get(f"{SERVICE}sessions")
    assert (page.status_code, str(page.url)) == (200, f"{demo.url}{SERVICE}sessions")
    # The Hub's pages name it by its path, which keeps the port.
    home = ada.http.get("/hub/home").text
    assert f'href="{SERVICE}sessions"' in home and f'data-service="{SERVICE}"' in home
    policy = page.headers["Content-Security-Policy"]
    assert "student11" not in policy and "*" not in policy


def test_after_login_a_session_is_led_to_at_its_host(demo: Any, student: Person) -> None:
    again = local_hosts.client(demo.url)
    page = again.get(f"{student.session_url()}lab")
    assert origin(str(page.url)) == origin(demo.url) and "/hub/login" in str(page.url)
    xsrf = next(c.value for c in again.cookies.jar if (c.name, c.path) == ("_xsrf", "/hub/"))
    form = {"username": "student11", "password": "portal-demo", "_xsrf": xsrf}
    page = again.post(page.url, data=form)
    assert page.status_code == 200
    assert str(page.url).startswith(f"{student.session_url()}lab")


async def test_a_page_of_another_session_cannot_open_a_websocket(student: Person) -> None:
    made = await asyncio.to_thread(student.session, "POST", "api/terminals")
    url, headers = local_hosts.reached(
        f"{student.session_url()}terminals/websocket/{made.json()['name']}"
    )
    await asyncio.to_thread(student.http.get, "/user/student11/lab")
    page = student.http.build_request("GET", f"{student.session_url()}lab")
    headers["Cookie"] = page.headers["Cookie"]
    port = urlsplit(student.host()).port
    for who, let_in in (("student11", True), ("student12", False)):
        asked = HTTPRequest(
            url.replace("http", "ws", 1),
            headers={**headers, "Origin": f"http://{who}.localhost:{port}"},
        )
        if let_in:
            (await websocket_connect(asked)).close()
        else:
            with pytest.raises(HTTPClientError, match="403"):
                await websocket_connect(asked)


@pytest.mark.parametrize("path", ["login", "home", "token", "api/user", "spawn"])
def test_the_hub_answers_at_its_own_host_alone(demo: Any, student: Person, path: str) -> None:
    headers = {"Sec-Fetch-Mode": "navigate", "Accept": "text/html"}
    there = student.http.get(
        f"{student.host()}/hub/{path}?x=1", follow_redirects=False, headers=headers
    )
    assert there.status_code == 302 and "Set-Cookie" not in there.headers
    assert there.headers["Location"] == f"{demo.url}/hub/{path}?x=1"
    assert student.http.get(f"{demo.url}/hub/{path}", headers=headers).status_code == 200


def test_nobody_logs_in_at_a_sessions_host(demo: Any, student: Person) -> None:
    form = {"username": "student12", "password": "portal-demo"}
    answer = local_hosts.request("POST", f"{student.host()}/hub/login", data=form)
    assert answer.status_code == 403 and "Set-Cookie" not in answer.headers
    assert f"The portal is only available at {demo.url}" in answer.text
    auth = {"auth": form}
    url = "/hub/api/users/student12/tokens"
    answer = local_hosts.request("POST", student.host() + url, json=auth)
    assert answer.status_code == 403 and "token" not in answer.json()


def test_a_body_that_is_too_large_is_refused_before_any_login(demo: Any) -> None:
    for content in (b"a" * (1024 * 1024 + 1), iter([b"a" * 65536] * 20)):
        answer = local_hosts.request("POST", f"{demo.url}/hub/login", content=content)
        assert answer.status_code == 413
        assert "at most 16384 bytes" in answer.json()["message"]
    answer = local_hosts.request("PUT", f"{demo.url}/hub/api/users", content=b"a" * (1024**2 + 1))
    assert answer.status_code == 413 and "at most 1048576 bytes" in answer.json()["message"]
    answer = local_hosts.request("POST", f"{demo.url}/hub/api/users", content=b"a" * 1024 * 1024)
    assert answer.status_code == 403


@pytest.mark.parametrize("path", ["/hub/login", f"{SERVICE}sessions"])
@pytest.mark.parametrize("number", [5, 180])
def test_a_bomb_of_cookies_is_deleted(demo: Any, path: str, number: int) -> None:
    bomb = "; ".join(f"x{at}={'a' * 4000}" for at in range(number))
    answer = local_hosts.request("GET", demo.url + path, headers={"Cookie": bomb})
    assert answer.status_code == 431
    assert "KB of cookies" in answer.json()["message"]
    deleted = answer.headers.get_list("Set-Cookie")
    assert deleted and all("Max-Age=0" in cookie for cookie in deleted)


def test_a_tokens_note_has_a_length(person: Callable[[str], Person]) -> None:
    ada = person("ada")
    answer = ada.api("POST", "/users/ada/tokens", {"note": "a" * 1024})
    assert answer.status_code == 400
    assert answer.json()["message"] == "'note' is too long: at most 1023 characters are allowed."
    answer = ada.api("POST", "/users/ada/tokens", {"note": "a" * 1023})
    assert answer.status_code == 201
    assert ada.api("DELETE", f"/users/ada/tokens/{answer.json()['id']}").status_code == 204
