"""The demo as the benchmarks use it: a home of its own, two hundred more people, two partitions."""

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
from portal.demo.home import Home
from portal.demo.running import Running

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PARTITION = "bench"  # all nodes of the demo: 112 CPUs
CLASS_PARTITION = "class"  # the same nodes, two jobs to each CPU
STUDENTS = tuple(f"bench{number:03}" for number in range(1, 201))
TEACHER = "bench201"
PEOPLE = STUDENTS[:100]
_FIRST_UID = 6301
_STOCK_RULE = "/etc/sudoers.d/zz-bench-stock"


class NotMeasured(Exception):
    """A row could not be measured; the message says why."""


def wait_for(what: str, check: Callable[[], Any], timeout: float, every: float = 0.2) -> Any:
    """What ``check`` gives once it is true. Raises NotMeasured after ``timeout`` seconds."""
    end = time.monotonic() + timeout
    while not (found := check()):
        if time.monotonic() > end:
            raise NotMeasured(f"{what}: not within {timeout:.0f} s")
        time.sleep(every)
    return found


class Cluster:
    """A running demo in ``running``, with STUDENTS and TEACHER, and the stubs' responder."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.place = running.home.root / "bench"
        self.stub = self.place / "stub.sh"
        self.port = free_port()
        self.responder_url = f"http://127.0.0.1:{self.port}"
        self._responder: subprocess.Popen[bytes] | None = None

    @property
    def state(self) -> dict[str, Any]:
        """What the demo says of itself."""
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
        """The output of a command of Slurm's own account."""
        return self.running.run(list(argv), "slurm", check=check, timeout=timeout).stdout

    def jobs(self, *states: str) -> int:
        """How many jobs there are in the benchmarks' partitions, in any of ``states`` (squeue's
        words)."""
        where = f"--partition={PARTITION},{CLASS_PARTITION}"
        return len(self.run("squeue", "-h", where, "-o", "%i", f"-t{','.join(states)}").split())

    def clear(self) -> None:
        """Cancel all jobs of these partitions, and return when they are gone."""
        cancel = ("scancel", "--quiet")
        for name in (PARTITION, CLASS_PARTITION):
            # Two hundred jobs keep a slurmctld on a small machine busy for minutes.
            self.run(*cancel, f"--partition={name}", check=False, timeout=240)
            self.run(*cancel, "--signal=KILL", f"--partition={name}", check=False, timeout=240)
        wait_for("the jobs' end", lambda: self.jobs("all") == self.jobs(*_ENDED), 240, 0.5)
        # slurmd and slurmctld work on their ends for longer, and take nodes away where that took
        # long; what is measured next should not be beside that.
        with contextlib.suppress(NotMeasured):  # somebody else works here
            wait_for("Slurm to have nothing to do", lambda: _busy(2) < _QUIET, 60)
        for node in set(self.run("sinfo", "-h", "-N", "-t", "drain", "-o", "%N").split()):
            self.run("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def posts(self) -> dict[str, tuple[float, str]]:
        """What was posted to the responder since the last call: name to (Unix seconds, body)."""
        with urllib.request.urlopen(f"{self.responder_url}/posted", timeout=10) as answer:
            notes = json.load(answer)
        return {name: (float(when), str(body)) for name, (when, body) in notes.items()}

    def requests_of(self, *names: str) -> int:
        """RPCs that slurmctld has had from these accounts since it started (sdiag(1))."""
        text = self.run("sdiag")
        _, _, by_user = text.partition("Remote Procedure Call statistics by user")
        by_user, _, _ = by_user.partition("Pending RPC")
        uids = {self.uid(name) for name in names}
        rows = re.findall(r"\(\s*(\d+)\)\s+count:(\d+)", by_user)
        if not rows:
            raise NotMeasured("sdiag does not count requests by account")
        return sum(int(count) for uid, count in rows if int(uid) in uids)

    def uid(self, name: str) -> int:
        """The number of an account of the demo."""
        done = self.running.run(["id", "-u", name], check=False)
        if done.returncode:
            raise NotMeasured(f"{name} has no account")
        return int(done.stdout)

    @contextlib.contextmanager
    def stock_rule(self) -> Iterator[None]:
        """The sudo rule that stock batchspawner needs: ``sudo -E``, and squeue as the person. With
        the PAM session that sudo has by itself: deploy/sudoers, which goes without, is for the same
        account here. Its ``!use_pty`` is left to stock, to its advantage."""
        rule = "portal ALL=(%portal-users) NOPASSWD: SETENV: /usr/bin/sbatch, /usr/bin/squeue, "
        lines = f"{rule}/usr/bin/scancel\nDefaults:portal pam_session, pam_setcred"
        write = f"umask 227; printf '%s\\n' \"$1\" >{_STOCK_RULE}"
        self.running.run(["sh", "-c", write, "sh", lines])
        try:
            yield
        finally:
            self.running.run(["rm", "-f", _STOCK_RULE])

    def _sample_seldom(self) -> None:
        """Slurm looks at what jobs use every 30 s, as it does by itself, and not every 2 s as in
        the demo: each look reads all of /proc, once for each of the two hundred jobs that are on
        one machine here and would be on many."""
        conf = self.running.home.demo / "slurm/etc/slurm.conf"
        text = re.sub(
            r"(?m)^JobAcctGatherFrequency=.*$", "JobAcctGatherFrequency=30", conf.read_text()
        )
        conf.write_text(text)
        self.run("scontrol", "reconfigure")

    def _add_people(self) -> None:
        """Into the accounts of the demo's namespace, which has an /etc of its own."""
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
    """How many CPUs of this machine were busy for so long, by /proc/stat (proc(5))."""

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
    """A demo for as long as the block runs, in a directory that is removed afterwards.

    ``only_slurm`` leaves the Hub, the directory and the images out. Raises NotMeasured where it
    does not start or has no real accounts.
    """
    if os.geteuid() != 0:
        raise NotMeasured("the benchmarks need root: people with accounts of their own, and sudo")
    cache = Home.find().cache
    root = Path(tempfile.mkdtemp(prefix="portal-bench-", dir="/var/tmp"))
    root.chmod(0o755)
    env = {**os.environ, "PORTAL_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
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
        demo.terminate()
        try:
            demo.wait(60)
        except subprocess.TimeoutExpired:
            demo.kill()
            demo.wait()
        shutil.rmtree(root, ignore_errors=True)
