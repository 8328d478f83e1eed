"""Ranks of a script on two nodes of a real Slurm: they find each other, the first error is told, a
rank that hangs is named, and a node on which the environment does not start is excluded."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from frameworks import python_of
from machine import patience
from mpich_memory import no_memory_of_mpich
from run_site import PlayedService, RunSite, manifest, played_service, wait_until
from slurm_runs import Begun, Place
from small import SmallSlurm
from small_slurm import started

ROUND = """
import json, os, socket, time
from pathlib import Path
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
         "GLOO_SOCKET_IFNAME", "SLURMD_NODENAME", "SLURM_PROCID")
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:  # an all-reduce of the ranks, by hand
    with socket.create_server(address) as server:
        others = [server.accept()[0] for _ in range(size - 1)]
        total = sum(other.recv(1)[0] for other in others)
        for other in others:
            other.sendall(bytes([total]))
else:
    for _ in range(100):
        try:
            own = socket.create_connection(address)
            break
        except OSError:
            time.sleep(0.1)
    own.sendall(bytes([rank]))
    total = own.recv(1)[0]
about = {name: os.environ.get(name) for name in names}
Path(f"rank-{rank}.json").write_text(json.dumps({**about, "total": total}))
print("rank", rank, "has", total)
"""
RAISING = """
import os, time
rank = int(os.environ["RANK"])
def layer(x):
    raise ValueError(f"rank {rank} has no data")
if rank == 3:
    time.sleep(1)
    layer(1)
try:
    time.sleep(8 + rank)  # the collective that ends when rank 3 has gone
finally:
    print("rank", rank, "was here")
raise RuntimeError("connection closed by peer")
"""
HANGING = """
import os, time
def all_reduce():
    time.sleep(600)
def load_data():
    time.sleep(600)
if os.environ["RANK"] == "2":
    load_data()
all_reduce()
"""
# As with NCCL: one call waits, uses a CPU, and lets no Python go on.
SPINNING = """
import os
from hashlib import pbkdf2_hmac
def all_reduce():
    pbkdf2_hmac("sha256", b"x", b"y", 2**31 - 1)
def barrier():
    pbkdf2_hmac("sha256", b"x", b"y", 2**31 - 1)
if os.environ["RANK"] == "2":
    barrier()
all_reduce()
"""
LASTING = """
import os, signal, time
def leave(number, frame):
    print("rank", os.environ["RANK"], "has heard", flush=True)
    raise SystemExit(3)
signal.signal(signal.SIGTERM, leave)
print("begins", flush=True)
time.sleep(600)
"""
# A script goes on in an environment that has its packages, as the point's own may not.
SWITCH = """
import os, sys
if os.environ.setdefault("PYTHON_OF_TEST", "") != "PYTHON":
    os.environ["PYTHON_OF_TEST"] = "PYTHON"
    os.execv("PYTHON", ["PYTHON", "-m", "portal_main"])
"""
DDP = """
import time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from portal_checkpoint import resumed
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)  # DDP sends the weights of rank 0 to all
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
print("begins", flush=True)
for step in resumed(range(25), minutes=0, model=model, optimizer=optimizer):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    time.sleep(0.2)
    print("step", step, flush=True)
weights = torch.cat([one.detach().flatten() for one in model.parameters()])
all_weights = [torch.zeros_like(weights) for _ in range(dist.get_world_size())]
dist.all_gather(all_weights, weights)
print("same", all(torch.equal(weights, one) for one in all_weights), dist.get_world_size())
"""
# Two nodes of one machine share /dev/shm, in which MPICH's ranks of each would take the same names.
MPI = """
import os
os.environ["MPIR_CVAR_NOLOCAL"] = "1"
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(world.rank)
print(world.rank, world.size, total, flush=True)
"""
WORKERS = """
import json, os, socket
config = json.loads(os.environ["TF_CONFIG"])
workers, index = config["cluster"]["worker"], config["task"]["index"]
assert config["task"]["type"] == "worker" and str(index) == os.environ["RANK"]
def place(worker):
    host, port = worker.rsplit(":", 1)
    return host, int(port)
met = []
with socket.create_server(place(workers[index])) as server:
    for other, worker in enumerate(workers):
        if other == index:
            continue
        while True:
            try:
                with socket.create_connection(place(worker), timeout=30) as own:
                    own.sendall(bytes([index]))
                break
            except ConnectionRefusedError:
                pass  # it does not listen yet
    while len(met) < len(workers) - 1:
        met.append(server.accept()[0].recv(1)[0])
print("worker", index, "of", f"{len(workers)}:", sorted(met))
"""
# Each rank has data of its own; the weights are the same in all.
TENSORFLOW = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    weights = tf.Variable(tf.random.normal((8, 1)))
tf.random.set_seed(int(os.environ["RANK"]))
x, y = tf.random.normal((64, 8)), tf.random.normal((64, 1))
def of_replica(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weights - y) ** 2)
    gradient = tape.gradient(loss, weights)
    weights.assign_sub(tf.distribute.get_replica_context().all_reduce("mean", 0.01 * gradient))
@tf.function
def step():
    strategy.run(of_replica, (x, y))
for _ in range(5):
    step()
print("replicas", strategy.num_replicas_in_sync)
print("weights", [round(float(w), 6) for w in weights.numpy().ravel()])
"""
DYING = """
import os, signal, time
if os.environ["RANK"] == "1":
    time.sleep(1)
    os.kill(os.getppid(), signal.SIGKILL)  # its program on the node, as for want of memory
time.sleep(60)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    root = tmp_path_factory.mktemp("ranks")
    small = SmallSlurm(root / "slurm", accounting=False, requeue_after=5)
    with no_memory_of_mpich(), started(small) as slurm:
        place = Place(slurm, root)
        yield place
        place.cluster.close()


@pytest.fixture(scope="module")
def service() -> Iterator[PlayedService]:
    with played_service() as service:
        yield service


@pytest.fixture(scope="module")
def site(place: Place, service: PlayedService) -> RunSite:
    return RunSite(place.root, service)


def begin(place: Place, site: RunSite, text: str, name: str, **more: Any) -> Begun:
    plan = site.plan(site.script(text, f"{name}.py"))
    asked = {"nodes": 2, "cpus": 2, "ranks": 2, **more}
    return place.begin(site, plan, **asked)


def inside(framework: str, text: str) -> str:
    """Return a script that runs in the environment of a framework."""
    return SWITCH.replace('PYTHON"', f'{python_of(framework)}"') + text


def python_except(site: RunSite, node: str, starts: str) -> str:
    """Return a Python that only starts where the condition ``starts`` is true."""
    python = site.home / f"python-{node}"
    python.write_text(f'#!/bin/bash\n{starts} || exit 255\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return str(python)


def reports(site: RunSite, run: Begun) -> list[dict[str, Any]]:
    return [one for one in site.service.reports if one["job"].startswith(f"{run.job}_")]


def lose_node(place: Place, site: RunSite, run: Begun) -> str:
    """Lose the second node of a run: all of its processes are killed, and Slurm notices that it
    does not answer (which takes SlurmdTimeout). Return its name."""
    name = place.slurm.run("squeue", "--noheader", "--job", run.job, "--format=%N").strip()
    (name,) = place.slurm.run("scontrol", "show", "hostnames", name).split()[1:]
    daemon = place.slurm.processes.pop(name)
    daemon.kill()
    daemon.wait()
    mark = f"SLURMD_NODENAME={name}\0".encode()
    steps, ranks = set(), set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environ = (process / "environ").read_bytes() + b"\0"
            if mark in environ and str(site.home).encode() in environ:
                ranks.add(int(process.name))
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                if Path(f"/proc/{parent}/comm").read_text().strip() == "slurmstepd":
                    steps.add(parent)
    assert steps and ranks
    for pid in (*steps, *ranks):  # those of Slurm first, which would tell that the others ended
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    reason = ("State=DOWN", "Reason=Not responding")
    place.slurm.run("scontrol", "update", f"NodeName={name}", *reason)
    return name


def message(told: list[dict[str, Any]], words: str) -> str:
    """Return the first message with these words; "" without one."""
    return next((one["message"] for one in told if words in one["message"]), "")


def ended(site: RunSite, run: Begun, seconds: float = 60, *, attempt: int = 1) -> dict[str, Any]:
    """Wait until the point has ended in this attempt or a later one; return its last report."""

    def last() -> dict[str, Any]:
        return next(
            (
                one
                for one in reports(site, run)
                if one["state"] in ("succeeded", "failed") and one["attempt"] >= attempt
            ),
            {},
        )

    try:
        wait_until(last, seconds)
    except AssertionError:
        print(*(path.read_text() for path in site.home.glob("*.log")), sep="\n")
        raise
    return last()


def test_the_ranks_of_two_nodes_find_each_other(place: Place, site: RunSite) -> None:
    run = begin(place, site, ROUND, "round")
    assert ended(site, run)["state"] == "succeeded"
    ranks = [json.loads((site.work / f"rank-{rank}.json").read_text()) for rank in range(4)]
    assert [(one["RANK"], one["LOCAL_RANK"]) for one in ranks] == [
        ("0", "0"), ("1", "1"), ("2", "0"), ("3", "1")
    ]  # fmt: skip
    assert {(one["WORLD_SIZE"], one["LOCAL_WORLD_SIZE"], one["total"]) for one in ranks} == {
        ("4", "2", 6)
    }
    assert [one["SLURMD_NODENAME"] for one in ranks] == ["cpu01", "cpu01", "cpu02", "cpu02"]
    assert len({(one["MASTER_ADDR"], one["MASTER_PORT"]) for one in ranks}) == 1
    assert {one["GLOO_SOCKET_IFNAME"] for one in ranks} == {"lo"}
    folder = run.log().parent
    assert run.log().read_text() == "rank 0 has 6\n"
    logs = {path.name: path.read_text() for path in folder.glob("rank-*.log")}
    assert logs == {f"rank-{rank}.log": f"rank {rank} has 6\n" for rank in (1, 2, 3)}


def test_the_first_error_is_told(place: Place, site: RunSite) -> None:
    run = begin(place, site, RAISING, "raising")
    begun = time.monotonic()
    last = ended(site, run)
    assert time.monotonic() - begun < patience(30)
    assert last["state"] == "failed"
    where = "Rank 3 on cpu02: ValueError: rank 3 has no data (exit code 1)"
    assert last["message"] == where
    assert manifest(run.log().parent)["message"] == where
    log = run.log().read_text()
    assert "rank 0 was here" not in log  # it was ended, and waited no longer
    assert "Rank 3 failed first" in log
    assert "in layer" in log and log.rstrip().endswith("ValueError: rank 3 has no data")


def test_ranks_that_hang_are_named(place: Place, site: RunSite) -> None:
    """Two points at once, as each takes a quarter of a minute: rank 2 of one sleeps, that of the
    other is in a call that uses its CPU."""
    hanging = begin(place, site, HANGING, "hanging")
    spinning = begin(place, site, SPINNING, "spinning", partition="gpu")
    begun: list[float] = []

    def named() -> tuple[str, str]:
        told = reports(site, hanging)
        if told and not begun:
            begun.append(time.monotonic())
        return message(told, "done nothing"), message(reports(site, spinning), "not gone on")

    try:
        wait_until(lambda: named()[0], 60)
        assert time.monotonic() - begun[0] < patience(30)
        wait_until(lambda: all(named()), 60)
        idle, busy = named()
        assert idle.startswith("Rank 2 on cpu02 has done nothing for 1")
        assert "it is in hanging.py, line 6, in load_data" in idle
        assert idle.endswith("while 3 others are in hanging.py, line 4, in all_reduce.")
        assert busy.startswith("Rank 2 on gpu02 has not gone on for 1")
        assert "it is in spinning.py, line 7, in barrier" in busy
    finally:
        place.slurm.run("scancel", f"{spinning.job}_0")
        place.slurm.run("scancel", "--batch", "--signal=TERM", f"{hanging.job}_0")
    last = ended(site, hanging)
    assert (last["state"], last["message"]) == ("failed", "The point was stopped")
    ended(site, spinning)


def test_a_cancelled_point_says_so(place: Place, site: RunSite) -> None:
    """Plain scancel, which Slurm's end of the job's time equals: all processes get SIGTERM."""
    run = begin(place, site, LASTING, "cancelled")
    logs = [run.log(), *(run.log().parent / f"rank-{rank}.log" for rank in (1, 2, 3))]
    wait_until(lambda: all(log.exists() and "begins" in log.read_text() for log in logs))
    place.slurm.run("scancel", f"{run.job}_0")
    last = ended(site, run)
    assert (last["state"], last["message"]) == ("failed", "The point was stopped")
    assert manifest(run.log().parent)["message"] == "The point was stopped"
    assert [f"rank {rank} has heard" in log.read_text() for rank, log in enumerate(logs)] == (
        [True] * 4
    )


def test_rank_0_that_is_killed_is_named(place: Place, site: RunSite) -> None:
    run = begin(place, site, DYING.replace('== "1"', '== "0"'), "first-dying")
    last = ended(site, run)
    words = "Rank 0: its program has ended without a word (exit code 137)"
    assert (last["state"], last["message"]) == ("failed", words)
    assert manifest(run.log().parent)["message"] == words


def test_a_rank_that_is_killed_is_named(place: Place, site: RunSite) -> None:
    begun = time.monotonic()
    run = begin(place, site, DYING, "dying")
    last = ended(site, run)
    assert time.monotonic() - begun < patience(9)  # nothing waits for what it says of its end
    assert last["state"] == "failed"
    assert last["message"].startswith("Rank 1 on cpu01: its program has ended without a word")


def test_bad_nodes_are_excluded(place: Place, site: RunSite) -> None:
    """Two points at once, as Slurm waits before it starts a job again: the environment does not
    start on the second node, or on that of rank 0, whom another rank speaks for."""
    bad = {
        "gpu02": python_except(site, "gpu02", '[ "$SLURMD_NODENAME" != gpu02 ]'),
        "gpu01": python_except(
            site, "gpu01", '[ "$SLURM_PROCID" != 0 ] || [ "$SLURMD_NODENAME" != gpu01 ]'
        ),
    }
    runs = {
        node: begin(
            place, site, ROUND.replace("rank-{rank}", f"{node}-{{rank}}"), f"bad-{node}",
            partition="gpu", program=program,
        )
        for node, program in bad.items()
    }  # fmt: skip
    for node, run in runs.items():
        last = ended(site, run, 120)
        assert (last["state"], last["attempt"]) == ("succeeded", 2)
        (waiting,) = (one for one in reports(site, run) if one["state"] == "waiting")
        assert waiting["message"] == (
            f"{node} is unfit: the environment does not start there (exit code 255). The point "
            "starts again without it (1 of 2)."
        )
        nodes = {
            json.loads((site.work / f"{node}-{rank}.json").read_text())["SLURMD_NODENAME"]
            for rank in range(4)
        }
        assert len(nodes) == 2 and node not in nodes


def test_without_other_nodes_the_bad_one_is_only_named(place: Place, site: RunSite) -> None:
    python = python_except(site, "cpu02", '[ "$SLURMD_NODENAME" != cpu02 ]')
    run = begin(place, site, ROUND, "no-other", program=python)
    last = ended(site, run)
    assert last["state"] == "failed"
    assert last["message"] == (
        "cpu02 is unfit: the environment does not start there (exit code 255). There is no other "
        "node to run on."
    )


def test_a_training_goes_on_after_a_lost_node(place: Place, site: RunSite) -> None:
    """By PyTorch, whose ranks have the same weights in the end."""
    run = begin(place, site, inside("torch", DDP), "lost", memory="2G", partition="gpu")
    wait_until(lambda: "step 2" in (run.log().read_text() if run.log().exists() else ""))
    lost = lose_node(place, site, run)
    try:
        wait_until(lambda: any(one["attempt"] == 2 for one in reports(site, run)), 90)
        last = ended(site, run, 150, attempt=2)
    finally:
        place.slurm.start_slurmd(lost)
        place.slurm.run("scontrol", "update", f"NodeName={lost}", "State=RESUME")
    assert last["state"] == "succeeded", last
    steps = run.log(2).read_text().split("begins")[-1]
    assert "step 0\n" not in steps and "step 24" in steps and "same True 4" in steps


def test_mpi_finds_its_ranks(place: Place, site: RunSite) -> None:
    run = begin(place, site, inside("ranks", MPI), "mpi")
    last = ended(site, run, 90)
    assert last["state"] == "succeeded", (last, run.log().read_text())
    folder = run.log().parent
    logs = [run.log(), *(folder / f"rank-{rank}.log" for rank in (1, 2, 3))]
    assert [log.read_text() for log in logs] == [f"{rank} 4 6\n" for rank in range(4)]


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ("raise ValueError('no data')", r"ValueError: no data \(exit code 1\)"),
        ("raise SystemExit(7)", r".*exit code 7.*"),
    ],
)
def test_a_rank_that_fails_does_not_wait_for_the_others(
    place: Place, site: RunSite, ends: str, said: str
) -> None:
    """MPI_Finalize would."""
    text = f"{MPI}if world.rank == 3:\n    {ends}\nworld.barrier()\n"
    last = ended(site, begin(place, site, inside("ranks", text), "mpi-fails"), 60)
    assert last["state"] == "failed"
    assert re.fullmatch(rf"Rank 3 on cpu0[12]:? {said}", last["message"]), last["message"]


def test_an_mpi_that_finds_no_ranks_is_refused(place: Place, site: RunSite) -> None:
    """Open MPI 5 knows PMIx alone: without it, it would start four worlds of one rank."""
    plugins = place.slurm.run("srun", "--mpi=list")
    run = begin(place, site, inside("openmpi", MPI), "openmpi")
    last = ended(site, run, 90)
    if last["state"] == "succeeded":  # this Slurm's PMIx works
        assert "pmix" in plugins and run.log().read_text() == "0 4 6\n"
        return
    message = last["message"]
    assert last["state"] == "failed" and re.match(r"Rank \d on cpu0[12]: ImportError: ", message)
    said = (
        "MPI (Open MPI v5.0.11) does not find the other 3 ranks: srun has started them with PMI-2, "
        "as the nodes lack PMIx. Install MPICH (pip install mpich) instead"
    )
    assert said in message and "mpi4py.rc.initialize = False" in message


def test_mpi_that_the_script_does_not_start_is_not_refused(place: Place, site: RunSite) -> None:
    text = "import mpi4py\nmpi4py.rc.initialize = False\nfrom mpi4py import MPI\nprint('on')\n"
    run = begin(place, site, inside("openmpi", text), "unused")
    assert ended(site, run, 90)["state"] == "succeeded"
    assert run.log().read_text() == "on\n"


def test_an_environment_without_mpi_is_refused(place: Place, site: RunSite) -> None:
    text = f"import os\nos.environ['MPI4PY_LIBMPI'] = '/nowhere/libmpi.so'\n{MPI}"
    run = begin(place, site, inside("ranks", text), "no-mpi")
    last = ended(site, run, 90)
    assert last["state"] == "failed", run.log().read_text()
    assert "mpi4py finds no library of MPI that works" in last["message"]
    assert "pip install mpich" in last["message"]


def test_each_rank_has_an_address_for_tensorflow(place: Place, site: RunSite) -> None:
    """TF_CONFIG: each rank listens at its own address, and connects to all others'."""
    run = begin(place, site, WORKERS, "workers")
    last = ended(site, run)
    assert last["state"] == "succeeded", (last, run.log().read_text())
    assert run.log().read_text() == "worker 0 of 4: [1, 2, 3]\n"
    third = run.log().parent / "rank-3.log"
    assert third.read_text() == "worker 3 of 4: [0, 1, 2]\n"


def test_tensorflow_trains_on_two_nodes(place: Place, site: RunSite) -> None:
    text = inside("tensorflow", TENSORFLOW)
    run = begin(place, site, text, "mirrored", memory="3G", ranks=1)
    last = ended(site, run, 200)
    said = run.log().read_text()
    assert last["state"] == "succeeded", (last, said)
    assert "replicas 2" in said
    other = (run.log().parent / "rank-1.log").read_text()
    weights = [re.search(r"weights (.*)", log)[1] for log in (said, other)]  # type: ignore[index]
    assert weights[0] == weights[1]


def test_a_port_that_is_taken_meanwhile_is_named(place: Place, site: RunSite) -> None:
    text = ROUND.replace(
        "    with socket.create",
        "    taken = socket.create_server(address)\n    with socket.create",
        1,
    )
    run = begin(place, site, text, "taken")
    last = ended(site, run)
    assert last["state"] == "failed"
    assert last["message"].startswith("Rank 0 on cpu01: OSError: [Errno 98] Address already in use")


def test_a_rank_that_never_starts_is_named(place: Place, site: RunSite) -> None:
    """Its environment hangs on one node, as on a file system that does not answer."""
    python = site.home / "python-hangs"
    python.write_text(
        '#!/bin/bash\n[ "$SLURM_PROCID" != 3 ] || exec sleep 600\n'
        f'exec {sys.executable} -c "\n'
        "import runpy; from portal_session.runs.ranks import lead; lead._START = 5.0\n"
        "runpy.run_module('portal_session.runs.point', run_name='__main__')\"\n"
    )
    python.chmod(0o755)
    run = begin(place, site, ROUND, "never", program=str(python))
    try:
        last = ended(site, run)
        assert last["state"] == "failed"
        assert last["message"] == (
            "Rank 3 did not start within 5 s. Check that the home and the environment's image can "
            "be read on all nodes."
        )
    finally:  # srun waits for it
        place.slurm.run("scancel", run.job)


def test_ranks_in_a_container_find_each_other(place: Place, site: RunSite) -> None:
    # In the place of Apptainer: nothing of the node's environment but what is passed in.
    apptainer = site.home / "apptainer"
    apptainer.write_text(
        '#!/bin/bash\ninside=(PATH="$PATH" HOME="$HOME")\n'
        'for name in ${!APPTAINERENV_@}; do inside+=("${name#APPTAINERENV_}=${!name}"); done\n'
        f'exec env -i "${{inside[@]}}" {sys.executable} "$@"\n'
    )
    apptainer.chmod(0o755)
    run = begin(place, site, ROUND, "inside", program=str(apptainer), container=True)
    assert ended(site, run)["state"] == "succeeded"
    assert run.log().read_text() == "rank 0 has 6\n"


def test_one_node_without_ranks_has_one_process(place: Place, site: RunSite) -> None:
    text = "import os\nprint(os.environ.get('RANK'), os.environ.get('SLURM_PROCID'))\n"
    run = begin(place, site, text, "single", nodes=1, ranks=0)
    assert ended(site, run)["state"] == "succeeded"
    assert run.log().read_text() == "None None\n"


def test_nothing_is_left(place: Place, site: RunSite) -> None:
    wait_until(lambda: not place.slurm.run("squeue", "--noheader"))
    folders = list((site.home / ".portal/ranks").iterdir())
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}
    assert all(folder.stat().st_uid == os.geteuid() for folder in folders)
