"""Length limits on bodies of the Hub's forms and API, and on what they write into its database."""

from __future__ import annotations

from functools import wraps
from typing import Any

from jupyterhub.apihandlers.base import APIHandler
from jupyterhub.apihandlers.users import UserServerAPIHandler, UserTokenListAPIHandler
from jupyterhub.handlers.base import CSPReportHandler
from jupyterhub.handlers.login import LoginHandler
from jupyterhub.handlers.pages import SpawnHandler
from tornado.web import HTTPError

from .patch import Patch, wrap_once

# Maximum characters of a body's fields, as of the columns (jupyterhub/orm.py).
LENGTHS = {
    "note": 1023,
    "description": 1023,
    "name": 255,
    "display_name": 255,
    "usernames": 255,
    "users": 255,
}
# Maximum bytes of a body, where it is one form or one launch.
BODIES: dict[type, int] = {
    LoginHandler: 16 * 1024,
    UserTokenListAPIHandler: 16 * 1024,
    CSPReportHandler: 16 * 1024,  # goes into the log
    SpawnHandler: 64 * 1024,
    UserServerAPIHandler: 64 * 1024,  # options are kept as they came, by PUT unchecked
}


def check(body: Any) -> None:
    """Raise HTTPError 400 if a field of ``body`` is longer than its column."""
    for field, most in LENGTHS.items() if isinstance(body, dict) else ():
        value = body.get(field)
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and len(text) > most:
                raise HTTPError(
                    400, f"'{field}' is too long: at most {most} characters are allowed."
                )


def _bounded(read: Any) -> Any:
    @wraps(read)
    def get_json_body(self: Any) -> Any:
        body = read(self)
        check(body)
        return body

    return get_json_body


def apply() -> None:
    """Set each handler's limit, and check the bodies that are read."""
    for handler, most in BODIES.items():
        handler.max_body = most  # type: ignore[attr-defined]
    wrap_once(APIHandler, "get_json_body", _bounded, mark="bounded")


PATCH = Patch(
    name="body-limits",
    changes=(
        "jupyterhub.apihandlers.base:APIHandler.get_json_body",
        *(f"{handler.__module__}:{handler.__name__}" for handler in BODIES),
    ),
    why=(
        "Security: JupyterHub's columns have lengths, which SQLite ignores and PostgreSQL "
        "enforces with an unreadable error; a token's note of a mebibyte is read with every "
        "list of tokens."
    ),
    upstream="none",
    until="JupyterHub checks lengths in its API, and its handlers have their own limits.",
    apply=apply,
)
