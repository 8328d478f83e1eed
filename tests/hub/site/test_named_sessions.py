"""Named sessions on the Sessions page: a name that is typed, and its removal."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from api_client import Caller
from hub_client import Person

TITLE = "Big <b>one</b>"
SERVER = "big-b-one-b"


def test_a_name_leads_to_its_launch_page_and_is_removed(
    demo: Any, person: Callable[[str], Person]
) -> None:
    ada = person("ada")
    page = ada.http.get("/services/portal/sessions/new", params={"name": f" {TITLE} "})
    assert page.url.path == f"/hub/spawn/ada/{SERVER}"
    assert page.status_code == 200, page.text
    with Caller(demo.url, "ada") as caller:
        assert caller.get("servers").json()["items"] == []  # a GET makes nothing
        (action,) = re.findall(r'<form[^>]*id="spawn_form" action="([^"]*)"', page.text)
        refused = ada.http.post(unescape(action), data={"environment": "none-of-that-name"})
        assert refused.status_code == 403, refused.text
        assert {"name": SERVER, "title": TITLE} in caller.get("servers").json()["items"]
        html = ada.http.get("/services/portal/sessions").text
        assert 'id="new-session"' in html

        with Caller(demo.url, "student11") as other:  # has none of that name
            assert other.delete(f"servers/{SERVER}").status_code == 404
        done = caller.delete(f"servers/{SERVER}")
        assert done.status_code == 200, done.text
        assert SERVER in done.json()["message"]
        assert caller.get("servers").json()["items"] == []
        assert caller.delete(f"servers/{SERVER}").status_code == 404
        refused = caller.delete("servers/course-dl101")
        assert refused.status_code == 404
    with Caller(demo.url, "grace") as admin:
        lines = admin.items("audit", action="remove-server", actor="ada")
        assert [line["outcome"] for line in lines] == ["failed", "failed", "done"]


@pytest.mark.parametrize("name", ["", " ", "two  spaces", "x" * 300, "a\nb"])
def test_a_name_that_is_none_is_refused_in_words(
    person: Callable[[str], Person], name: str
) -> None:
    page = person("ada").http.get("/services/portal/sessions/new", params={"name": name})
    assert page.status_code == 400
    assert "1 to 255" in page.text
    assert "Internal Server Error" not in page.text
