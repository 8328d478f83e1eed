"""Fixtures of the directory's tests."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from active_directory import ActiveDirectory, active_directory
from directory_site import Make, running, settings_for
from machine import patience

from portal.demo.daemons.slapd import Slapd
from portal.directory import LDAPAuthenticator


@pytest.fixture(scope="session")
def slapd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    """One slapd for tests that only read."""
    with running(tmp_path_factory.mktemp("slapd")) as server:
        yield server


@pytest.fixture
def own_slapd(tmp_path: Path) -> Iterator[Slapd]:
    """A slapd of its own for a test that changes entries or stops it."""
    with running(tmp_path / "slapd") as server:
        yield server


@pytest.fixture(scope="session")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ActiveDirectory]:
    """One Active Directory for the tests of it; what a test changes, it changes back."""
    with active_directory(tmp_path_factory.mktemp("ad") / "dc1") as server:
        yield server


@pytest.fixture
def make(caplog: pytest.LogCaptureFixture) -> Make:
    """An authenticator for a slapd, by StartTLS and search unless told otherwise. A refresh waits
    for the answer, which a busy machine gives later than a page would wait for it."""
    caplog.set_level(logging.DEBUG)

    usual = {"refresh_patience": patience(10.0)}

    def build(server: Slapd, **settings: Any) -> LDAPAuthenticator:
        return LDAPAuthenticator(
            **(usual | settings_for(server) | settings), log=logging.getLogger("hub")
        )

    return build


@pytest.fixture
def hanging() -> Iterator[str]:
    """The URI of a server that takes connections and never says a word."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"ldap://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed() -> str:
    """The URI of a port where nobody listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    return f"ldap://127.0.0.1:{port}"
