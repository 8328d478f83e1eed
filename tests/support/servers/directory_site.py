"""A real slapd for the tests of the directory, and a relay to it."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ldap3
import pytest

from portal.demo.daemons import slapd as slapd_module
from portal.demo.daemons.slapd import Slapd
from portal.directory import LDAPAuthenticator
from portal.paths import data_path

Make = Callable[..., LDAPAuthenticator]
PASSWORD = slapd_module.PASSWORD


@contextmanager
def running(home: Path) -> Iterator[Slapd]:
    if not shutil.which("slapd", path="/usr/sbin:/usr/bin"):
        pytest.skip("slapd is not installed")
    server = Slapd(home, data_path("deploy"))
    server.start()
    try:
        yield server
    finally:
        server.stop()


def settings_for(server: Slapd) -> dict[str, Any]:
    return {
        "servers": [server.uri],
        "ca_file": str(server.ca_file),
        "people_base": server.people_dn,
        "groups_base": server.groups_dn,
        "search_bind_dn": server.bind_dn,
        "search_password_file": str(server.bind_password_file),
        "admin_groups": {"portal-admins"},
        "instructor_groups": {"portal-instructors"},
    }


@contextmanager
def as_admin(server: Slapd) -> Iterator[ldap3.Connection]:
    """Yield a connection that may change everything; a refused change raises."""
    with ldap3.Connection(
        ldap3.Server("127.0.0.1", server.ldaps_port, use_ssl=True, get_info=ldap3.NONE),
        server.admin_dn,
        server.admin_password_file.read_text().strip(),
        auto_bind=True,
        raise_exceptions=True,
    ) as connection:
        yield connection


def add_group(server: Slapd, name: str, *members: str) -> str:
    """Add a groupOfNames with these member DNs and return its DN. ``name``: escaped as in a DN."""
    return add_groups(server, {name: members})[0]


def add_groups(server: Slapd, groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Add several groups over a single connection; return their DNs."""
    dns = []
    with as_admin(server) as connection:
        for name, members in groups.items():
            dns.append(f"cn={name},{server.groups_dn}")
            attributes = {"cn": name.replace("\\", ""), "member": list(members)}
            connection.add(dns[-1], "groupOfNames", attributes)
    return dns


@contextmanager
def relay(host: str, port: int, delay: float = 0.0, target: str = "127.0.0.1") -> Iterator[int]:
    """Relay connections to ``host`` to ``target``:``port``, each message after ``delay`` seconds;
    yield the relay's own port."""
    server = socket.create_server((host, 0))

    def pump(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                time.sleep(delay)
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            end.close()

    def serve() -> None:
        while True:
            try:
                near, _ = server.accept()
            except OSError:
                return
            far = socket.create_connection((target, port))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield server.getsockname()[1]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


async def log_in(
    hub: LDAPAuthenticator, name: str, password: str = PASSWORD
) -> dict[str, Any] | None:
    """Log in as the Hub does, through all of ``Authenticator``, with its allow and block checks."""
    return await hub.get_authenticated_user(None, {"username": name, "password": password})


def lines_since(server: Slapd, mark: int) -> str:
    """Return slapd's log (one line per operation) after ``mark`` bytes."""
    with server.log_file.open() as log:
        log.seek(mark)
        return log.read()
