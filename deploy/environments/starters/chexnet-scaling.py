"""CheXNet scaling: images per second of DenseNet-121 with 14 findings on 1, 2, 4, 8 ranks, in a
virtual environment and in a container, and the ratio of the two.

    python chexnet-scaling.py --image=/images/pytorch.sif [--ranks=8] [--rounds=2]

A is the Python that executes this script, B is python3 in the image, started with Apptainer. Both
measure in turns, A B A B, with the same GPUs and CPUs of one job, so that what changes from job to
job (node, clock, neighbours) is in both. They must have the same version of PyTorch: otherwise the
ratio would not be the cost of the container.

If RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set (a run with ranks), each of these ranks
starts its own processes; alone, the script starts all of them on this node. Connections between
ranks are not encrypted. Pictures are noise, made in the node's memory. Without GPUs, pictures and
batches are small.
"""

import argparse
import contextlib
import datetime
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

FINDINGS = 14
WARM_UP = 3  # steps
PATIENCE = datetime.timedelta(minutes=5)  # for the other ranks
# Operations of one picture of 224 x 224: twice the 2.83e9 multiplications and additions of a
# forward pass (torchvision's table of DenseNet121_Weights), and for training three times that.
TRAINING = 3 * 5.66e9
# Variables that a container needs for the same GPUs, CPUs and network.
PASSED = re.compile(r"(CUDA|ROCR|HIP|NCCL|RCCL|GLOO|OMP|UCX)_\w+")
VERSION = "import torch, torchvision; print(torch.__version__)"
TIMES = "\N{MULTIPLICATION SIGN}"  # unit of a ratio
PLACES = ("virtual environment", "container")  # A and B


class Failure(Exception):
    """Sentence about what is wrong and what to do."""


# -- one rank, in a process of A or B --------------------------------------------------------------


def measure(rank, ranks, method, local, threads, batch, pixels, steps):
    """Train as one of these ranks; return images per second of all, the median over steps."""
    from torchvision.models import densenet121

    gpu = torch.cuda.is_available()
    device = torch.device("cuda", local) if gpu else torch.device("cpu")
    torch.set_num_threads(threads)
    if gpu:
        torch.cuda.set_device(device)
        torch.backends.cudnn.benchmark = True
    if ranks > 1:
        backend = "nccl" if gpu else "gloo"
        dist.init_process_group(
            backend, init_method=method, rank=rank, world_size=ranks, timeout=PATIENCE
        )
    torch.manual_seed(rank)
    network = densenet121(num_classes=FINDINGS).to(device)
    model = network
    if ranks > 1:
        model = DistributedDataParallel(network, device_ids=[local] if gpu else None)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.cuda.amp.GradScaler(enabled=gpu)
    pictures = torch.randn(batch, 3, pixels, pixels)
    findings = torch.randint(0, 2, (batch, FINDINGS)).float()
    if gpu:
        pictures, findings = pictures.pin_memory(), findings.pin_memory()
    rates = []
    for step in range(WARM_UP + steps):
        began = time.perf_counter()
        images, labels = (part.to(device, non_blocking=True) for part in (pictures, findings))
        with torch.autocast("cuda", torch.float16) if gpu else contextlib.nullcontext():
            loss = torch.nn.functional.binary_cross_entropy_with_logits(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if gpu:
            torch.cuda.synchronize()
        if step >= WARM_UP:
            rates.append(batch * ranks / (time.perf_counter() - began))
    if ranks > 1:
        dist.barrier()  # none leaves while others still exchange
        dist.destroy_process_group()
    return statistics.median(rates)


# -- all ranks, in turns ---------------------------------------------------------------------------


class Team:
    """Ranks that this process starts: all on this node, or the one of a run's rank."""

    def __init__(self, folder, ranks):
        self.folder, self.turns = folder, 0
        self.spread = "RANK" in os.environ and "WORLD_SIZE" in os.environ
        self.rank = int(os.environ["RANK"]) if self.spread else 0
        self.world = int(os.environ["WORLD_SIZE"]) if self.spread else ranks
        # As many for one rank as for all of them.
        self.threads = max(1, len(os.sched_getaffinity(0)) // self.world)
        if self.spread:
            self.threads = int(os.environ.get("OMP_NUM_THREADS", 1))
            dist.init_process_group("gloo")
        else:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # nobody outside can join

    def agreed(self, value):
        """Return rank 0's value, on all."""
        values = [value]
        if self.spread:
            dist.broadcast_object_list(values, src=0)
        return values[0]

    def meeting(self):
        """Return where the ranks of the next turn meet."""
        self.turns += 1
        if not self.spread:  # a file that only this user can open
            return f"file://{self.folder}/{self.turns}"
        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
        return self.agreed(f"tcp://{os.environ['MASTER_ADDR']}:{port}")

    def turn(self, command, ranks, *values):
        """Have these ranks measure with ``command``, a Python; return rank 0's answer. Raises
        Failure."""
        method = self.meeting()
        own = range(ranks) if not self.spread else range(self.rank, min(self.rank + 1, ranks))
        code = source()
        processes = []
        for rank in own:
            local = int(os.environ.get("LOCAL_RANK", 0)) if self.spread else rank
            told = json.dumps([rank, ranks, method, local, self.threads, *values])
            process = subprocess.Popen(
                [*command, "-", f"--measure={told}"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(),
            )  # fmt: skip
            processes.append(process)
            with contextlib.suppress(BrokenPipeError):  # it has ended
                process.stdin.write(code)
                process.stdin.close()
        failed = not ended_well(processes)
        if self.spread:
            each = [None] * self.world
            dist.all_gather_object(each, failed)
            failed = any(each)
        if failed:
            raise Failure(f"A rank of {ranks} has failed: what it said is above.")
        said = processes[0].stdout.read().split() if processes else [b"null"]
        return self.agreed(json.loads(said[-1]))


def source():
    """Return this script as it is executed: in a run, the frozen copy."""
    return Path(os.environ.get("PORTAL_FROZEN_SOURCE") or __file__).read_bytes()


def environment():
    """Return the variables of a rank; those that Apptainer is to pass have its prefix too."""
    passed = {name: value for name, value in os.environ.items() if PASSED.fullmatch(name)}
    passed["PYTHONNOUSERSITE"] = "1"  # the image's packages, not those in the home
    return {**os.environ, **{f"APPTAINERENV_{name}": value for name, value in passed.items()}}


def ended_well(processes):
    """Wait for all processes; return False if one has failed, and end the others then."""
    while any(process.poll() is None for process in processes):
        if any(process.poll() for process in processes):
            for process in processes:
                process.terminate()
            break
        time.sleep(0.05)
    return not any([process.wait() for process in processes])


def container(image, folder):
    """Return the command of B. Raises Failure."""
    if "APPTAINER_CONTAINER" in os.environ or "SINGULARITY_CONTAINER" in os.environ:
        raise Failure(
            "This is a container, which cannot start another one. Choose an environment of kind "
            "venv or modules that has PyTorch, and name the image with --image."
        )
    if not image or not Path(image).exists():
        what = f"--image: {image} is not on this node." if image else "--image is missing."
        raise Failure(f"{what} Name an image file with PyTorch and torchvision.")
    apptainer = shutil.which("apptainer")
    if apptainer is None:
        raise Failure("This node has no Apptainer. Choose nodes on which containers run.")
    vendor = ["--rocm" if torch.version.hip else "--nv"] if torch.cuda.is_available() else []
    return [apptainer, "exec", "--cleanenv", *vendor, f"--bind={folder}", image, "python3"]


def same_version(commands):
    """Return the version of PyTorch of A and B. Raises Failure if it is not one."""
    versions = []
    for place, command in zip(PLACES, commands):  # noqa: B905
        done = subprocess.run(
            [*command, "-c", VERSION], capture_output=True, text=True, env=environment()
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise Failure(f"The {place} has no PyTorch with torchvision: {last}")
        versions.append(done.stdout.split()[-1])
    if len(set(versions)) > 1:
        raise Failure(
            f"The virtual environment has PyTorch {versions[0]}, the container {versions[1]}: the "
            "ratio would not be the cost of the container. Choose the same version for both."
        )
    return versions[0]


def compared(team, commands, options, used):
    """Return the results: rates by number of ranks and place, and their ratios."""
    from benchmark_results import result

    gpu = torch.cuda.is_available()
    pixels, batch = 224 if gpu else 64, options.batch or (32 if gpu else 4)
    steps = options.steps or (50 if gpu else 4)
    precision, peak = ("fp16", ("fp16", TRAINING)) if gpu else ("fp32", ("", 0))
    counts = sorted({2**power for power in range(11) if 2**power <= team.world} | {team.world})
    results, first = [], {}
    for ranks in counts:
        rates = {place: [] for place in PLACES}
        for _ in range(options.rounds):
            for place, command in zip(PLACES, commands):  # noqa: B905
                rates[place].append(team.turn(command, ranks, batch, pixels, steps))
        about = {"ranks": ranks, "precision": precision, "batch": batch, "pixels": pixels}
        gpus = ranks if used else 0
        for place in PLACES:
            rate = statistics.median(rates[place])
            first.setdefault(place, rate)
            results.append(result(f"training in a {place}", rate, "images/s", gpus, *peak, **about))
            if ranks > 1:
                share = rate / (ranks * first[place])
                results.append(result(f"scaling in a {place}", share, TIMES, gpus, **about))
        pairs = zip(rates[PLACES[1]], rates[PLACES[0]])  # noqa: B905
        ratio = statistics.median(inside / outside for inside, outside in pairs)
        about["rounds"] = options.rounds
        results.append(result("container to virtual environment", ratio, TIMES, gpus, **about))
    return results


def main():
    """Read the options, and measure in turns; rank 0 publishes."""
    parser = argparse.ArgumentParser(description="Compare a container with a virtual environment.")
    parser.add_argument("--image", default="", help="image file with PyTorch and torchvision")
    parser.add_argument("--ranks", type=int, default=max(2, torch.cuda.device_count()))
    parser.add_argument("--rounds", type=int, default=2, help="turns of each")
    parser.add_argument("--batch", type=int, default=0, help="pictures of a rank; 0: its choice")
    parser.add_argument("--steps", type=int, default=0, help="timed steps; 0: its choice")
    parser.add_argument("--measure", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*json.loads(options.measure))))
        return
    from benchmark_results import publish, stop

    gpus = torch.cuda.device_count()
    if min(options.ranks, options.rounds) < 1 or min(options.batch, options.steps) < 0:
        stop("--ranks and --rounds must be 1 or more, --batch and --steps not negative.")
    with tempfile.TemporaryDirectory() as folder:
        try:
            team = Team(folder, options.ranks)
            if not team.spread and gpus and options.ranks > gpus:
                raise Failure(f"--ranks must be 1 to {gpus}, the GPUs of this job.")
            commands = [[sys.executable], container(options.image, folder)]
            version = same_version(commands)
            results = compared(team, commands, options, gpus)
        except Failure as failure:
            stop(str(failure))
        if team.rank == 0:
            print(f"PyTorch {version}, {options.image}")
            publish("chexnet-scaling", __file__, results)
        if team.spread:
            dist.destroy_process_group()


if __name__ == "__main__":
    main()
