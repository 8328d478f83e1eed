"""Signing in a browser without the login form, which the story of a launch goes through."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from hub_client import PASSWORD, Person


def sign_in(page: Any, url: str, name: str, password: str = PASSWORD) -> None:
    """Give the page's browser the cookies of ``name``'s login at the portal at ``url``, and those
    of nobody else."""
    person = Person(url, name, password)
    assert person.logged_in, f"{name} could not log in"
    # A page that is open would notice that its login is over, and go to the login form by itself.
    page.goto("about:blank")
    page.context.clear_cookies()
    host = urlsplit(url).hostname  # the jar has "localhost.local" for "localhost"
    page.context.add_cookies(
        [
            {"name": one.name, "value": one.value, "domain": host, "path": one.path}
            for one in person.http.cookies.jar
        ]
    )
