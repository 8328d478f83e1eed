"""Train a small neural network to tell two interleaved half circles ("moons") apart.

A demo's example of a run: for instance
    portal-run two_moons.py --set rate=0.3,0.03 --set hidden=2,8 --cpus 1 --memory 300M
An epoch takes only milliseconds, so the script pauses after each: you can watch the curves grow.
"""

import argparse
import math
import random
import time

from portal_metrics import log

EPOCHS, PAUSE = 60, 10.0  # seconds


def moons(number: int, chance: random.Random) -> list[tuple[float, float, int]]:
    """Return points (x, y, moon), each moved a little from its half circle."""
    points = []
    for _ in range(number):
        moon, angle = chance.randrange(2), chance.uniform(0, math.pi)
        x, y = math.cos(angle), math.sin(angle)
        if moon:
            x, y = 1 - x, 0.5 - y
        points.append((x + chance.gauss(0, 0.25), y + chance.gauss(0, 0.25), moon))
    return points


class Network:
    """Network with one layer of ``hidden`` units, trained by stochastic gradient descent."""

    def __init__(self, hidden: int, chance: random.Random) -> None:
        self.units = [[chance.gauss(0, 1) for _ in range(3)] for _ in range(hidden)]
        self.out = [chance.gauss(0, 0.1) for _ in range(hidden + 1)]

    def layer(self, x: float, y: float) -> list[float]:
        return [math.tanh(u * x + v * y + bias) for u, v, bias in self.units]

    def probability(self, layer: list[float]) -> float:
        """Return the probability of the second moon."""
        total = self.out[-1] + sum(w * h for w, h in zip(self.out, layer, strict=False))
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))

    def learn(self, x: float, y: float, moon: int, rate: float) -> None:
        layer = self.layer(x, y)
        error = self.probability(layer) - moon
        for number, (unit, h) in enumerate(zip(self.units, layer, strict=True)):
            slope = error * self.out[number] * (1 - h * h)
            self.out[number] -= rate * error * h
            for place, value in enumerate((x, y, 1.0)):
                unit[place] -= rate * slope * value
        self.out[-1] -= rate * error

    def measure(self, points: list[tuple[float, float, int]]) -> tuple[float, float]:
        """Return the mean loss, and the share that it tells apart."""
        loss, right = 0.0, 0
        for x, y, moon in points:
            second = self.probability(self.layer(x, y))
            loss -= math.log(max(1e-9, second if moon else 1 - second))
            right += (second > 0.5) == bool(moon)
        return loss / len(points), right / len(points)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=0.03)
    parser.add_argument("--hidden", type=int, default=8)
    chosen = parser.parse_args()
    chance = random.Random(1)  # noqa: S311  the same in each point
    seen, unseen = moons(200, chance), moons(1000, chance)
    network = Network(chosen.hidden, chance)
    for epoch in range(1, EPOCHS + 1):
        chance.shuffle(seen)
        for x, y, moon in seen:
            network.learn(x, y, moon, chosen.rate)
        loss, accuracy = network.measure(unseen)
        log(step=epoch, loss=loss, accuracy=accuracy)
        print(f"epoch {epoch}: loss {loss:.3f}, accuracy {accuracy:.3f}", flush=True)
        time.sleep(PAUSE)


if __name__ == "__main__":
    main()
