"""The demo's private Slurm: munged, MariaDB, slurmdbd, slurmctld and a slurmd for each node.

Start it from a shell and enter it from another (root: as any of the demo's people)::

    portal demo --only=slurm --home=/var/tmp/mine      # Ctrl-C ends it
    portal demo --status --home=/var/tmp/mine          # prints the commands to enter it

From Python, portal.demo.running.Running does the same: ``Running(Home.find("/var/tmp/mine"))
.run(["sinfo"], user="ada")``. Client commands need SLURM_CONF=HOME/demo/slurm/etc/slurm.conf in
the one-account form; in the root form the file is at /etc/slurm inside the namespace.

The configuration templates are in deploy/demo/slurm/; slurm_place.py fills them in.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

from portal.errors import Unavailable

from ..home import Home
from ..people import Account, People, myself
from ..prepared import Prepared
from .ports import Ports
from .process import FIRST, Daemon, wait_for
from .slurm_place import SlurmPlace


class PrivateSlurm(SlurmPlace):
    """Daemons of a cluster. ``daemons`` maps names to them; a slurmd has the name of its node.

    ``prepared``: cache to take a new accounting database from; None: always create one.
    """

    def __init__(
        self,
        home: Home,
        people: People,
        ports: Ports,
        deploy: Path,
        *,
        real_accounts: bool,
        prepared: Prepared | None = None,
    ) -> None:
        super().__init__(home, people, ports, deploy, real_accounts=real_accounts)
        self._prepared = prepared
        self.daemons: dict[str, Daemon] = {}

    def start(self, progress: Callable[[str], None]) -> None:
        """Start all daemons and wait until slurmctld answers. ``progress`` gets sentences.

        Raises Unavailable, with the end of its log, if a daemon does not come up.
        """
        self._make_daemons()
        daemons = self.daemons
        daemons["munged"].start(wait=False)
        done, wanted = self.place / "accounts-made", self._filled("accounts.txt")
        if not (self._database / "mysql").exists():
            if self._lay_database(wanted):
                done.write_text(wanted)
            else:
                progress("creating the accounting database")
                self._install_database()
        daemons["mariadbd"].start()
        daemons["munged"].wait()
        daemons["slurmdbd"].start()
        daemons["slurmctld"].start()  # registers the cluster and its TRES with slurmdbd
        for node in self.nodes:
            daemons[node].start(wait=False)
        if not done.exists() or done.read_text() != wanted:
            progress("adding accounts, users, QOS and limits")
            self._add_accounts()
            done.write_text(wanted)
            if self.address != "127.0.0.1":
                # slurmdbd sends changes to the address that slurmctld has connected from, which the
                # kernel makes 127.0.0.1 on loopback: a restarted slurmctld reads them instead.
                daemons["slurmctld"].stop()
                daemons["slurmctld"].start()
            self._keep_database(wanted)

    def wait_for_nodes(self) -> None:
        """Wait until all nodes are up. Raises Unavailable after 120 s or if a slurmd has ended."""
        up = {"idle", "mixed", "allocated", "completing"}

        def all_up() -> bool:
            for name in self.nodes:
                if not self.daemons[name].running:
                    raise Unavailable(f"slurmd of {name} ended. See {self.home.log}.")
            states = self.client("sinfo", "--noheader", "--Node", "-o", "%N %T").stdout.split("\n")
            rows = [line.split() for line in states if line]
            return len(rows) == len(self.nodes) and all(state in up for _, state in rows)

        if not wait_for(all_up, 120):
            raise Unavailable(
                f"Slurm's nodes are not up after 120 s. See {self.home.log / 'slurm'}."
            )

    def stop(self) -> None:
        """End the jobs, then the daemons in the order of their dependencies."""
        if not self.daemons:
            return
        if self.daemons["slurmctld"].running:
            self._end_jobs()
        for group in (self.nodes, ["slurmctld"], ["slurmdbd"], ["mariadbd", "munged"]):
            for name in group:
                self.daemons[name].terminate()
            for name in group:
                self.daemons[name].stop(timeout=10)

    def client(self, *argv: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
        """Run a client command as SlurmUser with text output; the exit status is not checked."""
        return subprocess.run(
            argv,
            env=self.daemon_env(),
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
        env = self.daemon_env()

        def add_daemon(
            name: str,
            argv: list[str | Path],
            account: Account,
            ready: Callable[[], bool],
            nice: int = FIRST,
        ) -> None:
            self.daemons[name] = Daemon(
                name, argv, run=run, log=log, env=env, account=account, ready=ready, nice=nice
            )

        munge = self.place / "munge"
        add_daemon(
            "munged",
            [
                "munged",
                "--foreground",
                f"--socket={self.munge_socket}",
                f"--key-file={munge / 'key'}",
                f"--pid-file={munge / 'pid'}",
                f"--seed-file={munge / 'seed'}",
                "--num-threads=4",
                # munged insists on a directory that every account can enter, unless forced.
                *([] if self.real_accounts else ["--force"]),
            ],
            self.munge,
            lambda: _answers(self.munge_socket),
        )
        database = ["mariadbd", f"--defaults-file={self.etc / 'mariadb.cnf'}"]
        add_daemon(
            "mariadbd",
            [*database, f"--user={self.mysql.name}"],
            self.mysql,
            lambda: _answers(self.mysql_socket),
        )
        add_daemon("slurmdbd", ["slurmdbd", "-D"], self.slurm, partial(self._listens, "slurmdbd"))
        add_daemon("slurmctld", ["slurmctld", "-D"], self.slurm, self._controller_answers)
        for node in self.nodes:
            serves = partial(self._listens, node)
            add_daemon(node, ["slurmd", "-D", "-N", node], myself(), serves, nice=0)

    def _listens(self, name: str) -> bool:
        """Return True if the port called ``name`` accepts connections."""
        with socket.socket() as probe:
            return probe.connect_ex((self.address, self.ports[name])) == 0

    def _controller_answers(self) -> bool:
        return self.client("scontrol", "ping").returncode == 0

    @property
    def _database(self) -> Path:
        return self.place / "mariadb" / "data"

    def _ingredients(self, accounts: str) -> list[str]:
        """Return the inputs of the accounting database, ``accounts`` included."""
        programs = (["slurmdbd", "-V"], ["mariadbd", "--version"])
        versions = [self.client(*program).stdout for program in programs]
        return [accounts, self.mysql.name, self.slurm.name, *versions]

    def _lay_database(self, accounts: str) -> bool:
        return self._prepared is not None and self._prepared.lay_accounting(
            self._database, self.mysql, *self._ingredients(accounts)
        )

    def _keep_database(self, accounts: str) -> None:
        """Cache the new database for the next prepared demo."""
        made_of = self._ingredients(accounts)
        if self._prepared is None or self._prepared.has_accounting(*made_of):
            return
        servers = [self.daemons[name] for name in ("mariadbd", "slurmdbd", "slurmctld")]
        for server in reversed(servers):
            server.stop(timeout=30)
        self._prepared.keep_accounting(self._database, *made_of)
        for server in servers:
            server.start()

    def _install_database(self) -> None:
        data = self._database
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
        done = subprocess.run(
            ["sacctmgr", "-i"],
            input="\n".join(line for line in commands.splitlines() if line and line[0] != "#"),
            env=self.daemon_env(),
            capture_output=True,
            text=True,
            timeout=60,
            user=self.slurm.uid if self.real_accounts else None,
            group=self.slurm.gid if self.real_accounts else None,
            extra_groups=[] if self.real_accounts else None,
        )
        log = self.home.log / "accounts.log"
        log.write_text(done.stdout + done.stderr)
        errors = [line for line in (done.stdout + done.stderr).splitlines() if _is_error(line)]
        # A later start, after a change of accounts.txt, finds most of it in place.
        known = " Nothing new added." in done.stdout.splitlines()
        if errors or (done.returncode != 0 and not known):
            raise Unavailable(f"sacctmgr failed: {' | '.join(errors)} ({log})")

    def _end_jobs(self) -> None:
        """Cancel all jobs and kill their processes."""
        try:
            jobs = self.client("squeue", "--noheader", "-o", "%A", timeout=20).stdout.split()
            if jobs:
                self.client("scancel", "--quiet", *jobs, timeout=5)
                self.client("scancel", "--quiet", "--signal=KILL", *jobs, timeout=5)
        except subprocess.TimeoutExpired:
            return  # slurmctld does not answer; the sweep after the stop ends their processes

    def _run_checked(self, *argv: str) -> None:
        log = self.home.log / f"{Path(argv[0]).name}.out"
        with log.open("wb") as out:
            status = subprocess.run(
                argv, stdout=out, stderr=subprocess.STDOUT, env=self.daemon_env(), timeout=120
            ).returncode
        if status != 0:
            raise Unavailable(f"{argv[0]} failed (status {status}): see {log}.")


def _is_error(line: str) -> bool:
    lowered = line.lower()
    return "error" in lowered or "unknown" in lowered or "problem" in lowered


def _answers(path: Path) -> bool:
    """Return True if the Unix socket ``path`` accepts connections."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
