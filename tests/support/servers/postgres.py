"""A real private PostgreSQL for tests: on a free loopback port, in its own folder."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from machine import patience

from portal.demo.daemons.ports import free_port

PASSWORD = "s3cret/p@ss word"


def programs() -> Path:
    """Return the folder of Debian's newest PostgreSQL programs."""
    paths = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4])
    )
    assert paths, "PostgreSQL is missing (deploy/packages-test.txt): `make test` installs it"
    return paths[-1].parent


class PostgreSQL:
    """PostgreSQL server. It refuses to run as root, so under root it runs as another account.

    ``new()`` makes an empty database; ``stop``, ``start``, ``freeze`` and ``thaw`` make outages.
    """

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="pg-", dir="/var/tmp"))
        self.data = self.place / "data"
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._count = 0
        self._user: dict[str, int] = {}
        if os.geteuid() == 0:
            accounts = {account.pw_name: account for account in pwd.getpwall()}
            account = accounts.get("postgres") or accounts["nobody"]
            self._user = {"user": account.pw_uid, "group": account.pw_gid}
            os.chown(self.place, account.pw_uid, account.pw_gid)
        secret = self.place / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)  # in a folder that only root and the server's account can enter
        self._run(
            "initdb", "--no-sync", "--auth=scram-sha-256", f"--pwfile={secret}",
            "--username=portal", "--encoding=UTF8", "--locale=C.UTF-8", "-D", str(self.data),
        )  # fmt: skip
        secret.unlink()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        log = (self.place / "log").open("ab")
        self.process = subprocess.Popen(
            [
                str(programs() / "postgres"), "-D", str(self.data), "-p", str(self.port),
                "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.place}",
                "-c", "fsync=off", "-c", "max_connections=30",
            ],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", extra_groups=[]
            if self._user else None, start_new_session=True, **self._user,  # type: ignore[call-overload]
        )  # fmt: skip
        log.close()
        end = time.monotonic() + patience(120)
        while self._run("pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port), check=False):
            assert self.process.poll() is None, (self.place / "log").read_text()
            assert time.monotonic() < end, (self.place / "log").read_text()
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT cuts all connections, SIGQUIT is a crash."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(30)
            self.process = None

    def freeze(self) -> None:
        """Freeze the server: it keeps its connections and accepts new ones, but does not answer."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    def url(self, database: str = "postgres", password: str = PASSWORD) -> str:
        """Return the URL of a database, for ``Store.url``."""
        from sqlalchemy import URL

        url = URL.create("postgresql", "portal", password, "127.0.0.1", self.port, database)
        return url.render_as_string(hide_password=False)

    def new(self, *options: str) -> str:
        """Create an empty database and return its URL. ``options``: of CREATE DATABASE."""
        self._count += 1
        name = f"test{self._count}"
        self.sql(f"CREATE DATABASE {name} {' '.join(options)}")
        return self.url(name)

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Run a statement as the superuser; return its rows as text."""
        import psycopg

        with psycopg.connect(
            host="127.0.0.1", port=self.port, user="portal", password=PASSWORD, dbname=database,
            autocommit=True,
        ) as connection:  # fmt: skip
            cursor = connection.execute(statement)  # type: ignore[call-overload]
            return "\n".join(str(row) for row in cursor) if cursor.description else ""

    def end(self) -> None:
        """Stop the server and remove its files."""
        try:
            if self.process is not None:
                self.thaw()
                self.process.send_signal(signal.SIGQUIT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(3)
                # Backends that wait for the first message of a client that has given up.
                self._signal(self._children(), signal.SIGKILL)
                self.process.wait(30)
        finally:
            shutil.rmtree(self.place)

    def _signal_all(self, number: signal.Signals) -> None:
        assert self.process is not None
        self._signal([self.process.pid, *self._children()], number)

    def _signal(self, pids: list[int], number: signal.Signals) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # it ended with its client
                os.kill(pid, number)

    def _children(self) -> list[int]:
        assert self.process is not None
        try:
            place = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            return [int(pid) for pid in place.read_text().split()]
        except (FileNotFoundError, ProcessLookupError):  # the server has ended
            return []

    def _run(self, program: str, *args: str, check: bool = True) -> int:
        done = subprocess.run(
            [str(programs() / program), *args],
            capture_output=True, text=True, cwd="/", timeout=120, env={"LC_ALL": "C.UTF-8"},
            extra_groups=[] if self._user else None, **self._user,  # type: ignore[call-overload]
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stderr + done.stdout
        return int(done.returncode)
