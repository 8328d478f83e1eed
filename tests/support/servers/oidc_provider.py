"""A real OpenID Connect provider on loopback, with people and claims set by tests."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import httpx
import oidc_provider_mock
from werkzeug.serving import make_server

from portal.demo.daemons.ports import free_port


class OidcProvider:
    """Server with oidc-provider-mock (based on Authlib), which keeps its tokens when restarted.

    ``minutes``: validity of its access tokens, which can be renewed.
    """

    def __init__(self, minutes: float = 60) -> None:
        logging.getLogger("werkzeug").setLevel(logging.WARNING)  # no line per request
        os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"  # allow HTTP, refused otherwise
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._app = oidc_provider_mock.app(access_token_max_age=timedelta(minutes=minutes))
        self._server: Any = None

    def start(self) -> None:
        self._server = make_server("127.0.0.1", self.port, self._app, threaded=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def claims(self, subject: str, **claims: Any) -> None:
        """Set all claims of a person, for future and existing logins."""
        httpx.put(f"{self.url}/users/{subject}", json=claims).raise_for_status()

    def person(self, name: str, *groups: str, **more: Any) -> None:
        """Set the claims of a person whose subject is their user name."""
        mail = f"{name}@example.org"
        self.claims(name, preferred_username=name, groups=[*groups], email=mail, **more)

    def end_logins(self, subject: str) -> None:
        """Revoke all tokens of a person."""
        httpx.post(f"{self.url}/users/{subject}/revoke-tokens").raise_for_status()

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of OIDCAuthenticator for this provider."""
        return {
            "login_service": "the test's provider",
            "client_id": "portal",
            "client_secret": "the client's secret",
            "authorize_url": f"{self.url}/oauth2/authorize",
            "token_url": f"{self.url}/oauth2/token",
            "userdata_url": f"{self.url}/userinfo",
            "scope": ["openid", "profile", "email"],
            "username_claim": "preferred_username",
            "auth_state_groups_key": "oauth_user.groups",
            "enable_auth_state": True,
        }


@contextmanager
def oidc_provider(minutes: float = 60) -> Iterator[OidcProvider]:
    """Yield a running provider."""
    provider = OidcProvider(minutes)
    provider.start()
    try:
        yield provider
    finally:
        provider.stop()
