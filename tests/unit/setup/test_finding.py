"""What other programs' files say about the directory, file systems and a Hub that is there."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from portal.setup.finding.directory import find_directory
from portal.setup.finding.machine import foreign_hub, free_ports, is_taken, shared_folders
from portal.setup.place import CONFIG, Place

SSSD = """
[sssd]
domains = example
[domain/example]
id_provider = ldap
ldap_uri = ldaps://ldap1.example.org, ldaps://ldap2.example.org
ldap_search_base = dc=example,dc=org
ldap_user_search_base = ou=people,dc=example,dc=org?subtree?
ldap_default_bind_dn = cn=sssd,dc=example,dc=org
ldap_default_authtok = s3cret%x
ldap_tls_cacert = /etc/ssl/ca.pem
"""
ACTIVE = """
[domain/corp.example.org]
id_provider = ad
ad_server = dc1.corp.example.org
ad_domain = corp.example.org
"""
NSLCD = """
# comment
uri ldap://a.example.org ldap://b.example.org
base dc=example,dc=org
base\tpasswd\tou=people,dc=example,dc=org
base group ou=groups,dc=example,dc=org
binddn cn=nslcd,dc=example,dc=org
bindpw with space
tls_cacertfile /etc/ssl/ca.pem
"""


def found(tmp_path: Path, file: str, text: str) -> tuple[dict[str, Any], str, str]:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return find_directory(Place(tmp_path))


def test_sssd(tmp_path: Path) -> None:
    answers, password, where = found(tmp_path, "etc/sssd/sssd.conf", SSSD)
    assert answers == {
        "ldap_servers": ["ldaps://ldap1.example.org", "ldaps://ldap2.example.org"],
        "ldap_people_base": "ou=people,dc=example,dc=org",
        "ldap_groups_base": "dc=example,dc=org",
        "ldap_bind_dn": "cn=sssd,dc=example,dc=org",
        "ldap_ca_file": "/etc/ssl/ca.pem",
        "ldap_user_attribute": "uid",
    }
    assert (password, where) == ("s3cret%x", "/etc/sssd/sssd.conf")


def test_an_obfuscated_password_is_not_one(tmp_path: Path) -> None:
    text = SSSD + "ldap_default_authtok_type = obfuscated_password\n"
    assert found(tmp_path, "etc/sssd/sssd.conf", text)[1] == ""


def test_active_directory(tmp_path: Path) -> None:
    answers, _, _ = found(tmp_path, "etc/sssd/sssd.conf", ACTIVE)
    assert answers["ldap_servers"] == ["ldaps://dc1.corp.example.org"]
    assert answers["ldap_people_base"] == "dc=corp,dc=example,dc=org"
    assert answers["ldap_user_attribute"] == "sAMAccountName"


def test_nslcd(tmp_path: Path) -> None:
    answers, password, _ = found(tmp_path, "etc/nslcd.conf", NSLCD)
    assert answers["ldap_servers"] == ["ldap://a.example.org", "ldap://b.example.org"]
    assert answers["ldap_people_base"] == "ou=people,dc=example,dc=org"
    assert answers["ldap_groups_base"] == "ou=groups,dc=example,dc=org"
    assert password == "with space"


@pytest.mark.parametrize(
    "text", ["", "[domain/x\n", "\x00\xff", "[domain/x]\nid_provider = files\n"]
)
def test_a_file_that_says_nothing(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, "etc/sssd/sssd.conf", text) == ({}, "", "")


def test_shared_file_systems(tmp_path: Path) -> None:
    mounts = tmp_path / "proc/self/mounts"
    mounts.parent.mkdir(parents=True)
    mounts.write_text(
        "/dev/sda1 / ext4 rw 0 0\n"
        "nas:/a /shared nfs4 rw 0 0\n"
        "nas:/b /with\\040space lustre rw 0 0\n"
    )
    assert shared_folders(Place(tmp_path)) == ["/shared", "/with space"]


def test_another_hub_is_named(tmp_path: Path) -> None:
    assert foreign_hub(Place(tmp_path)) == []
    unit = tmp_path / "etc/systemd/system/jupyterhub.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\n")
    notes = foreign_hub(Place(tmp_path))
    assert len(notes) == 1
    assert "jupyterhub.service" in notes[0]
    assert "left alone" in notes[0]


def test_ports_that_another_hub_has_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = str(server.getsockname()[1])
        assert is_taken(taken)
        monkeypatch.setattr("portal.setup.finding.machine.PORTS", [taken])
        ports = free_ports(Place(tmp_path))
        assert ports != [taken]
        config = tmp_path / CONFIG.lstrip("/")
        config.parent.mkdir(parents=True)
        config.write_text(f"# Ports: {taken} 2 3 4\n")
        assert free_ports(Place(tmp_path)) == [taken, "2", "3", "4"]
