"""Entrance to another user's session: what counts as a click on the portal's page, and an admin's
opening of a session. The Hub is played; tests/hub/courses/test_course_entry.py has a real one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from courses_site import PEOPLE, Site, running
from jupyterhub.services.auth import HubOAuth
from session_endpoints import person
from session_records import recorded
from tornado.httputil import HTTPHeaders

from portal.handlers.base import entry
from portal.models.scope import SERVERS_OPEN
from portal.models.session.session import SessionState

OPEN = "sessions/S1/open"
COOKIE = "service-portal=x; _xsrf=y"


def click(headers: dict[str, str], query: str = "") -> bool:
    """Return what the service says of a request whose cookie and XSRF token are right."""
    auth = HubOAuth(
        api_token="x", oauth_client_id="service-portal", base_url="/", api_url="http://hub"
    )
    handler: Any = SimpleNamespace(
        hub_auth=auth,
        request=SimpleNamespace(headers=HTTPHeaders({"Cookie": COOKIE, **headers})),
        get_argument=lambda name, default=None: query or default,
    )
    return entry.is_click(handler)


@pytest.mark.parametrize("headers", [{}, {"Sec-Fetch-Site": "same-origin"}])
def test_a_page_of_the_portal_is_a_click(headers: dict[str, str]) -> None:
    assert click(headers)


@pytest.mark.parametrize("site", ["same-site", "cross-site", "none", ""])
def test_a_page_elsewhere_is_none(site: str) -> None:
    assert not click({"Sec-Fetch-Site": site})


@pytest.mark.parametrize("kind", ["token", "Bearer"])
def test_a_token_is_none(kind: str) -> None:
    assert not click({"Authorization": f"{kind} abc"})
    assert not click({"Authorization": f"{kind} abc", "Sec-Fetch-Site": "same-origin"})


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setitem(PEOPLE, "helen", person("helen", SERVERS_OPEN))
    monkeypatch.setattr(entry, "is_click", lambda handler: True)
    monkeypatch.setattr("portal.handlers.sessions.actions.is_click", lambda handler: True)
    async with running(tmp_path) as made:
        record = recorded(
            id="S1", user="ada", server="two", state=SessionState.RUNNING, submitted_at=1.0
        )
        await made.parts.store.sessions.save(record)
        yield made


async def test_an_admin_who_opens_a_session_is_not_asked_again(site: Site) -> None:
    opened = await site.done("helen", "POST", OPEN, {"reason": "ada asked"})
    assert opened == {"url": "/user/ada/two/"}
    assert site.hub.admitted == [("ada", "two", "helen")]


async def test_who_may_not_open_it_gets_no_entry(site: Site) -> None:
    for who in ("eve", "grace"):
        answer = await site.ask(who, "POST", OPEN, {})
        assert answer.status_code in (403, 404), who
    await site.refused(405, "helen", "GET", OPEN)
    assert site.hub.admitted == []


async def test_an_own_session_needs_no_entry(site: Site) -> None:
    assert (await site.done("ada", "POST", OPEN, {}))["url"] == "/user/ada/two/"
    assert site.hub.admitted == []


async def test_a_program_gets_the_address_alone(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.handlers.sessions.actions.is_click", lambda handler: False)
    assert (await site.done("helen", "POST", OPEN, {}))["url"] == "/user/ada/two/"
    assert site.hub.admitted == []
