"""Throughput: images per second of ResNet-50 in training, from memory and from disk, and in
inference; products of matrices and copies in memory, to compare with the GPU's data sheet.

    python throughput.py [--batch=128] [--steps=30]

One process for each GPU of the job; with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (torchrun,
srun) it is one of those ranks. Each precision that the hardware has is measured. Without GPUs,
pictures and batches are small: compare such results with those of CPUs only, which is what the
portal does. INT8 inference is measured on CPUs if PyTorch has fbgemm; on GPUs, where it would need
TensorRT, only the product of INT8 matrices is.
"""

import argparse
import contextlib
import functools
import os
import statistics
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from benchmark_results import publish, result, stop
from torch.nn.parallel import DistributedDataParallel
from torchvision.io import decode_jpeg, encode_jpeg, read_file, write_file
from torchvision.models import resnet50

WARM_UP = 3  # steps
# Operations of one picture of 224 x 224: twice the 4.09e9 multiplications and additions of a
# forward pass (torchvision's table of ResNet50_Weights), and for training three times that.
FORWARD = 8.18e9
TYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16,
         "fp16": torch.float16}  # fmt: skip


class Scale:
    """Sizes of what is measured, on GPUs or CPUs."""

    def __init__(self, gpus, options):
        self.gpus = gpus
        self.pixels = 224 if gpus else 64
        self.batch = options.batch or (128 if gpus else 4)
        self.steps = options.steps or (30 if gpus else 3)
        self.files = 4 * self.batch  # pictures on disk, for each process
        self.matrix = 8192 if gpus else 512
        self.copied = 2**30 if gpus else 2**26  # bytes


def precisions(device):
    """Return the precisions of networks: the type of autocast, None without; and whether TF32."""
    known = {"fp32": (None, False), "bf16": (torch.bfloat16, False)}
    if device.type == "cuda":
        known["fp16"] = (torch.float16, False)
        if not torch.cuda.is_bf16_supported():
            del known["bf16"]
        if torch.version.cuda and torch.cuda.get_device_capability()[0] >= 8:
            known["tf32"] = (None, True)
    return known


def use_tf32(on):
    """Have float32 products computed with TF32, or not."""
    torch.backends.cuda.matmul.allow_tf32 = on
    torch.backends.cudnn.allow_tf32 = on


def wait(device):
    """Wait until the GPU has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def rate(step, steps, amount, device, world=1):
    """Return the median of ``amount`` per second over timed steps, of all processes together."""
    for _ in range(WARM_UP):
        step()
    rates = []
    for _ in range(steps):
        wait(device)
        began = time.perf_counter()
        step()
        wait(device)
        rates.append(amount * world / (time.perf_counter() - began))
    return statistics.median(rates)


def autocast(device, kind):
    """Return the context of a precision."""
    return torch.autocast(device.type, kind) if kind else contextlib.nullcontext()


class Training:
    """ResNet-50 with its optimizer in one precision, on one rank of ``world``."""

    def __init__(self, device, kind, world):
        torch.manual_seed(0)
        network = resnet50().to(device, memory_format=torch.channels_last)
        on = [device.index] if device.type == "cuda" else None
        self.network = DistributedDataParallel(network, device_ids=on) if world > 1 else network
        self.optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
        self.scaler = torch.cuda.amp.GradScaler(enabled=kind is torch.float16)
        self.device, self.kind = device, kind

    def step(self, images, labels):
        """Train on one batch."""
        with autocast(self.device, self.kind):
            loss = torch.nn.functional.cross_entropy(self.network(images), labels)
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def step_from(self, loaded):
        """Train on the next of these batches."""
        images, labels = next(loaded)
        self.step(images.to(self.device, non_blocking=True), labels.to(self.device))


class Pictures(torch.utils.data.Dataset):
    """JPEG files in a folder, decoded when they are asked for."""

    def __init__(self, folder, number, pixels):
        self.paths = [f"{folder}/{index}.jpg" for index in range(number)]
        torch.manual_seed(0)
        for path in self.paths:
            noise = torch.randint(0, 256, (3, pixels, pixels), dtype=torch.uint8)
            write_file(path, encode_jpeg(noise))

    def __len__(self):
        return 1_000_000  # the files again and again

    def __getitem__(self, index):
        image = decode_jpeg(read_file(self.paths[index % len(self.paths)]))
        return image.float() / 255, index % 1000


def batches(folder, scale):
    """Yield batches of pictures that other processes read from a disk."""
    pictures = Pictures(folder, scale.files, scale.pixels)
    workers = max(1, len(os.sched_getaffinity(0)) // max(1, scale.gpus))
    loader = torch.utils.data.DataLoader(
        pictures, scale.batch, num_workers=workers, pin_memory=scale.gpus > 0
    )
    yield from loader


def trained(device, scale, world, data):
    """Return the results of training, from memory and from disk."""
    results = []
    shape = (scale.batch, 3, scale.pixels, scale.pixels)
    images = torch.randn(shape, device=device).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (scale.batch,), device=device)
    for name, (kind, tf32) in precisions(device).items():
        use_tf32(tf32)
        about = {"precision": name, "ranks": world, "batch": scale.batch, "pixels": scale.pixels}
        training = Training(device, kind, world)
        step = functools.partial(training.step, images, labels)
        value = rate(step, scale.steps, scale.batch, device, world)
        results.append(_of_network("training from memory", value, 3, name, scale, world, about))
        with tempfile.TemporaryDirectory(prefix=".portal-throughput-", dir=data) as folder:
            loaded = batches(folder, scale)
            step = functools.partial(training.step_from, loaded)
            value = rate(step, scale.steps, scale.batch, device, world)
            loaded.close()
        results.append(_of_network("training from disk", value, 3, name, scale, world, about))
    return results


def _of_network(name, value, passes, precision, scale, world, about):
    """Return the result of a network. Without GPUs there is no peak to compare with."""
    used = world if scale.gpus else 0
    peak = (precision, passes * FORWARD) if scale.gpus else ("", 0)
    return result(name, value, "images/s", used, *peak, **about)


def inferred(device, scale):
    """Return the results of inference on one GPU, or on the CPUs."""
    results = []
    images = torch.randn(scale.batch, 3, scale.pixels, scale.pixels, device=device)
    network = resnet50().to(device).eval()
    about = {"ranks": 1, "batch": scale.batch, "pixels": scale.pixels}
    with torch.inference_mode():
        for name, (kind, tf32) in precisions(device).items():
            use_tf32(tf32)
            with autocast(device, kind):
                value = rate(lambda: network(images), scale.steps, scale.batch, device)
            given = {"precision": name, **about}
            results.append(_of_network("inference", value, 1, name, scale, 1, given))
        if device.type == "cpu" and "fbgemm" in torch.backends.quantized.supported_engines:
            from torchvision.models.quantization import resnet50 as quantizable

            network = quantizable(quantize=True).eval()
            value = rate(lambda: network(images), scale.steps, scale.batch, device)
            results.append(result("inference", value, "images/s", 0, precision="int8", **about))
    return results


def product_of(side, kind, device):
    """Return a function that multiplies two matrices of a type."""
    if kind is torch.int8:
        whole = torch.ones(side, side, dtype=kind, device=device)
        return lambda: torch._int_mm(whole, whole.t())
    matrix = torch.randn(side, side, device=device).to(kind)
    return lambda: matrix @ matrix


def computed(device, scale):
    """Return products of matrices by type, and copies in memory, on one GPU or the CPUs."""
    side, used = scale.matrix, int(device.type == "cuda")
    flop, results = 2 * side**3, []
    kinds = {name: kind for name, kind in TYPES.items() if used or name in ("fp64", "fp32")}
    if used:
        kinds |= {"tf32": torch.float32} if "tf32" in precisions(device) else {}
        kinds |= {"int8": torch.int8} if hasattr(torch, "_int_mm") else {}
    for name, kind in kinds.items():
        use_tf32(name == "tf32")
        value = rate(product_of(side, kind, device), scale.steps, flop / 1e12, device)
        unit, peak = "TOPS" if name == "int8" else "TFLOPS", (name, 1e12) if used else ("", 0)
        results.append(result("matrices", value, unit, used, *peak, precision=name, side=side))
    source = torch.ones(scale.copied // 4, device=device)
    target = torch.empty_like(source)
    moved = 2 * scale.copied / 1e9  # read and written
    value = rate(lambda: target.copy_(source), scale.steps, moved, device)
    peak = ("bandwidth", 1e9) if used else ("", 0)
    results.append(result("memory copy", value, "GB/s", used, *peak, bytes=scale.copied))
    return results


def run(rank, world, method, options):
    """Be one rank; the first one measures what takes one GPU, and publishes."""
    gpus = torch.cuda.device_count()
    local = int(os.environ.get("LOCAL_RANK", rank % max(1, gpus)))
    device = torch.device("cuda", local) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(local)
        torch.backends.cudnn.benchmark = True
    scale = Scale(gpus, options)
    if world > 1:
        dist.init_process_group(
            "nccl" if gpus else "gloo", init_method=method, rank=rank, world_size=world
        )
    try:
        results = trained(device, scale, world, options.data or tempfile.gettempdir())
        if rank == 0:
            publish("throughput", __file__, results + inferred(device, scale)
                    + computed(device, scale))  # fmt: skip
    finally:
        if world > 1:
            dist.destroy_process_group()


def main():
    """Read the options and start a process for each GPU."""
    parser = argparse.ArgumentParser(description="Measure ResNet-50.")
    parser.add_argument("--batch", type=int, default=0, help="pictures of a process; 0: its choice")
    parser.add_argument("--steps", type=int, default=0, help="timed steps; 0: its choice")
    parser.add_argument("--data", default="", help="folder on the disk to read from")
    options = parser.parse_args()
    if options.batch < 0 or options.steps < 0:
        stop("--batch and --steps must not be negative.")
    if options.data and not Path(options.data).is_dir():
        stop(f"--data: {options.data} is no folder on this node.")
    if "WORLD_SIZE" in os.environ and "RANK" in os.environ:
        run(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), "env://", options)
        return
    world = max(1, torch.cuda.device_count())
    if world == 1:
        run(0, 1, "", options)
        return
    # A file that only this user can open, in place of a port that others could take.
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run, (world, f"file://{folder}/rendezvous", options), nprocs=world)


if __name__ == "__main__":
    main()
