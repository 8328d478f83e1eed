"""Collectives: bandwidth and latency of all-reduce, broadcast and all-gather by message size, over
2, 4, 8, … ranks.

    python collectives.py [--ranks=4] [--largest=67108864]

If RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set (torchrun, srun), it is one of those ranks.
Alone, it starts ``ranks`` processes on this node: as many as there are GPUs, or two. Connections
between ranks are not encrypted.

Bandwidth is the bus bandwidth of nccl-tests (PERFORMANCE.md there): independent of the number of
ranks, so it can be compared with that of the link. Latency is the time of the smallest message.
"""

import argparse
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from benchmark_results import publish, result, stop

SMALLEST = 4096  # bytes
REPEATS = 5  # timed rounds, of which the median counts
LEAST = 0.02  # seconds of a round
# Bytes on the busiest link for each byte of the message, for n ranks.
FACTORS = {
    "all-reduce": lambda n: 2 * (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "all-gather": lambda n: (n - 1) / n,
}


def operation(name, size, ranks, group, device):
    """Return a function that does one collective on ``size`` bytes in all."""
    elements = size // 4
    if name == "all-gather":
        part = torch.ones(max(1, elements // ranks), device=device)
        parts = [torch.empty_like(part) for _ in range(ranks)]
        return lambda: dist.all_gather(parts, part, group=group)
    message = torch.ones(elements, device=device)
    if name == "broadcast":
        return lambda: dist.broadcast(message, src=0, group=group)
    return lambda: dist.all_reduce(message, group=group)


def seconds_of(act, group, device):
    """Return the seconds of one call on the slowest rank, in each round."""

    def timed(calls):
        dist.barrier(group=group)
        began = time.perf_counter()
        for _ in range(calls):
            act()
        if device.type == "cuda":
            torch.cuda.synchronize()
        slowest = torch.tensor([time.perf_counter() - began], device=device)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX, group=group)
        return slowest.item() / calls

    timed(2)  # connections and buffers are made
    calls = max(1, min(1000, int(LEAST / timed(2))))  # the same on all ranks
    return [timed(calls) for _ in range(REPEATS)]


def measure(world, rank, device, largest):
    """Return the results, on every rank."""
    gpus = device.type == "cuda"
    results = []
    counts = sorted({2**power for power in range(1, 12) if 2**power <= world} | {world} - {1})
    for ranks in counts:
        group = dist.new_group(range(ranks))  # a collective call: by all
        if rank < ranks:
            for name, factor in FACTORS.items():
                size = SMALLEST
                while size <= largest:
                    act = operation(name, size, ranks, group, device)
                    rounds = seconds_of(act, group, device)
                    seconds = statistics.median(rounds)
                    about = {"ranks": ranks, "bytes": size, "backend": dist.get_backend()}
                    about["repeats"] = rounds
                    used = ranks if gpus else 0
                    if size == SMALLEST:
                        latency = seconds * 1e6
                        results.append(result(f"{name} latency", latency, "µs", used, **about))
                    rate = size * factor(ranks) / seconds / 1e9
                    results.append(result(f"{name} bandwidth", rate, "GB/s", used, **about))
                    size *= 16
        dist.barrier()
    return results


def run(rank, world, method, largest):
    """Be one rank; the first one publishes."""
    gpus = torch.cuda.device_count()
    local = int(os.environ.get("LOCAL_RANK", rank % max(1, gpus)))
    if gpus:
        torch.cuda.set_device(local)
    device = torch.device("cuda", local) if gpus else torch.device("cpu")
    torch.set_num_threads(1)  # ranks share the CPUs
    dist.init_process_group(
        "nccl" if gpus else "gloo", init_method=method, rank=rank, world_size=world
    )
    try:
        results = measure(world, rank, device, largest)
        if rank == 0:
            publish("collectives", __file__, results)
    finally:
        dist.destroy_process_group()


def main():
    """Read the options and start what they ask for."""
    parser = argparse.ArgumentParser(description="Measure collectives.")
    parser.add_argument("--ranks", type=int, default=max(2, torch.cuda.device_count()))
    parser.add_argument("--largest", type=int, default=2**26, help="bytes of a message")
    options = parser.parse_args()
    if options.largest < SMALLEST:
        stop(f"--largest must be {SMALLEST} bytes or more.")
    if "WORLD_SIZE" in os.environ and "RANK" in os.environ:
        world = int(os.environ["WORLD_SIZE"])
        if world < 2:
            stop("WORLD_SIZE is 1, and one rank has nothing to exchange: start 2 or more.")
        run(int(os.environ["RANK"]), world, "env://", options.largest)
        return
    gpus = torch.cuda.device_count()
    if options.ranks < 2 or (gpus and options.ranks > gpus):
        at_most = f" to {gpus}, the GPUs of this job" if gpus else " or more"
        stop(
            f"--ranks must be 2{at_most}."
            if gpus != 1
            else "This job has one GPU, which has nothing to exchange: ask for 2 or more GPUs."
        )
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # nobody outside this node can join
    # A file that only this user can open, in place of a port that others could take.
    with tempfile.TemporaryDirectory() as folder:
        place = (options.ranks, f"file://{folder}/rendezvous", options.largest)
        mp.spawn(run, place, nprocs=options.ranks)


if __name__ == "__main__":
    main()
