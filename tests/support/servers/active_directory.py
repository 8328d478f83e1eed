"""A real Active Directory for the tests: Samba's, on its own loopback address.

Samba listens only on ports 389 and 636, so it requires root and a separate address 127.x.y.z; a
relay gives it a free port on 127.0.0.1, for which its certificate is made. Making a domain takes
half a minute; it is made once and copied (``samba_domain.py``).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import ldap3
import pytest
from directory_site import relay
from machine import patience

from portal.demo.daemons.certificates import make_certificates
from portal.demo.daemons.process import end_child
from portal.demo.home import Home

BASE = "DC=corp,DC=example,DC=org"
PASSWORD = "Right-password-1"
_PYTHON = "/usr/bin/python3"  # has Samba's own modules
_MAKER = Path(__file__).with_name("samba_domain.py")


class ActiveDirectory:
    """Domain with people, groups and a computer (see ``samba_domain.py``) below ``home``."""

    base = BASE
    people_dn = f"OU=People,{BASE}"
    groups_dn = f"OU=Groups,{BASE}"

    def __init__(self, home: Path) -> None:
        self.home = home
        self.log_file = home / "samba.log"
        self.own_tls = home / "private" / "tls"  # ca.pem, cert.pem and key.pem made by Samba
        self.password_file = home / "search-password"
        self.address = ""
        self.uri = ""
        self.ca_file = home
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, own_certificate: bool = False) -> None:
        """Start Samba and wait until it answers; ``own_certificate``: use the one made by Samba."""
        self.address = _free_address()
        self.password_file.write_text(PASSWORD)
        self.password_file.chmod(0o600)
        lines = [
            *("[global]", "realm = CORP.EXAMPLE.ORG", "workgroup = CORP", "netbios name = DC1"),
            *("server role = active directory domain controller", "server services = ldap"),
            f"interfaces = {self.address}/8",
            *("bind interfaces only = yes", "disable netbios = yes", "log level = 1"),
            *(f"{kind} = {self.home}/{place}" for kind, place in _PLACES.items()),
        ]
        if not own_certificate:
            tls = make_certificates(self.home / "tls", "dc1")
            self.ca_file = tls.ca_file
            lines += [f"tls cafile = {tls.ca_file}", f"tls certfile = {tls.certificate}"]
            lines += [f"tls keyfile = {tls.key}"]
        for place in _PLACES.values():
            (self.home / place).mkdir(parents=True, exist_ok=True)
        configuration = self.home / "smb.conf"
        configuration.write_text("\n".join(lines) + "\n")
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *("/usr/sbin/samba", "--foreground", "--no-process-group", "--debug-stdout"),
                    *("--model=single", f"--configfile={configuration}"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
            )
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + patience(120)
        while time.monotonic() < deadline:
            assert self.process
            if self.process.poll() is not None:
                break
            with suppress(OSError):
                socket.create_connection((self.address, 636), 1).close()
                return
            time.sleep(0.05)
        self.stop()
        pytest.fail("Samba did not come up:\n" + self.log_file.read_text()[-2000:])

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            end_child(process, 20)

    @contextmanager
    def admin(self) -> Iterator[ldap3.Connection]:
        """Yield a connection that may change everything; a refused change raises."""
        server = ldap3.Server(self.address, 636, use_ssl=True, get_info=ldap3.NONE)
        name = "Administrator@corp.example.org"
        with ldap3.Connection(
            server, name, PASSWORD, auto_bind=True, raise_exceptions=True
        ) as connection:
            yield connection

    def settings(self, **more: Any) -> dict[str, Any]:
        """Return the settings in docs/how-to/existing-cluster.md, with a search account."""
        return {
            "servers": [self.uri],
            "ca_file": str(self.ca_file),
            "people_base": BASE,
            "groups_base": BASE,
            "username_attribute": "sAMAccountName",
            "people_filter": DOCUMENTED_FILTER,
            "nested_groups": "ad",
            "search_bind_dn": f"CN=portal,CN=Users,{BASE}",
            "search_password_file": str(self.password_file),
            **more,
        }


DOCUMENTED_FILTER = (
    "(&(objectCategory=person)(sAMAccountName={username})"
    "(!(userAccountControl:1.2.840.113556.1.4.803:=2)))"
)

_PLACES = {
    "private dir": "private",
    "state directory": "state",
    "cache directory": "cache",
    "lock directory": "lock",
    "pid directory": "run",
    "ncalrpc dir": "ncalrpc",
    "binddns dir": "bind-dns",
}


@contextmanager
def active_directory(home: Path) -> Iterator[ActiveDirectory]:
    """Run a separate domain. Skips the test if Samba is not installed or without root."""
    if not shutil.which("samba", path="/usr/sbin:/usr/bin"):
        pytest.skip("Samba's AD is not installed")
    if os.geteuid() != 0:
        pytest.skip("Samba's AD listens on port 389, which takes root")
    shutil.copytree(_made(), home)
    server = ActiveDirectory(home)
    server.start()
    try:
        with relay("127.0.0.1", 636, target=server.address) as port:
            server.uri = f"ldaps://127.0.0.1:{port}"
            yield server
    finally:
        server.stop()


def _made() -> Path:
    """Return the domain, made once for all runs and remade if its inputs have changed."""
    version = subprocess.run(["/usr/sbin/samba", "--version"], capture_output=True, check=True)
    digest = hashlib.sha256(_MAKER.read_bytes() + version.stdout + PASSWORD.encode()).hexdigest()
    place = Home.find().cache / "active-directory"
    place.mkdir(parents=True, exist_ok=True)
    made = place / digest[:16]
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            for old in place.glob("*"):
                if old.is_dir():
                    shutil.rmtree(old)
            making = place / "making"
            done = subprocess.run(
                [_PYTHON, str(_MAKER), str(making), PASSWORD],
                capture_output=True,
                text=True,
                timeout=300,
            )
            if done.returncode:
                pytest.fail("Samba's domain could not be made:\n" + done.stderr[-3000:])
            first = ActiveDirectory(making)
            first.start(own_certificate=True)
            first.stop()
            for path in making.rglob("*"):
                if path.is_socket():
                    path.unlink()
            making.rename(made)
    return made


def _free_address() -> str:
    while True:
        address = "127." + ".".join(str(1 + secrets.randbelow(254)) for _ in range(3))
        with suppress(OSError), socket.create_server((address, 636)):
            return address
