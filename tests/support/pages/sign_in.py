"""Sign-in of a browser: by the login form, or without it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from hub_client import PASSWORD, Person


def send_form(page: Any, name: str, password: str = PASSWORD) -> None:
    """Fill in the login form on the page and send it."""
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Sign in").click()


def sign_in(page: Any, url: str, name: str, password: str = PASSWORD) -> None:
    """Replace the cookies of the page's browser by those of ``name``'s login at the portal at
    ``url``."""
    person = Person(url, name, password)
    assert person.logged_in, f"{name} could not log in"
    # An open page would notice that its login is over and go to the login form by itself.
    page.goto("about:blank")
    page.context.clear_cookies()
    host = urlsplit(url).hostname  # the jar has "localhost.local" for "localhost"
    page.context.add_cookies(
        [
            {"name": cookie.name, "value": cookie.value, "domain": host, "path": cookie.path}
            for cookie in person.http.cookies.jar
        ]
    )
