"""The demo's LDAP server itself."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import ldap3
import pytest
from directory_site import PASSWORD, add_group, as_admin, running

from portal.demo.daemons.slapd import STUDENTS, Slapd
from portal.errors import ConfigurationError, PortalError
from portal.paths import data_path


def connect(server: Slapd, name: str | None, password: str | None) -> ldap3.Connection:
    target = ldap3.Server("127.0.0.1", server.ldaps_port, use_ssl=True, get_info=ldap3.NONE)
    return ldap3.Connection(target, name, password)


def test_people_can_log_in(slapd: Slapd) -> None:
    names = ["ada", "grace", "barbara", *(f"student{n:02}" for n in range(1, STUDENTS + 1))]
    for name in names:
        with connect(slapd, f"uid={name},{slapd.people_dn}", PASSWORD) as connection:
            assert connection.bound, name


@pytest.mark.parametrize("who", ["anonymous", "search account", "ada"])
def test_nobody_reads_passwords(slapd: Slapd, who: str) -> None:
    names = {
        "anonymous": (None, None),
        "search account": (slapd.bind_dn, slapd.bind_password_file.read_text().strip()),
        "ada": (f"uid=ada,{slapd.people_dn}", PASSWORD),
    }
    with connect(slapd, *names[who]) as connection:
        connection.search(slapd.base_dn, "(uid=grace)", attributes=["userPassword", "uid"])
        found = connection.response or []
    assert not any(entry["attributes"].get("userPassword") for entry in found)
    assert len(found) == (0 if who == "anonymous" else 1)
    with as_admin(slapd) as admin:  # it is there to be read
        admin.search(slapd.base_dn, "(uid=grace)", attributes=["userPassword"])
        (value,) = admin.response[0]["attributes"]["userPassword"]
        assert value.startswith("{SSHA}")


def test_secrets_are_private_and_loopback_only(slapd: Slapd) -> None:
    for path in (
        *(slapd.bind_password_file, slapd.admin_password_file, slapd.home / "slapd.conf"),
        slapd.home / "tls" / "slapd-key.pem",
    ):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE((slapd.home / "data").stat().st_mode) == 0o700
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.2", slapd.port), 2).close()


def test_second_start_keeps_ports_certificates_and_entries(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        first = (server.uri, server.ldaps_uri, server.ca_file.read_bytes())
        add_group(server, "made-by-hand", f"uid=ada,{server.people_dn}")
        pid = server.pid
        assert pid
    assert server.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with running(tmp_path) as again:
        assert (again.uri, again.ldaps_uri, again.ca_file.read_bytes()) == first
        with as_admin(again) as connection:
            connection.search(again.groups_dn, "(cn=made-by-hand)")
            assert len(connection.response) == 1


def test_a_taken_port_is_left_alone(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        port = server.port
    with socket.create_server(("127.0.0.1", port)):
        with running(tmp_path) as again:
            assert again.port != port


def test_says_why_it_did_not_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"slapd\.conf\.in cannot be read"):
        Slapd(tmp_path, tmp_path).start()
    server = Slapd(tmp_path / "broken", data_path("deploy"))
    server.start()
    server.stop()
    with (server.home / "slapd.conf").open("a") as configuration:
        configuration.write("no-such-word\n")
    with pytest.raises(PortalError, match="no-such-word"):
        server.start()
    assert server.pid is None


def test_the_hub_account_can_read_its_password_file(tmp_path: Path) -> None:
    reader = 65534 if os.geteuid() == 0 else os.geteuid()
    server = Slapd(tmp_path, data_path("deploy"), reader_uid=reader)
    try:
        server.start()
        found = server.bind_password_file.stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (reader, 0o600)
        assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o711
        assert server.admin_password_file.stat().st_uid == os.geteuid()
    finally:
        server.stop()
