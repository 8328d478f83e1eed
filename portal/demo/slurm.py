"""The demo's private Slurm: munged, MariaDB, slurmdbd, slurmctld and a slurmd for each node.

Start one from a shell, and enter it from another (root: as any of the demo's people)::

    portal demo --only=slurm --home=/var/tmp/mine      # Ctrl-C ends it
    portal demo --status --home=/var/tmp/mine          # prints the commands to enter it

From Python, portal.demo.running.Running does the same: ``Running(Home.find("/var/tmp/mine"))
.run(["sinfo"], user="ada")``. Client commands need SLURM_CONF=HOME/demo/slurm/etc/slurm.conf in
the one-account form; in the root form the file is at /etc/slurm inside the namespace.

The configuration stands in deploy/demo/slurm/; this module fills in its $words.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from string import Template

from ..errors import ConfigurationError, Unavailable
from .gpus import Gpus
from .home import Home
from .people import Account, People, myself
from .ports import Ports, own_address
from .process import MARK, Daemon, wait_for

_COMMANDS = (
    "munged",
    "mariadbd",
    "mariadb-install-db",
    "slurmdbd",
    "slurmctld",
    "slurmd",
    "sacctmgr",
    "sbatch",
)
_SBIN = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class PrivateSlurm:
    """One cluster in ``home``. ``real_accounts``: the root form, inside the namespace.

    ``env`` is what a client command needs in its environment. ``gpus.simulated`` tells whether
    the GPUs are.
    """

    def __init__(
        self, home: Home, people: People, ports: Ports, deploy: Path, *, real_accounts: bool
    ) -> None:
        self.home = home
        self.people = people
        self.ports = ports
        self.templates = deploy / "demo" / "slurm"
        self.real_accounts = real_accounts
        self.place = home.demo / "slurm"
        self.etc = self.place / "etc"
        self.gpus = Gpus.of_this_machine()
        me = myself()
        services = people.services if real_accounts else {}
        self.slurm: Account = services.get("slurm", me)
        self.munge: Account = services.get("munge", me)
        self.mysql: Account = services.get("mysql", me)
        self.address = own_address() or "127.0.0.1"
        self.loopback_only = real_accounts or own_address() is not None
        if real_accounts:
            self.address = "127.0.0.1"
        self.hub_account = "portal" if real_accounts else me.name
        self.env = {"SLURM_CONF": str(self.etc / "slurm.conf")}
        self.munge_socket = self.place / "munge" / "s"
        self.mysql_socket = self.place / "mariadb" / "s"
        self.daemons: dict[str, Daemon] = {}

    @property
    def nodes(self) -> list[str]:
        """The nodes' names."""
        gpu_nodes = [f"gpu{n:02}" for n in range(1, 7)] if self.gpus.simulated else ["gpu01"]
        return [*gpu_nodes, "cpu01", "cpu02"]

    def prepare(self) -> None:
        """Make directories, key and configuration. To be called before the namespace is entered.

        Raises ConfigurationError where a program is missing.
        """
        missing = [name for name in _COMMANDS if shutil.which(name, path=_SBIN) is None]
        if missing:
            raise ConfigurationError(
                f"These programs of Slurm, MariaDB or munge are missing: {', '.join(missing)}. "
                "`make run` installs them."
            )
        self.place.mkdir(exist_ok=True)
        self.etc.mkdir(exist_ok=True)
        for name, account in (("munge", self.munge), ("mariadb", self.mysql)):
            self._directory(self.place / name, account, 0o755)
        for name, account in (("ctld", self.slurm), ("dbd", self.slurm), ("d", myself())):
            self._directory(self.place / name, account, 0o755 if name == "d" else 0o700)
        self._directory(self.place / "mariadb" / "tmp", self.mysql, 0o700)
        # Slurm's daemons write logs and pid files under their own account.
        self._directory(self.home.log / "slurm", self.slurm, 0o755)
        self._directory(self.home.run / "slurm", self.slurm, 0o755)
        self._directory(self.home.log / "mariadb", self.mysql, 0o755)
        key = self.place / "munge" / "key"
        if not key.exists():
            self._put(key, secrets.token_bytes(128), self.munge, 0o400)
        self.ports.pick("slurmctld", "slurmdbd", *self.nodes)
        self._write_configuration()

    def start(self, progress: Callable[[str], None]) -> None:
        """Start all daemons; return when every node is idle. ``progress`` gets sentences.

        Raises Unavailable, with the end of the log, when one of them does not come up.
        """
        self._make_daemons()
        daemons = self.daemons
        daemons["munged"].start(wait=False)
        if not (self.place / "mariadb" / "data" / "mysql").exists():
            progress("making the accounting database")
            self._install_database()
        daemons["mariadbd"].start()
        daemons["munged"].wait()
        daemons["slurmdbd"].start()
        daemons["slurmctld"].start()  # it makes the cluster and its TRES known to slurmdbd
        for node in self.nodes:
            daemons[node].start(wait=False)
        done = self.place / "accounts-made"
        if not done.exists():
            progress("adding accounts, people, QOS and limits")
            self._add_accounts()
            done.touch()
            if self.address != "127.0.0.1":
                # slurmdbd sends changes to the address from which slurmctld has called it, and on
                # loopback the kernel calls from 127.0.0.1: a new slurmctld reads them instead.
                daemons["slurmctld"].stop()
                daemons["slurmctld"].start()
        self._wait_for_nodes()

    def stop(self) -> None:
        """End the jobs, then the daemons, in the order in which they need each other."""
        if not self.daemons:
            return
        if self.daemons["slurmctld"].running:
            self._end_jobs()
        for group in (self.nodes, ["slurmctld"], ["slurmdbd"], ["mariadbd", "munged"]):
            for name in group:
                self.daemons[name].terminate()
            for name in group:
                self.daemons[name].stop(timeout=3)

    def client(self, *argv: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
        """Run a client command as SlurmUser; its output is text, its status is not checked."""
        return subprocess.run(
            argv,
            env=self._daemon_env(),
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd="/",
            user=self.slurm.uid if self.real_accounts else None,
            group=self.slurm.gid if self.real_accounts else None,
            extra_groups=[] if self.real_accounts else None,
        )

    # -- the parts of start and stop -----------------------------------------------------------

    def _make_daemons(self) -> None:
        run, log = self.home.run, self.home.log
        env = self._daemon_env()

        def add(
            name: str, argv: list[str | Path], account: Account, ready: Callable[[], bool]
        ) -> None:
            self.daemons[name] = Daemon(
                name, argv, run=run, log=log, env=env, account=account, ready=ready
            )

        munge = self.place / "munge"
        add(
            "munged",
            [
                "munged",
                "--foreground",
                f"--socket={self.munge_socket}",
                f"--key-file={munge / 'key'}",
                f"--pid-file={munge / 'pid'}",
                f"--seed-file={munge / 'seed'}",
                "--num-threads=4",
                # It insists on a directory that every account can enter; one account needs none.
                *([] if self.real_accounts else ["--force"]),
            ],
            self.munge,
            lambda: _answers(self.munge_socket),
        )
        database = ["mariadbd", f"--defaults-file={self.etc / 'mariadb.cnf'}"]
        add(
            "mariadbd",
            [*database, f"--user={self.mysql.name}"],
            self.mysql,
            lambda: _answers(self.mysql_socket),
        )
        add("slurmdbd", ["slurmdbd", "-D"], self.slurm, partial(self._listens, "slurmdbd"))
        add("slurmctld", ["slurmctld", "-D"], self.slurm, self._controller_answers)
        for node in self.nodes:
            serves = partial(self._listens, node)
            add(node, ["slurmd", "-D", "-N", node], myself(), serves)

    def _listens(self, name: str) -> bool:
        """Whether someone accepts connections on the port called ``name``."""
        with socket.socket() as probe:
            return probe.connect_ex((self.address, self.ports[name])) == 0

    def _controller_answers(self) -> bool:
        return self.client("scontrol", "ping").returncode == 0

    def _install_database(self) -> None:
        data = self.place / "mariadb" / "data"
        shutil.rmtree(data, ignore_errors=True)
        self._run_checked(
            "mariadb-install-db",
            f"--defaults-file={self.etc / 'mariadb.cnf'}",
            f"--datadir={data}",
            f"--user={self.mysql.name}",
            "--auth-root-authentication-method=socket",
            f"--auth-root-socket-user={self.mysql.name}",
            "--skip-test-db",
        )

    def _add_accounts(self) -> None:
        commands = self._filled("accounts.txt")
        told = subprocess.run(
            ["sacctmgr", "-i"],
            input="\n".join(line for line in commands.splitlines() if line and line[0] != "#"),
            env=self._daemon_env(),
            capture_output=True,
            text=True,
            timeout=60,
            user=self.slurm.uid if self.real_accounts else None,
            group=self.slurm.gid if self.real_accounts else None,
            extra_groups=[] if self.real_accounts else None,
        )
        log = self.home.log / "accounts.log"
        log.write_text(told.stdout + told.stderr)
        wrong = [line for line in (told.stdout + told.stderr).splitlines() if _is_error(line)]
        if told.returncode != 0 or wrong:
            raise Unavailable(f"sacctmgr refused: {' | '.join(wrong)} ({log})")

    def _wait_for_nodes(self) -> None:
        """Return when Slurm says that every node is up."""
        up = {"idle", "mixed", "allocated", "completing"}

        def all_up() -> bool:
            for name in self.nodes:
                if not self.daemons[name].running:
                    raise Unavailable(f"slurmd of {name} ended. See {self.home.log}.")
            states = self.client("sinfo", "--noheader", "--Node", "-o", "%N %T").stdout.split("\n")
            words = [line.split() for line in states if line]
            return len(words) == len(self.nodes) and all(state in up for _, state in words)

        if not wait_for(all_up, 30):
            raise Unavailable(
                f"Slurm's nodes are not up after 30 s. See {self.home.log / 'slurm'}."
            )

    def _end_jobs(self) -> None:
        """Cancel every job and give Slurm a moment to end their processes."""
        try:
            jobs = self.client("squeue", "--noheader", "-o", "%A", timeout=3).stdout.split()
            if jobs:
                self.client("scancel", "--quiet", *jobs, timeout=5)
                self.client("scancel", "--quiet", "--signal=KILL", *jobs, timeout=5)
        except subprocess.TimeoutExpired:
            return  # slurmctld does not answer; the sweep after the stop ends the processes

    # -- configuration -------------------------------------------------------------------------

    def _daemon_env(self) -> dict[str, str]:
        return {
            "PATH": _SBIN,
            "LANG": "C.UTF-8",
            "HOME": "/",
            MARK: str(self.home.root),
            "MYSQL_UNIX_PORT": str(self.mysql_socket),
            **self.env,
        }

    def _words(self) -> Iterator[tuple[str, str]]:
        yield "slurm_user", self.slurm.name
        yield "address", self.address
        yield (
            "communication",
            "NoInAddrAny,NoCtldInAddrAny" if self.loopback_only else "NoAddrCache",
        )
        yield "slurmd_user", myself().name
        yield "munge_socket", str(self.munge_socket)
        yield "mysql_socket", str(self.mysql_socket)
        yield "mysql_log", str(self.home.log / "mariadb" / "mariadbd.log")
        yield "mariadb", str(self.place / "mariadb")
        yield "state", str(self.place)
        yield "etc", str(self.etc)
        yield "run", str(self.home.run / "slurm")
        yield "log", str(self.home.log / "slurm")
        yield "slurmctld_port", str(self.ports["slurmctld"])
        yield "slurmdbd_port", str(self.ports["slurmdbd"])
        for node in self.nodes:
            yield f"{node}_port", str(self.ports[node])
        yield "researchers", ",".join(self.people.researchers)
        yield "instructors", ",".join(self.people.instructors)
        yield "students", ",".join(self.people.students)
        yield "hub_account", self.hub_account
        yield "hub_slurm_accounts", "portal" if self.real_accounts else "research,dl101"
        yield from self.gpus.words()

    def _filled(self, name: str) -> str:
        try:
            return Template((self.templates / name).read_text()).substitute(dict(self._words()))
        except KeyError as error:
            raise ConfigurationError(f"{self.templates / name}: unknown word {error}") from None

    def _write_configuration(self) -> None:
        kind = "" if self.gpus.simulated else "-nvidia"
        for target, template in (
            ("slurm.conf", "slurm.conf"),
            ("nodes.conf", f"nodes{kind}.conf"),
            ("gres.conf", f"gres{kind}.conf"),
            ("plugstack.conf", "plugstack.conf"),
            ("mariadb.cnf", "mariadb.cnf"),
        ):
            self._put(self.etc / target, self._filled(template).encode(), myself(), 0o644)
        # slurmdbd refuses a file that others can read.
        self._put(
            self.etc / "slurmdbd.conf", self._filled("slurmdbd.conf").encode(), self.slurm, 0o600
        )
        self._put(
            self.place / "mariadb" / "init.sql",
            self._filled("mariadb.sql").encode(),
            self.mysql,
            0o644,
        )

    def _directory(self, path: Path, account: Account, mode: int) -> None:
        path.mkdir(exist_ok=True)
        if account.uid != os.geteuid():
            os.chown(path, account.uid, account.gid)
        path.chmod(mode)

    def _put(self, path: Path, content: bytes, account: Account, mode: int) -> None:
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            if account.uid != os.geteuid():
                os.fchown(file.fileno(), account.uid, account.gid)
        path.chmod(mode)

    def _run_checked(self, *argv: str) -> None:
        log = self.home.log / f"{Path(argv[0]).name}.out"
        with log.open("wb") as out:
            status = subprocess.run(
                argv, stdout=out, stderr=subprocess.STDOUT, env=self._daemon_env(), timeout=120
            ).returncode
        if status != 0:
            raise Unavailable(f"{argv[0]} failed (status {status}): see {log}.")


def _is_error(line: str) -> bool:
    lowered = line.lower()
    return "error" in lowered or "unknown" in lowered or "problem" in lowered


def _answers(path: Path) -> bool:
    """Whether someone accepts connections on the Unix socket ``path``."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
