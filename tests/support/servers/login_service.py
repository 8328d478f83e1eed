"""OpenID Connect login whose provider is a Python object: no process, no network."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from oauthenticator.oauth2 import _serialize_state
from tornado.httpclient import HTTPClientError

from portal.directory.oidc import OIDCAuthenticator

TOKEN = {"access_token": "one", "token_type": "Bearer", "refresh_token": "more"}


class InTurn(list[Any]):
    """Answers to be given one after another."""


def status(code: int) -> Exception:
    """Return the answer of a provider that refuses or fails."""
    return HTTPClientError(code)


class Provider:
    """Fake provider. Its attribute named like the URL's last part is the answer: a JSON value, an
    exception, or several InTurn."""

    def __init__(self, **claims: Any) -> None:
        self.token: Any = TOKEN
        self.userinfo: Any = {
            "sub": "1",
            "preferred_username": "ada",
            "groups": ["staff"],
            **claims,
        }
        self.asked: list[str] = []

    async def fetch(self, request: Any, **_: Any) -> Any:
        name = request.url.rpartition("/")[2]
        self.asked.append(name)
        answer = getattr(self, name)
        if isinstance(answer, InTurn):
            answer = answer.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(body=json.dumps(answer).encode())


def made(provider: Provider, **settings: Any) -> OIDCAuthenticator:
    defaults = {
        "allow_all": True,
        "enable_auth_state": True,
        "client_id": "portal",
        "client_secret": "secret",
        "token_url": "https://login.test/token",
        "userdata_url": "https://login.test/userinfo",
        "username_claim": "preferred_username",
        "oauth_callback_url": "https://gpu.test/hub/oauth_callback",
        "manage_groups": True,
        "http_client": provider,
        "refresh_patience": 5.0,
    }
    return OIDCAuthenticator(**(defaults | settings))


async def log_in(hub: OIDCAuthenticator) -> dict[str, Any] | None:
    handler = SimpleNamespace(
        get_argument=lambda name: "a code",
        get_state_cookie=lambda: _serialize_state({"code_verifier": "v"}),
    )
    return await hub.get_authenticated_user(handler, None)


def user(*groups: str, **state: Any) -> Any:
    async def get_auth_state() -> dict[str, Any]:
        return {"token_response": TOKEN, "refresh_token": "more", **state}

    groups_of = [SimpleNamespace(name=name) for name in groups]
    return SimpleNamespace(
        name="ada", groups=groups_of, get_auth_state=get_auth_state, _auth_refreshed=None
    )
