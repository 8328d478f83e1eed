"""Time to accuracy: seconds and epochs until a small network classifies what it has not seen, with
several seeds, since each seed takes another way.

    python time-to-accuracy.py [--seeds=5] [--target=0.95] [--most=100]

The data are generated, the same ones for each seed: pictures of 16 x 16, of ten shapes in noise. A
seed decides the first weights and the order of the pictures. Each precision that the hardware has
is measured, on one GPU or on the CPUs; seconds are those of training, without the tests after each
epoch. A seed that does not reach the target within ``most`` epochs ends the script: there is no
time to report.
"""

import argparse
import contextlib
import statistics
import time

import torch
from benchmark_results import publish, result, stop

CLASSES, SIDE, TRAINED, TESTED, BATCH = 10, 16, 4000, 1000, 100
NOISE = 2.0  # standard deviation; that of a shape is 1


def pictures(number, shapes, generator):
    """Return noisy pictures of the shapes, and which each is of."""
    labels = torch.randint(0, CLASSES, (number,), generator=generator)
    noise = NOISE * torch.randn(number, 1, SIDE, SIDE, generator=generator)
    return shapes[labels] + noise, labels


def network():
    """Return a new network."""
    layers = torch.nn
    return layers.Sequential(
        layers.Conv2d(1, 16, 3, padding=1), layers.ReLU(), layers.MaxPool2d(2),
        layers.Conv2d(16, 32, 3, padding=1), layers.ReLU(), layers.MaxPool2d(2),
        layers.Flatten(), layers.Linear(32 * (SIDE // 4) ** 2, CLASSES),
    )  # fmt: skip


def precisions(device):
    """Return the precisions: the type of autocast, None without."""
    known = {"fp32": None}
    if device.type == "cuda":
        known["fp16"] = torch.float16
        if torch.cuda.is_bf16_supported():
            known["bf16"] = torch.bfloat16
    return known


def to_accuracy(seed, kind, train, test, target, most):
    """Return the epochs and seconds of training until ``target`` of the test's pictures are
    classified; None if that takes more than ``most`` epochs."""
    torch.manual_seed(seed)
    device = train[0].device
    net = network().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.9)
    scaler = torch.cuda.amp.GradScaler(enabled=kind is torch.float16)
    order = torch.Generator().manual_seed(seed)
    seconds = 0.0
    for epoch in range(1, most + 1):
        shuffled = torch.randperm(TRAINED, generator=order).to(device)
        began = time.perf_counter()
        for batch in shuffled.split(BATCH):
            with torch.autocast(device.type, kind) if kind else contextlib.nullcontext():
                loss = torch.nn.functional.cross_entropy(net(train[0][batch]), train[1][batch])
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds += time.perf_counter() - began
        with torch.inference_mode():
            right = (net(test[0]).argmax(1) == test[1]).float().mean().item()
        if right >= target:
            return epoch, seconds
    return None


def main():
    """Read the options, measure each precision, and publish medians and spreads."""
    parser = argparse.ArgumentParser(description="Measure the time to accuracy.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--target", type=float, default=0.95, help="share classified correctly")
    parser.add_argument("--most", type=int, default=100, help="epochs")
    options = parser.parse_args()
    if options.seeds < 1 or not 0.1 < options.target <= 1 or options.most < 1:
        stop("--seeds and --most must be 1 or more, --target more than 0.1 and at most 1.")
    gpu = torch.cuda.is_available()
    device = torch.device("cuda" if gpu else "cpu")
    generator = torch.Generator().manual_seed(0)
    shapes = torch.randn(CLASSES, 1, SIDE, SIDE, generator=generator)
    data = [pictures(number, shapes, generator) for number in (TRAINED, TESTED)]
    train, test = ([part.to(device) for part in pair] for pair in data)
    results = []
    for name, kind in precisions(device).items():
        to_accuracy(0, kind, train, test, 0.0, 1)  # libraries are loaded
        found = []
        for seed in range(options.seeds):
            reached = to_accuracy(seed, kind, train, test, options.target, options.most)
            if reached is None:
                stop(
                    f"Seed {seed} did not reach {options.target:.0%} in {options.most} epochs "
                    f"({name}). Choose a lower --target, or more epochs with --most."
                )
            found.append(reached)
        about = {"precision": name, "target": options.target, "seeds": options.seeds}
        for what, unit, values in zip(("epochs", "seconds"), ("epochs", "s"), zip(*found)):  # noqa: B905
            spread = {"": statistics.median, ", best seed": min, ", worst seed": max}
            results += [
                result(
                    f"{what} to accuracy{seed}",
                    choose(values),
                    unit,
                    int(gpu),
                    repeats=values,
                    **about,
                )
                for seed, choose in spread.items()
            ]
    publish("time-to-accuracy", __file__, results)


if __name__ == "__main__":
    main()
