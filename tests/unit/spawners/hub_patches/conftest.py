"""The Hub's own database, and JupyterHub's objects, which are after each test as they were."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jupyterhub import apihandlers, handlers, orm
from jupyterhub.apihandlers.auth import OAuthAuthorizeHandler
from jupyterhub.oauth.provider import JupyterHubOAuthServer
from jupyterhub.user import User
from sqlalchemy.orm import Session

_REPLACED = (
    (User, "spawn"),
    (User, "_wait_up"),
    (User, "_new_spawner"),
    (JupyterHubOAuthServer, "add_client"),
    (OAuthAuthorizeHandler, "needs_oauth_confirm"),
)


@pytest.fixture(autouse=True)
def as_jupyterhub_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take back what a test patches."""
    for owner, name in _REPLACED:
        monkeypatch.setattr(owner, name, getattr(owner, name))
    for module in (apihandlers, handlers):
        monkeypatch.setattr(module, "default_handlers", [*module.default_handlers])


@pytest.fixture
def db() -> Iterator[Session]:
    """The Hub's own database, with one person."""
    session = orm.new_session_factory("sqlite://")()
    session.add(orm.User(name="ada"))
    session.commit()
    yield session
    session.close()
