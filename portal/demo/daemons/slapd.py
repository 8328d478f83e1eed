"""The demo's LDAP server: Debian's slapd, run in the foreground from a private directory.

Its configuration and entries come from the templates in ``deploy/demo/directory/``. It listens on
loopback only, on free ports that are remembered. Nothing under /etc/ldap is changed.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path

from portal.errors import ConfigurationError, PortalError

from .certificates import make_certificates, write_private
from .process import end_child

BASE_DN = "dc=portal,dc=demo"
PASSWORD = "portal-demo"  # noqa: S105 - no secret: the demo prints it
STUDENTS = 30
FIRST_STUDENT_UID = 6111

_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/sbin"))


class Slapd:
    """An slapd with the demo's people and groups.

    ``home``: its own directory; ``deploy``: the portal's ``deploy`` directory (the templates are in
    ``demo/directory`` below it); ``homes``: the parent directory in each person's
    ``homeDirectory``; ``reader_uid``: the account that may read the search account's password file
    (the Hub's), None: only the account that starts slapd.

    Raises ConfigurationError if slapd is not installed or a template is missing, and PortalError,
    with the end of slapd's log, if it does not come up.
    """

    base_dn = BASE_DN
    people_dn = f"ou=people,{BASE_DN}"
    groups_dn = f"ou=groups,{BASE_DN}"
    bind_dn = f"cn=portal,{BASE_DN}"
    admin_dn = f"cn=admin,{BASE_DN}"

    def __init__(
        self,
        home: Path,
        deploy: Path,
        homes: Path = Path("/home"),
        reader_uid: int | None = None,
    ) -> None:
        self.home = Path(home).resolve()
        self.templates = Path(deploy) / "demo" / "directory"
        self.homes = Path(homes)
        self.reader_uid = reader_uid
        self.ca_file = self.home / "tls" / "ca.pem"
        self.bind_password_file = self.home / "search-password"
        self.admin_password_file = self.home / "admin-password"
        self.log_file = self.home / "slapd.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.ldaps_port = 0

    @property
    def uri(self) -> str:
        """``ldap://`` URI, which supports StartTLS; passwords without TLS are refused."""
        return f"ldap://127.0.0.1:{self.port}"

    @property
    def ldaps_uri(self) -> str:
        """``ldaps://`` URI: TLS from the first byte."""
        return f"ldaps://127.0.0.1:{self.ldaps_port}"

    @property
    def pid(self) -> int | None:
        """Process id of slapd; None if it is not running."""
        return self.process.pid if self.process and self.process.poll() is None else None

    def start(self, timeout: float = 120.0) -> None:
        """Start slapd and wait until it answers; usually well below 1 s. ``timeout`` in seconds."""
        if self.pid:
            return
        slapd = _program("slapd")
        self.home.mkdir(parents=True, exist_ok=True)
        self.home.chmod(0o711)  # the Hub reads ca.pem and its password file; each file has its mode
        self._write_configuration()
        if self.reader_uid is not None:
            os.chown(self.bind_password_file, self.reader_uid, -1)
        self.port, self.ldaps_port = self._ports()
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                # -d: stay in the foreground and log to stderr; 256 is "stats": one line for
                # each operation, without passwords.
                [
                    *(slapd, "-d", "256", "-f", str(self._configuration)),
                    *("-h", f"{self.uri}/ {self.ldaps_uri}/"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home,
                env={"PATH": _PATH, "LANG": "C"},
            )
        self._wait(timeout)

    def stop(self, timeout: float = 10.0) -> None:
        """Stop slapd (SIGTERM, SIGKILL after ``timeout`` seconds). Does nothing if it is down."""
        process, self.process = self.process, None
        if process is not None:
            end_child(process, timeout)

    # -- files ---------------------------------------------------------------------------------

    @property
    def _configuration(self) -> Path:
        return self.home / "slapd.conf"

    def _write_configuration(self) -> None:
        """Write the certificates and, if anything changed, the secrets, slapd.conf and entries."""
        tls = make_certificates(self.home / "tls", "slapd")
        self.ca_file = tls.ca_file
        values = {
            "HOME": str(self.home),
            "HOMES": str(self.homes),
            "BASE_DN": BASE_DN,
            "CA_FILE": str(tls.ca_file),
            "CERTIFICATE": str(tls.certificate),
            "KEY": str(tls.key),
        }
        stamp = self.home / "entries.stamp"
        digest = hashlib.sha256(repr((sorted(values.items()), STUDENTS)).encode())
        for name in ("slapd.conf.in", "people.ldif.in", "student.ldif.in", "groups.ldif.in"):
            digest.update(self._template(name).encode())
        exists = self._configuration.exists() and self.bind_password_file.exists()
        if exists and stamp.exists() and stamp.read_text() == digest.hexdigest():
            return
        stamp.unlink(missing_ok=True)
        hashes = {
            "SEARCH_HASH": _hash(_secret(self.bind_password_file)),
            "ADMIN_HASH": _hash(_secret(self.admin_password_file)),
            "PEOPLE_HASH": _hash(PASSWORD),
        }
        values |= hashes
        write_private(self._configuration, _fill(self._template("slapd.conf.in"), values))
        self._load(values)
        stamp.write_text(digest.hexdigest())

    def _load(self, values: dict[str, str]) -> None:
        """Create a new database with the entries of the templates."""
        data = self.home / "data"
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(mode=0o700)
        parts = [_fill(self._template("people.ldif.in"), values)]
        numbers = [f"{n:02d}" for n in range(1, STUDENTS + 1)]
        student = self._template("student.ldif.in")
        for place, number in enumerate(numbers):
            person = {"NUMBER": number, "UID": str(FIRST_STUDENT_UID + place)}
            parts.append(_fill(student, values | person))
        members = "\n".join(f"member: uid=student{n},{self.people_dn}" for n in numbers)
        parts.append(_fill(self._template("groups.ldif.in"), values | {"STUDENT_MEMBERS": members}))
        entries = self.home / "entries.ldif"
        write_private(entries, "\n".join(parts))
        done = subprocess.run(
            [_program("slapadd"), "-q", "-f", str(self._configuration), "-l", str(entries)],
            capture_output=True,
            text=True,
            timeout=60,
            env={"PATH": _PATH, "LANG": "C"},
        )
        if done.returncode:
            raise PortalError(f"slapadd rejected the demo's entries: {done.stderr.strip()}")
        entries.unlink()

    def _template(self, name: str) -> str:
        path = self.templates / name
        try:
            return path.read_text()
        except OSError as error:
            raise ConfigurationError(
                f"The demo's LDAP template {path} cannot be read: {error.strerror}."
            ) from error

    # -- ports and readiness -------------------------------------------------------------------

    def _ports(self) -> tuple[int, int]:
        """Return the remembered ports if they are still free, else two free ones."""
        memory = self.home / "ports.json"
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            remembered = json.loads(memory.read_text())
            ports = (int(remembered["ldap"]), int(remembered["ldaps"]))
            if all(map(_free, ports)):
                return ports
        with _bound(0) as first, _bound(0) as second:
            ports = (first.getsockname()[1], second.getsockname()[1])
        memory.write_text(json.dumps({"ldap": ports[0], "ldaps": ports[1]}))
        return ports

    def _wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        for port in (self.port, self.ldaps_port):
            while True:
                assert self.process is not None
                ended = self.process.poll() is not None
                if ended or time.monotonic() > deadline:
                    fault = "exited" if ended else f"did not answer within {timeout:.0f} s"
                    self.stop()
                    raise PortalError(f"slapd {fault}. The end of {self.log_file}:\n{self._tail()}")
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                time.sleep(0.02)

    def _tail(self, lines: int = 12) -> str:
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])


def _program(name: str) -> str:
    path = shutil.which(name, path=_PATH)
    if not path:
        raise ConfigurationError(
            f"The program '{name}' is not installed (Debian and Ubuntu: apt install slapd)."
        )
    return path


def _fill(template: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        template = template.replace(f"@{name}@", value)
    return template


def _secret(path: Path) -> str:
    """Return the secret in ``path``, created if missing."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(24) + "\n")
    return path.read_text().strip()


def _hash(password: str) -> str:
    """Hash ``password`` as {SSHA} (RFC 2307 with a salt), which every slapd can check."""
    salt = secrets.token_bytes(8)
    digest = hashlib.sha1(password.encode() + salt).digest()  # noqa: S324 - slapd's own scheme
    return "{SSHA}" + base64.b64encode(digest + salt).decode()


def _bound(port: int) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    return sock


def _free(port: int) -> bool:
    try:
        _bound(port).close()
    except OSError:
        return False
    return True
