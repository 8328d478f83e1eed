"""A session's secret, which JupyterHub made at random, is hashed once."""

from __future__ import annotations

from jupyterhub.oauth.provider import JupyterHubOAuthServer
from jupyterhub.utils import compare_token
from sqlalchemy.orm import Session

from spawners.hub_patches import oauth_secret


def test_a_session_s_secret_is_hashed_once_and_a_service_s_is_not(db: Session) -> None:
    oauth_secret.PATCH.apply()
    provider = JupyterHubOAuthServer(db, None)
    secret = "0123456789abcdef" * 2
    session = provider.add_client("jupyterhub-user-ada", secret, "http://localhost/")
    service = provider.add_client("service-portal", secret, "http://localhost/")
    assert session.secret.split(":")[1] == "1" and service.secret.split(":")[1] != "1"
    for one in (session, service):
        assert compare_token(one.secret, secret) and not compare_token(one.secret, secret[::-1])
