"""Records what a real Slurm says, for the parser's tests: one directory per version.

    sudo PYTHON tests/slurm_outputs/record.py installed      # the Slurm of this machine
    sudo PYTHON tests/slurm_outputs/record.py trixie         # of another Debian suite
    sudo PYTHON tests/slurm_outputs/record.py testing
    sudo PYTHON tests/slurm_outputs/record.py trixie --only=test-only    # these files, no others
    sudo PYTHON tests/slurm_outputs/record.py installed --only=private

PYTHON is that of the virtual environment with the portal in it.

For another suite a root is made once in the cache (tests/support/containers/debian_root.py) and
entered in namespaces of its own. Each run starts a small private cluster with simulated GPUs, puts
jobs into as many states as it can in two minutes, and writes what the portal's own commands print.
Names of the machine do not reach the files.

Needs root, for the namespaces and for the private passwd file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from small import SmallSlurm, version

HERE = Path(__file__).resolve().parent
WORK = Path("/var/tmp/portal-slurm-record")
SEPARATOR = "\x1fSEPARATOR"
PASSWD = """root:x:0:0:root:/root:/bin/sh
ada:x:6101:6101::/tmp:/bin/sh
barbara:x:6103:6103::/tmp:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
GROUP = "root:x:0:\nada:x:6101:\nbarbara:x:6103:\nnogroup:x:65534:\n"
HOSTILE = "evil UserId=root(0)\nJobId=99 JobName=x UserId=root(0) Nodes=gpu01 CPU_IDs=0 Mem=1 GRES="
COMMENT = b"a|b\x1fSEPARATE\x1b[31m \xff\xfe \xc3\xa9 JobState=COMPLETED\nJobId=1 JobName=y"


def make_root(suite: str) -> Path:
    """A Debian root of ``suite`` with its Slurm, made when it is not there yet."""
    support = HERE.parent / "support"
    sys.path[:0] = [str(HERE.parent.parent), str(support / "containers"), str(support / "suite")]
    import debian_root

    cache = os.environ.get("PORTAL_CACHE") or "/var/lib/data-scientist-portal/cache"
    return debian_root.make(suite, Path(cache))


def portal_commands() -> dict[str, object]:
    """The portal's own questions, so that what is recorded is what is asked."""
    sys.path.insert(0, str(HERE.parent.parent))
    from portal.slurm.commands import queries

    return {
        "squeue": queries.JOBS,
        "squeue_format": queries.jobs_environment(SEPARATOR)["SQUEUE_FORMAT2"],
        "node": queries.NODES,
        "partition": queries.PARTITIONS,
        "reservation": queries.RESERVATIONS,
        "job": queries.GPU_INDEXES,
        "sacct": queries.ended_job("JOB", SEPARATOR)[:-1],
        "sacctmgr": queries.associations("USER"),
        "qos": queries.QOS,
        "account": queries.account("research"),
        "accounting_config": queries.ACCOUNTING_CONFIG,
    }


def enter(suite: str, only: str = "") -> None:
    """Run this script again with --inside, in the suite's root and in private namespaces."""
    root = Path("/") if suite == "installed" else make_root(suite)
    work = root / WORK.relative_to("/")
    shutil.rmtree(work, ignore_errors=True)
    (work / "src").mkdir(parents=True)
    for name in ("record.py", "small.py"):
        shutil.copy(HERE / name, work / "src")
    (work / "src/commands.json").write_text(json.dumps(portal_commands()))
    (work / "passwd").write_text(PASSWD)
    (work / "group").write_text(GROUP)
    (work / "hosts").write_text("127.0.0.1 localhost\n")
    (root / "etc/hosts").touch()
    mounts = [] if suite == "installed" else ["dev", "sys"]
    script = "\n".join(
        [
            "set -e",
            "hostname localhost",
            *(f"mount --rbind /{name} {root}/{name}" for name in mounts),
            f"mount -t proc proc {root}/proc",
            *(
                f"mount --bind {work}/{name} {root}/etc/{name}"
                for name in ("passwd", "group", "hosts")
            ),
            f"exec chroot {root} /usr/bin/python3 {WORK}/src/record.py --inside --only={only}",
        ]
    )
    inner = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child", "sh", "-c", script]
    )
    try:
        if inner.wait():
            sys.exit(f"The recording in {root} failed.")
    finally:
        inner.kill()  # and with it every process in its namespace
    for found in (work / "out").iterdir():
        target = HERE / found.name
        if not only:
            shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(found, target, dirs_exist_ok=True)
        print(f"Recorded {target}")
    shutil.rmtree(work)


class Recorder:
    """Fills the small cluster with jobs and writes down what the commands say."""

    def __init__(self, slurm: SmallSlurm, out: Path) -> None:
        self.slurm = slurm
        self.out = out
        self.jobs: dict[str, str] = {}

    def submit(self, label: str, *options: str, user: str = "ada", wrap: str = "sleep 600") -> str:
        """Submit a job and remember its id under ``label``."""
        argv = ["sbatch", "--parsable", f"--uid={user}", "--chdir=/tmp", "--output=/dev/null"]
        if not any(one.startswith("--job-name") for one in options):
            argv.append(f"--job-name={label}")
        self.jobs[label] = self.slurm.run(*argv, *options, "--wrap", wrap).strip()
        return self.jobs[label]

    def state(self, label: str) -> str:
        """The state and reason of a job, as squeue says them."""
        job = self.jobs[label]
        return self.slurm.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T %r", check=False)

    def until(self, what: str, ready: Callable[[], bool], seconds: float = 150) -> None:
        """Wait; a state that this Slurm never reaches is said and left out."""
        end = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > end:
                print(f"Not reached: {what}")
                return
            time.sleep(0.5)

    def save(self, name: str, *argv: str, env: dict[str, str] | None = None) -> None:
        """Write a command's standard output, without this machine's kernel."""
        text = self.slurm.run(*argv, env={"SLURM_TIME_FORMAT": "%s", **(env or {})})
        text = re.sub(r"OS=Linux .*?(?=\s+RealMemory=)", "OS=Linux 6.1.0 #1 SMP", text)
        (self.out / name).write_bytes(text.encode("utf-8", "surrogateescape"))

    def save_error(self, name: str, *argv: str, env: dict[str, str] | None = None) -> None:
        """Write a failing command's standard error (some versions fail with status 0)."""
        done = subprocess.run(
            argv, capture_output=True, env={**self.slurm.env, **(env or {})}, check=False, cwd="/"
        )
        if not done.returncode:
            print(f"{argv[0]} failed with exit status 0: {name}")
        (self.out / f"{name}.stderr").write_bytes(done.stderr or done.stdout)

    def prepare(self) -> None:
        """Accounts, QOS, a reservation and nodes that cannot be used."""
        run = self.slurm.run
        for account in ("research", "dl101"):
            run("sacctmgr", "-i", "add", "account", account)
        run("sacctmgr", "-i", "add", "qos", "short", "MaxTRESPerUser=gres/gpu=1", "Priority=10")
        run("sacctmgr", "-i", "add", "qos", "capped", "MaxWall=01:30:00", "GrpTRES=gres/gpu=8",
            "MaxTRESPerJob=cpu=8,mem=4G,gres/gpu=4,gres/gpu:v100=2", "MaxTRESPerNode=cpu=4",
            "MaxTRESPerAccount=cpu=6", "Flags=OverPartQOS,DenyOnLimit")  # fmt: skip
        run("sacctmgr", "-i", "add", "qos", "long", "MaxWall=14-00:00:00",
            "Flags=PartitionTimeLimit")  # fmt: skip
        run("sacctmgr", "-i", "add", "user", "root", "account=research")
        run("sacctmgr", "-i", "add", "user", "ada", "account=research", "qos=normal,short")
        run("sacctmgr", "-i", "add", "user", "barbara", "account=research")
        run("sacctmgr", "-i", "add", "user", "barbara", "account=dl101", "qos=normal,short",
            "defaultqos=short", "MaxJobs=5", "MaxSubmit=7", "MaxWall=1-00:00:00",
            "MaxTRES=gres/gpu=1")  # fmt: skip
        run("scontrol", "create", "reservation", "ReservationName=course", "StartTime=now+6hours",
            "Duration=02:00:00", "Nodes=gpu02,gpu04", "Users=ada,barbara", "PartitionName=gpu",
            "Flags=IGNORE_JOBS")  # fmt: skip
        run("scontrol", "update", "NodeName=gpu03", "State=DRAIN",
            "Reason=bad cable: State=IDLE NodeAddr=evil x")  # fmt: skip

    def fill(self) -> None:
        """Jobs in many states."""
        run = self.slurm.run
        for label in ("oom", "exit3", "signal9", "timeout", "cancelled", "requeued", "suspended"):
            options = ["--partition=cpu"]
            wrap = {
                "exit3": "exit 3",
                "signal9": "kill -9 $$",
                "oom": "python3 -c 'import time; x = bytearray(400 << 20); time.sleep(60)'",
            }.get(label, "sleep 600")
            if label == "oom":
                options.append("--mem=100")
            if label == "timeout":
                options.append("--time=0:01")
            self.submit(label, *options, wrap=wrap)
        self.submit("completed", "--partition=cpu", wrap="true")
        self.submit(
            "two-gpus",
            "--gpus=v100:2",
            "--nodelist=gpu01",
            "--comment=a plain comment",
            "--time=2:00:00",
        )
        self.submit("two-nodes", "--nodes=2", "--gpus-per-node=v100:1", user="barbara")
        self.submit("t4", "--gpus=t4:1", "--mem=4G", "--cpus-per-task=2")
        self.submit("hostile", f"--job-name={HOSTILE}", "--gres=gpu:v100:1", "--nodelist=gpu02",
                    f"--comment={os.fsdecode(COMMENT)}")  # fmt: skip
        # The forgery of another job's GPUs, and of its own.
        forged = f"x\nJobId={self.jobs['two-gpus']} JobName=y Nodes=gpu01 CPU_IDs=0 Mem=1 "
        self.submit("forger", f"--job-name={forged}GRES=gpu:v100:2(IDX:2-3)", "--gpus=v100:1",
                    "--nodelist=gpu02")  # fmt: skip
        for label in ("two-gpus", "two-nodes", "t4", "hostile", "forger"):
            self.until(label, lambda label=label: self.state(label).startswith("RUN"), 20)  # type: ignore[misc]
        self.submit("unicode", "--job-name=Übung — 深度学习 = 1|2", "--partition=cpu")
        self.submit("resources", "--nodes=3", "--gpus-per-node=v100:4", "--time=4:00:00")
        self.submit("priority", "--gpus=v100:4", "--nice=1000", "--exclusive", "--time=20:00:00")
        self.submit("qos-limit", "--qos=short", "--gpus=v100:1", "--partition=gpu")
        self.submit("qos-limit-2", "--qos=short", "--gpus=v100:2", "--partition=gpu")
        self.submit("association-limit", "--account=dl101", "--gpus=2", user="barbara")
        self.submit("held", "--hold")
        self.submit("begin", "--begin=now+1hour")
        self.submit("dependency", f"--dependency=afterok:{self.jobs['held']}")
        self.submit("array", "--array=1-6%2", "--partition=cpu")
        self.submit("reservation", "--reservation=course", "--gpus=1")
        self.submit("too-long", "--time=3-00:00:00")
        self.submit("not-available", "--nodelist=gpu03")
        self.submit("two-partitions", "--partition=cpu,gpu", "--begin=now+2hours")
        self.submit("cancelled-pending", "--hold")
        for label in ("cancelled", "cancelled-pending"):  # by their owner
            subprocess.run(
                [
                    *["setpriv", "--reuid=6101", "--regid=6101", "--clear-groups", "scancel"],
                    self.jobs[label],
                ],
                env=self.slurm.env,
                check=True,
            )
        run("scontrol", "suspend", self.jobs["suspended"])
        run("scontrol", "requeuehold", self.jobs["requeued"])
        # A node that goes away under its job, and one that an operator calls down.
        self.submit("node-fail", "--nodelist=gpu05", "--gpus=1", "--no-requeue")
        self.until("node-fail runs", lambda: self.state("node-fail").startswith("RUN"), 20)
        self.slurm.stop_one("gpu05")
        run("scontrol", "update", "NodeName=gpu05", "State=DOWN", "Reason=no power")
        self.slurm.stop_one("cpu02")

    def wait(self) -> None:
        """Until the slow ones are where they belong."""
        for label, state in (("timeout", "TIMEOUT"), ("oom", "FAILED|OUT_OF_ME")):
            self.until(label, lambda label=label, state=state: bool(  # type: ignore[misc]
                re.match(state, self.state(label))
            ))  # fmt: skip
        self.until("reasons", lambda: "None" not in self.state("priority"), 20)
        self.until(
            "cpu02*", lambda: "*" in self.slurm.run("sinfo", "-h", "-n", "cpu02", "-o", "%t")
        )
        time.sleep(3)  # accounting lags behind

    def test_only(self) -> None:
        """What sbatch --test-only says; before anything else runs."""
        longest = re.search(
            r"MaxTime=(\S+)", self.slurm.run("scontrol", "show", "partition", "gpu")
        )
        limit = ["scontrol", "update", "PartitionName=gpu"]
        self.slurm.run(*limit, "MaxTime=UNLIMITED")
        self.submit("forever", "--gpus=v100:4", "--nodelist=gpu05", "--time=UNLIMITED", "--mem=100")
        self.submit("hour", "--gpus=t4:2", "--nodelist=gpu04", "--time=1:00:00", "--mem=100")
        for label in ("forever", "hour"):
            self.until(label, lambda label=label: self.state(label).startswith("RUN"), 20)  # type: ignore[misc]
        ask = ["sbatch", "--test-only", "--uid=ada", "--time=10", "--mem=100", "--wrap", "true"]
        seconds = {"SLURM_TIME_FORMAT": "%s"}
        self.save_error("test-only-now", *ask, "--gpus=v100:1", "--nodelist=gpu01", env=seconds)
        self.save_error(
            "test-only-now-local", *ask, "--gpus=v100:1", "--nodelist=gpu01", env={"TZ": "UTC"}
        )
        self.save_error("test-only-later", *ask, "--gpus=t4:1", env=seconds)
        self.save_error("test-only-never", *ask, "--gpus=v100:1", "--nodelist=gpu05", env=seconds)
        self.save_error("test-only-no-node", *ask, "--nodelist=gpu03", env=seconds)
        self.save_error("test-only-gpus", *ask, "--gpus=99", env=seconds)
        self.save_error("test-only-account", *ask, "--account=nonsense", env=seconds)
        self.slurm.run("sacctmgr", "-i", "modify", "user", "ada", "set", "MaxSubmitJobs=0")
        self.save_error("test-only-submit", *ask, env=seconds)
        self.slurm.run("sacctmgr", "-i", "modify", "user", "ada", "set", "MaxSubmitJobs=-1")
        self.slurm.run(*limit, f"MaxTime={longest[1] if longest else 'UNLIMITED'}")
        # A job that can never start, first in the queue (EnforcePartLimits=NO takes it): the
        # answer for those behind it is as if it did, although they start at once.
        self.submit("too-long-first", "--time=300-00:00:00", "--partition=gpu")
        self.save_error("test-only-behind", *ask, "--gpus=v100:1", "--nodelist=gpu01", env=seconds)
        for label in ("forever", "hour", "too-long-first"):
            self.slurm.run("scancel", self.jobs.pop(label))

    def private(self) -> None:
        """What slurmdbd answers barbara, who has no rights, where PrivateData hides others'."""
        from_portal = json.loads((WORK / "src/commands.json").read_text())
        settings = self.slurm.home / "slurmdbd.conf"
        before = settings.read_text()
        settings.write_text(f"{before}PrivateData=accounts,users\n")
        self.slurm.run("sacctmgr", "-i", "reconfigure")
        barbara = ["setpriv", "--reuid=6103", "--regid=6103", "--clear-groups"]
        ada = [one.replace("USER", "ada") for one in from_portal["sacctmgr"]]
        self.save("private-associations.txt", *barbara, *ada)
        self.save("private-configuration.txt", *barbara, *from_portal["accounting_config"])
        self.save_error("private-account", *barbara, *from_portal["account"])
        settings.write_text(before)
        self.slurm.run("sacctmgr", "-i", "reconfigure")

    def write(self) -> None:
        """Everything that the portal asks."""
        from_portal = json.loads((WORK / "src/commands.json").read_text())
        self.save("squeue.txt", *from_portal["squeue"],
                  env={"SQUEUE_FORMAT2": from_portal["squeue_format"]})  # fmt: skip
        for noun in ("node", "partition", "reservation"):
            self.save(f"{noun}.txt", *from_portal[noun])
        self.save("job.txt", *from_portal["job"])
        for label in ("oom", "exit3", "signal9", "timeout", "cancelled", "completed", "node-fail",
                      "cancelled-pending", "two-gpus", "hostile"):  # fmt: skip
            self.save(f"sacct-{label}.txt", *from_portal["sacct"], f"--jobs={self.jobs[label]}")
        self.save("sinfo.txt", "sinfo", "-h", "-N", "-O", "NodeList:|,StateLong:|,StateCompact:|")
        for user in ("ada", "barbara", "nobody"):
            argv = [one.replace("USER", user) for one in from_portal["sacctmgr"]]
            self.save(f"sacctmgr-{user}.txt", *argv)
        self.save("sacctmgr-qos.txt", *from_portal["qos"])
        submit = ["sbatch", "--uid=ada", "--parsable", "--wrap", "true"]
        self.save_error("refused-gpus", *submit, "--gpus=99")
        self.save_error("refused-account", *submit, "--account=nonsense")
        self.save_error("refused-partition", *submit, "--partition=nonsense")
        self.save_error("refused-qos", *submit, "--qos=nonsense")
        self.save_error("refused-job", "squeue", "-j", "99999")
        self.slurm.stop_one("slurmdbd")
        self.save_error("down-slurmdbd", *from_portal["sacctmgr"])
        self.slurm.stop_one("slurmctld")
        self.save_error("down-slurmctld", *from_portal["node"])
        self.save_error("down-submit", *submit)
        self.slurm.start_slurmctld()
        self.slurm.stop_one("munged")
        self.save_error("down-munged", *from_portal["node"])
        (self.out / "labels.json").write_text(
            json.dumps(self.jobs, indent=1, sort_keys=True) + "\n"
        )


def inside(only: str) -> None:
    """The recording itself, in the namespaces."""
    out = WORK / "out" / "{}.{:02d}".format(*version())
    out.mkdir(parents=True)
    WORK.chmod(0o755)
    slurm = SmallSlurm(WORK / "slurm")
    try:
        slurm.start()
        recorder = Recorder(slurm, out)
        recorder.prepare()
        if only != "private":
            recorder.test_only()
        if only != "test-only":
            recorder.private()
        if not only:
            recorder.fill()
            recorder.wait()
            recorder.write()
    finally:
        slurm.stop()


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("suite", nargs="?", default="installed", help="installed, trixie, testing")
    parser.add_argument("--only", default="", choices=("", "private", "test-only"))
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if os.geteuid():
        sys.exit("record.py needs root: it makes namespaces and a private passwd file.")
    if arguments.inside:
        inside(arguments.only)
    else:
        enter(arguments.suite, arguments.only)


if __name__ == "__main__":
    main()
