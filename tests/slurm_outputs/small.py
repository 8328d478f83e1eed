"""A small private Slurm on loopback: what the recordings and the parser's live tests run on.

Standard library only, and it works with every Slurm from 22.05 to 26.05, since record.py starts
it inside the roots of other Debian suites too. The GPUs are simulated: gres.conf wants device
files, and terminals are devices that every machine has.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

SBIN = "/usr/sbin:/usr/bin:/sbin:/bin"


def free_ports(count: int) -> list[int]:
    """``count`` different TCP ports that are free on loopback now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def version() -> tuple[int, int]:
    """(22, 5) of "slurm-wlm 22.05.8", read from the slurmctld on PATH."""
    text = subprocess.run(
        [which("slurmctld"), "-V"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"(\d+)\.(\d+)", text)
    if not found:
        raise RuntimeError(f"slurmctld -V said {text!r}")
    return int(found[1]), int(found[2])


def which(name: str) -> str:
    """The absolute path of a program, sbin directories included. Raises RuntimeError."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SBIN}")
    if path is None:
        raise RuntimeError(f"{name} is not installed")
    return path


class SmallSlurm:
    """munged, MariaDB, slurmdbd, slurmctld and seven slurmd under ``home``.

    Nodes gpu01-gpu03 and gpu05 (4 x v100), gpu04 (2 x t4), cpu01-cpu02.
    ``accounting=False`` leaves the database out, as small sites do. Usable by root and by an
    ordinary user.
    """

    def __init__(self, home: Path, accounting: bool = True, requeue_after: int = 120) -> None:
        """Initialize. ``requeue_after``: seconds that a requeued job waits, Slurm's default."""
        self.home = home
        self.requeue_after = requeue_after
        self.accounting = accounting
        self.user = getpass.getuser()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        names = ["gpu01", "gpu02", "gpu03", "gpu04", "gpu05", "cpu01", "cpu02"]
        ctld, dbd, mysql, *ports = free_ports(3 + len(names))
        self.ports = {
            "ctld": ctld,
            "dbd": dbd,
            "mysql": mysql,
            **dict(zip(names, ports, strict=True)),
        }
        self.nodes = names
        self.env = {
            "PATH": f"{os.environ.get('PATH', '')}:{SBIN}",
            "LANG": "C",
            "HOME": str(home),
            "SLURM_CONF": str(home / "slurm.conf"),
        }

    def start(self) -> None:
        """Write the configuration, start everything and wait until the nodes are up."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.home.chmod(0o755)
        for name in ("log", "spool", "state", "mysql"):
            (self.home / name).mkdir(exist_ok=True)
        self._write_config()
        self._spawn(
            "munged",
            "--foreground",
            "--force",
            f"--socket={self.home / 'munge.socket'}",
            f"--key-file={self.home / 'munge.key'}",
            f"--pid-file={self.home / 'munge.pid'}",
            f"--log-file={self.home / 'log/munge.log'}",
            f"--seed-file={self.home / 'munge.seed'}",
            "--num-threads=2",
        )
        self._wait("munged", lambda: (self.home / "munge.socket").exists())
        if self.accounting:
            self._start_accounting()
        self.start_slurmctld()
        for name in self.nodes:
            self.start_slurmd(name)
        self._wait("nodes", self._nodes_up)

    def start_slurmctld(self) -> None:
        """Start (again) the controller and wait until it answers."""
        self._spawn("slurmctld", "-D", "-i", "-f", self.env["SLURM_CONF"])
        self._wait("slurmctld", lambda: "UP" in self.run("scontrol", "ping", check=False))

    def start_slurmd(self, name: str) -> None:
        """Start (again) the daemon of a node."""
        self._spawn("slurmd", "-D", "-N", name, "-f", self.env["SLURM_CONF"], label=name)

    def start_slurmdbd(self) -> None:
        """Start (again) the accounting daemon and wait until it listens."""
        self._spawn("slurmdbd", "-D")
        self._wait("slurmdbd", lambda: self._listens("dbd"))

    def stop(self) -> None:
        """End every process that start() started, newest first."""
        for label in reversed(list(self.processes)):
            self.stop_one(label)

    def stop_one(self, label: str) -> None:
        """End one process ("slurmctld", "gpu01", …)."""
        process = self.processes.pop(label, None)
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def run(self, *argv: str, check: bool = True, env: dict[str, str] | None = None) -> str:
        """Standard output of one Slurm command; raises RuntimeError with its stderr."""
        done = subprocess.run(
            [which(argv[0]), *argv[1:]],
            capture_output=True,
            env={**self.env, **(env or {})},
            timeout=60,
            check=False,
            cwd="/",
        )
        if check and done.returncode:
            raise RuntimeError(f"{argv}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode("utf-8", "surrogateescape")

    def _spawn(self, program: str, *args: str, label: str = "") -> None:
        label = label or program
        with (self.home / "log" / f"{label}.out").open("ab") as log:
            self.processes[label] = subprocess.Popen(
                [which(program), *args], stdout=log, stderr=log, env=self.env, cwd=self.home
            )

    def _wait(self, what: str, ready, seconds: float = 60) -> None:  # type: ignore[no-untyped-def]
        end = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > end:
                raise RuntimeError(
                    f"{what} did not come up within {seconds} s; logs: {self.home}/log"
                )
            for label, process in self.processes.items():
                if process.poll() is not None:
                    log = (self.home / "log" / f"{label}.out").read_text(errors="replace")
                    raise RuntimeError(f"{label} ended with {process.returncode}: {log[-2000:]}")
            time.sleep(0.1)

    def _nodes_up(self) -> bool:
        states = self.run("sinfo", "-h", "-N", "-o", "%N %T", check=False).split()[1::2]
        return len(states) >= len(self.nodes) and set(states) <= {"idle", "mixed", "allocated"}

    def _start_accounting(self) -> None:
        data = self.home / "mysql"
        common = ["--no-defaults", f"--datadir={data}", f"--user={self.user}"]
        if not (data / "mysql").exists():
            self.run(
                "mariadb-install-db",
                *common,
                "--auth-root-authentication-method=socket",
                "--skip-test-db",
            )
        (data / "init.sql").write_text(
            # slurmdbd with libmariadb 11.8.9 cannot make its database: its first query, before
            # one is there, fails with "Number of columns in result … execeeds".
            "CREATE DATABASE IF NOT EXISTS slurm;\n"
            "CREATE USER IF NOT EXISTS 'slurm'@'127.0.0.1' IDENTIFIED BY 'slurm';\n"
            "GRANT ALL ON *.* TO 'slurm'@'127.0.0.1';\n"
        )
        self._spawn(
            "mariadbd",
            *common,
            f"--socket={data}/s",
            f"--pid-file={data}/pid",
            f"--port={self.ports['mysql']}",
            "--bind-address=127.0.0.1",
            "--innodb-buffer-pool-size=64M",
            "--innodb-flush-log-at-trx-commit=2",
            f"--init-file={data}/init.sql",
        )
        self._wait("mariadbd", lambda: self._listens("mysql"))
        self.start_slurmdbd()
        self._wait(
            "sacctmgr",
            lambda: (
                "small" in self.run("sacctmgr", "-n", "show", "cluster", check=False)
                or not self.run("sacctmgr", "-i", "add", "cluster", "small", check=False)
            ),
        )

    def _listens(self, name: str) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.ports[name]), timeout=1).close()
        except OSError:
            return False
        return True

    def _write_config(self) -> None:
        home, ports = self.home, self.ports
        key = home / "munge.key"
        if not key.exists():
            key.write_bytes(os.urandom(128))
            key.chmod(0o400)
        munge = f"socket={home / 'munge.socket'}"
        node = "NodeHostname=localhost NodeAddr=127.0.0.1"
        accounting = (
            f"""
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={ports["dbd"]}
AccountingStoragePass={home}/munge.socket
AccountingStorageTRES=gres/gpu,gres/gpu:v100
AccountingStorageEnforce=associations,limits,qos
"""
            if self.accounting
            else ""
        )
        (home / "slurm.conf").write_text(
            f"""
ClusterName=small
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports["ctld"]}
SlurmUser={self.user}
SlurmdUser={self.user}
AuthType=auth/munge
AuthInfo={munge},cred_expire={self.requeue_after}
CredType=cred/munge
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool/%n
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd-%n.pid
SlurmctldLogFile={home}/log/slurmctld.log
SlurmdLogFile={home}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=2
JobAcctGatherParams=OverMemoryKill
SchedulerParameters=sched_interval=2,bf_interval=2,defer_batch
PriorityType=priority/multifactor
PriorityWeightAge=1000
MinJobAge=300
KillWait=2
InactiveLimit=0
SlurmdTimeout=30
ReturnToService=1
MessageTimeout=10
GresTypes=gpu
{accounting}
NodeName=gpu[01-03] {node} Port={ports["gpu01"]},{ports["gpu02"]},{ports["gpu03"]} \
CPUs=16 RealMemory=64000 Gres=gpu:v100:4 Feature=v100,nvlink
NodeName=gpu05 {node} Port={ports["gpu05"]} CPUs=16 RealMemory=64000 Gres=gpu:v100:4 Feature=v100
NodeName=gpu04 {node} Port={ports["gpu04"]} CPUs=8 RealMemory=32000 Gres=gpu:t4:2 Feature=t4
NodeName=cpu[01-02] {node} Port={ports["cpu01"]},{ports["cpu02"]} CPUs=16 RealMemory=32000
PartitionName=gpu Nodes=gpu[01-05] Default=YES MaxTime=1-00:00:00 \
DefaultTime=01:00:00 DefMemPerCPU=1000
PartitionName=cpu Nodes=cpu[01-02] MaxTime=UNLIMITED DefaultTime=02:00:00 DefMemPerCPU=1000
"""
        )
        (home / "gres.conf").write_text(
            "AutoDetect=off\n"
            "NodeName=gpu[01-03,05] Name=gpu Type=v100 File=/dev/tty[0-3] Flags=nvidia_gpu_env\n"
            "NodeName=gpu04 Name=gpu Type=t4 File=/dev/tty[0-1] Flags=nvidia_gpu_env\n"
        )
        # Newer slurmd wants cgroups unless told otherwise; 22.05 does not know the word.
        if version() >= (23, 2):
            (home / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        dbd = home / "slurmdbd.conf"
        dbd.write_text(
            f"""
AuthType=auth/munge
AuthInfo={munge}
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={ports["dbd"]}
SlurmUser={self.user}
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={ports["mysql"]}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
PidFile={home}/slurmdbd.pid
LogFile={home}/log/slurmdbd.log
"""
        )
        dbd.chmod(0o600)
