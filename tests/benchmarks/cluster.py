"""The demo as used by the benchmarks: its own home, two hundred more people, two partitions."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jupyterhub import __version__ as hub_version

from portal.demo.daemons.ports import free_port
from portal.demo.daemons.process import end_child
from portal.demo.home import Home
from portal.demo.running import Running

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PARTITION = "bench"  # all nodes of the demo: 112 CPUs
CLASS_PARTITION = "class"  # the same nodes, two jobs per CPU
STUDENTS = tuple(f"bench{number:03}" for number in range(1, 201))
TEACHER = "bench201"
PEOPLE = STUDENTS[:100]
_FIRST_UID = 6301
_STOCK_RULE = "/etc/sudoers.d/zz-bench-stock"


class NotMeasured(Exception):
    """Row that could not be measured; the message says why."""


def wait_for(what: str, check: Callable[[], Any], timeout: float, every: float = 0.2) -> Any:
    """Wait for a true result of ``check`` and return it. Raises NotMeasured after ``timeout`` s."""
    end = time.monotonic() + timeout
    while not (result := check()):
        if time.monotonic() > end:
            raise NotMeasured(f"{what}: not within {timeout:.0f} s")
        time.sleep(every)
    return result


class Cluster:
    """Running demo with STUDENTS and TEACHER, and the stubs' responder."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.place = running.home.root / "bench"
        self.stub = self.place / "stub.sh"
        self.port = free_port()
        self.responder_url = f"http://127.0.0.1:{self.port}"
        self._responder: subprocess.Popen[bytes] | None = None

    @property
    def state(self) -> dict[str, Any]:
        """State of the demo."""
        state = self.running.state
        if state is None:
            raise NotMeasured("The demo has ended.")
        return state

    def prepare(self) -> None:
        """Add the people and the partition, and start the responder."""
        self._sample_seldom()
        self.place.mkdir()
        self.place.chmod(0o755)
        shutil.copy(HERE / "stub.sh", self.stub)
        self.stub.chmod(0o755)
        self._add_people()
        everywhere = ("Nodes=ALL", "State=UP")
        self.run("scontrol", "create", f"PartitionName={PARTITION}", *everywhere)
        shared = f"PartitionName={CLASS_PARTITION}"
        self.run("scontrol", "create", shared, *everywhere, "OverSubscribe=FORCE:2")
        self._responder = subprocess.Popen(
            self.running.command(
                [sys.executable, str(HERE / "responder.py"), str(self.port), hub_version], "slurm"
            )
        )
        wait_for("the responder", lambda: _answers(self.responder_url), 10)

    def close(self) -> None:
        """End the responder."""
        if self._responder is not None:
            self._responder.kill()
            self._responder.wait()

    def run(self, *argv: str, check: bool = True, timeout: float = 60) -> str:
        """Run a command as Slurm's account and return its output."""
        return self.running.run(list(argv), "slurm", check=check, timeout=timeout).stdout

    def jobs(self, *states: str) -> int:
        """Count the jobs in the benchmarks' partitions in any of ``states`` (squeue's
        abbreviations)."""
        where = f"--partition={PARTITION},{CLASS_PARTITION}"
        return len(self.run("squeue", "-h", where, "-o", "%i", f"-t{','.join(states)}").split())

    def clear(self) -> None:
        """Cancel all jobs of these partitions and wait until they are gone."""
        cancel = ("scancel", "--quiet")
        for name in (PARTITION, CLASS_PARTITION):
            # Two hundred jobs keep slurmctld on a small machine busy for minutes.
            self.run(*cancel, f"--partition={name}", check=False, timeout=240)
            self.run(*cancel, "--signal=KILL", f"--partition={name}", check=False, timeout=240)
        wait_for("the jobs' end", lambda: self.jobs("all") == self.jobs(*_ENDED), 240, 0.5)
        # slurmd and slurmctld still work on the ends of jobs, and drain nodes if that takes long;
        # the next measurement should not run at the same time.
        with contextlib.suppress(NotMeasured):  # another load on this machine
            wait_for("Slurm to have nothing to do", lambda: _busy(2) < _QUIET, 60)
        for node in set(self.run("sinfo", "-h", "-N", "-t", "drain", "-o", "%N").split()):
            self.run("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def posts(self) -> dict[str, tuple[float, str]]:
        """Return the posts to the responder since the last call: name to (Unix seconds, body)."""
        with urllib.request.urlopen(f"{self.responder_url}/posted", timeout=10) as response:
            notes = json.load(response)
        return {name: (float(when), str(body)) for name, (when, body) in notes.items()}

    def requests_of(self, *names: str) -> int:
        """Count the RPCs from these accounts to slurmctld since its start (sdiag(1))."""
        text = self.run("sdiag")
        _, _, by_user = text.partition("Remote Procedure Call statistics by user")
        by_user, _, _ = by_user.partition("Pending RPC")
        uids = {self.uid(name) for name in names}
        rows = re.findall(r"\(\s*(\d+)\)\s+count:(\d+)", by_user)
        if not rows:
            raise NotMeasured("sdiag does not count requests by account")
        return sum(int(count) for uid, count in rows if int(uid) in uids)

    def uid(self, name: str) -> int:
        """Return the uid of an account of the demo."""
        done = self.running.run(["id", "-u", name], check=False)
        if done.returncode:
            raise NotMeasured(f"{name} has no account")
        return int(done.stdout)

    @contextlib.contextmanager
    def stock_rule(self) -> Iterator[None]:
        """Install the sudo rule of stock batchspawner and jupyterhub_moss: ``sudo -E``, and squeue
        and sinfo as the person.

        It has sudo's default PAM session, which deploy/sudoers for the same account switches off.
        The ``!use_pty`` of deploy/sudoers still applies, to the advantage of stock.
        """
        rule = "portal ALL=(%portal-users) NOPASSWD: SETENV: /usr/bin/sbatch, /usr/bin/squeue, "
        lines = f"{rule}/usr/bin/scancel, /usr/bin/sinfo\nDefaults:portal pam_session, pam_setcred"
        write = f"umask 227; printf '%s\\n' \"$1\" >{_STOCK_RULE}"
        self.running.run(["sh", "-c", write, "sh", lines])
        try:
            yield
        finally:
            self.running.run(["rm", "-f", _STOCK_RULE])

    def _sample_seldom(self) -> None:
        """Have Slurm sample the usage of jobs every 30 s, its default, instead of every 2 s as in
        the demo: each sample reads all of /proc, for each of the two hundred jobs, which all run
        on this machine instead of on many."""
        conf = self.running.home.demo / "slurm/etc/slurm.conf"
        text = re.sub(
            r"(?m)^JobAcctGatherFrequency=.*$", "JobAcctGatherFrequency=30", conf.read_text()
        )
        conf.write_text(text)
        self.run("scontrol", "reconfigure")

    def _add_people(self) -> None:
        """Add the people to the accounts of the demo's namespace, which has its own /etc."""
        passwd, groups, shadow = [], [], []
        for number, name in enumerate((*STUDENTS, TEACHER)):
            uid, home = _FIRST_UID + number, self.running.home.people / name
            passwd.append(f"{name}:x:{uid}:{uid}::{home}:/bin/bash\n")
            groups.append(f"{name}:x:{uid}:\n")
            shadow.append(f"{name}:*:19000:0:99999:7:::\n")
            home.mkdir(mode=0o700)
            os.chown(home, uid, uid)
        members = ",".join((*STUDENTS, TEACHER))
        self.running.run(["sed", "-i", f"/^portal-users:/s/$/,{members}/", "/etc/group"])
        for name, lines in (("passwd", passwd), ("group", groups), ("shadow", shadow)):
            self.running.run(["tee", "-a", f"/etc/{name}"], input="".join(lines))
        account = ["Description=bench", "Organization=portal", "Cluster=portal"]
        self.run("sacctmgr", "-i", "add", "account", "bench", *account)
        self.run("sacctmgr", "-i", "add", "user", members, "Account=bench", "Cluster=portal")


_ENDED = ("CA", "CD", "F", "TO", "NF", "PR", "BF", "DL", "OOM")


_QUIET = 0.3  # CPUs


def _busy(seconds: float) -> float:
    """Return the average number of busy CPUs during ``seconds``, from /proc/stat (proc(5))."""

    def used() -> float:
        user, nice, system, *_ = map(int, Path("/proc/stat").read_text().split()[1:9])
        return (user + nice + system) / os.sysconf("SC_CLK_TCK")

    before, began = used(), time.monotonic()
    time.sleep(seconds)
    return (used() - before) / (time.monotonic() - began)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/up", timeout=2):
            return True
    except OSError:
        return False


@contextlib.contextmanager
def started(only_slurm: bool) -> Iterator[Cluster]:
    """Run a demo while the block runs, in a directory that is removed afterwards.

    ``only_slurm`` leaves out the Hub, the directory and the images. Raises NotMeasured if the demo
    does not start or has no real accounts.
    """
    if os.geteuid() != 0:
        raise NotMeasured("the benchmarks need root: people with accounts of their own, and sudo")
    cache = Home.find().cache
    root = Path(tempfile.mkdtemp(prefix="portal-bench-", dir="/var/tmp"))
    root.chmod(0o755)
    env = {
        **os.environ,
        "PORTAL_CACHE": str(cache),
        "PORTAL_DEMO": "bare",
        "PYTHONPATH": str(ROOT),
    }
    options = [f"--home={root}", f"--port={free_port()}", "--form=people"]
    demo = subprocess.Popen(
        [sys.executable, "-m", "portal", "demo", *options, *(["--only=slurm"] * only_slurm)],
        env=env,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    running = Running(Home(root, cache))
    cluster = Cluster(running)
    try:
        wait_for(
            "the demo",
            lambda: demo.poll() is not None or (running.state or {}).get("ready"),
            600,
        )
        if demo.poll() is not None:
            raise NotMeasured("the demo did not start (its words stand above)")
        cluster.prepare()
        yield cluster
    finally:
        cluster.close()
        end_child(demo, 60)
        shutil.rmtree(root, ignore_errors=True)
