"""The service's address as nodes reach it, and the scopes of a session's token."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import orm
from jupyterhub.app import JupyterHub
from sqlalchemy import event
from sqlalchemy.orm import Session

from spawners.lifecycle.reports import token_scopes
from spawners.web.service_address import service_address


@pytest.fixture
def db() -> Iterator[Session]:
    """The Hub's own database."""
    session = orm.new_session_factory("sqlite://")()
    yield session
    session.close()


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({}, ""),  # all addresses, and the Hub itself on loopback
        ({"bind_url": "http://127.0.0.1:8000"}, ""),
        ({"bind_url": "http://localhost:8000"}, ""),
        ({"bind_url": "http://[::1]:8000"}, ""),
        ({"hub_connect_ip": "10.0.0.5"}, "http://10.0.0.5:8000/services/portal/"),
        (
            {"bind_url": "http://:8000/jupyter/", "hub_connect_url": "http://head:8081"},
            "http://head:8000/jupyter/services/portal/",
        ),
        ({"bind_url": "https://:443", "hub_connect_ip": "10.0.0.5", "ssl_cert": "cert.pem"}, ""),
        (
            {"bind_url": "https://portal.example.org", "ssl_cert": "cert.pem"},
            "https://portal.example.org/services/portal/",
        ),
        ({"bind_url": "http://[fd00::1]:8000"}, "http://[fd00::1]:8000/services/portal/"),
        (
            {"public_url": "https://portal.example.org/", "bind_url": "http://127.0.0.1:8000"},
            "https://portal.example.org/services/portal/",
        ),
        (
            {"subdomain_host": "https://portal.example.org", "bind_url": "http://127.0.0.1:8000"},
            "https://portal.example.org/services/portal/",
        ),
    ],
)
def test_service_address(settings: dict[str, str], address: str) -> None:
    hub = JupyterHub(**settings)
    hub.init_hub()
    assert service_address(hub) == address


def test_the_scopes_of_sessions_are_read_once_and_are_what_the_hub_s_role_says(db: Session) -> None:
    db.add(orm.Role(name="server", scopes=["one"]))
    db.commit()
    asked: list[str] = []
    event.listen(db.bind, "before_cursor_execute", lambda *told: asked.append(told[2]))
    spawner: Any = SimpleNamespace(user=SimpleNamespace(db=db), service_url="")
    assert token_scopes(spawner) == token_scopes(spawner) == ["one"]
    assert len([words for words in asked if "FROM roles" in words]) == 1
    role = orm.Role.find(db, "server")
    role.scopes = ["one", "two"]
    db.commit()
    assert token_scopes(spawner) == ["one", "two"]
    db.delete(role)
    db.commit()
    db.add(orm.Role(name="server", scopes=["three"]))
    db.commit()
    assert token_scopes(spawner) == ["three"]
