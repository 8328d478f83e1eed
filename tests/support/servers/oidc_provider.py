"""A real provider of OpenID Connect on loopback, with people and claims as a test wants them."""

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
    """oidc-provider-mock, which stands on Authlib. It can be stopped and started again, and then
    knows the same tokens.

    ``minutes`` is how long its access tokens are good; they can be renewed.
    """

    def __init__(self, minutes: float = 60) -> None:
        logging.getLogger("werkzeug").setLevel(logging.WARNING)  # not a line for each request
        os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"  # HTTP, which Authlib refuses else
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._app = oidc_provider_mock.app(access_token_max_age=timedelta(minutes=minutes))
        self._server: Any = None

    def start(self) -> None:
        self._server = make_server("127.0.0.1", self.port, self._app, threaded=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """From now on nobody listens there."""
        self._server.shutdown()
        self._server.server_close()

    def claims(self, subject: str, **claims: Any) -> None:
        """Set all claims of somebody, for this login and for those that are there."""
        httpx.put(f"{self.url}/users/{subject}", json=claims).raise_for_status()

    def person(self, name: str, *groups: str, **more: Any) -> None:
        """Set somebody whose subject is their user name."""
        mail = f"{name}@example.org"
        self.claims(name, preferred_username=name, groups=[*groups], email=mail, **more)

    def end_logins(self, subject: str) -> None:
        """Take all tokens of somebody back."""
        httpx.post(f"{self.url}/users/{subject}/revoke-tokens").raise_for_status()

    @property
    def settings(self) -> dict[str, Any]:
        """Those of OIDCAuthenticator that belong to it."""
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
    """One that runs."""
    provider = OidcProvider(minutes)
    provider.start()
    try:
        yield provider
    finally:
        provider.stop()
