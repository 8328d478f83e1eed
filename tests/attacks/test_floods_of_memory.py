"""Outputs and kept kernels of one user in the service's memory, as large and as many as the API
takes: they are bounded for each user."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from portal.models.session.run_output import (
    LARGEST,
    LONGEST_CODE,
    MOST_QUESTIONS,
    KernelAnswer,
    OutputCell,
    PointOutput,
)
from portal.work.run.live import LivePoints

MIB = 1024 * 1024
ANSWER = 20_000  # characters: the longest that is taken


def kept_after(attack: Callable[[LivePoints], None]) -> float:
    """Return the memory that is still held after the attack, in MiB."""
    points = LivePoints()
    tracemalloc.start()
    try:
        attack(points)
        return tracemalloc.get_traced_memory()[0] / MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("letter", ["a", "\N{GRINNING FACE}"])  # one byte, and four
def test_answers_of_kept_kernels(letter: str) -> None:
    def attack(points: LivePoints) -> None:
        for number in range(50):
            key = ("mallory", "5e2f3c1a", number)
            points.keep(key, 1e10, ())
            for question in range(0, 50, MOST_QUESTIONS):
                asked = [points.ask(key, "x" * LONGEST_CODE) for _ in range(MOST_QUESTIONS)]
                points.questions(key)
                texts = [letter * (ANSWER - question - n) for n in range(MOST_QUESTIONS)]
                answers = (
                    KernelAnswer(id=asked_.id, text=text)
                    for asked_, text in zip(asked, texts, strict=True)
                )
                points.keep(key, 1e10, tuple(answers))

    assert kept_after(attack) < 3


def test_the_newest_answer_is_there() -> None:
    points = LivePoints()
    for number in range(60):
        key = ("mallory", "5e2f3c1a", number)
        points.keep(key, 1e10, ())
        asked = points.ask(key, "x")
        points.keep(key, 1e10, (KernelAnswer(id=asked.id, text="y" * ANSWER),))
        stored = points.kernel(key)
        assert stored is not None and stored.asked[-1].text == "y" * ANSWER
    key = ("ada", "5e2f3c1a", 0)
    points.keep(key, 1e10, ())
    asked = points.ask(key, "x")
    points.keep(key, 1e10, (KernelAnswer(id=asked.id, text="y" * ANSWER),))
    for number in range(100):
        points.keep(("mallory", "5e2f3c1a", number), 1e10, ())
    stored = points.kernel(key)
    assert stored is not None and len(stored.asked) == 1, "another user's stay"


def test_outputs_of_many_small_cells() -> None:
    def attack(points: LivePoints) -> None:
        cell = OutputCell(kind="text", state="done", source="")
        number = LARGEST // len(cell.model_dump_json())
        for point in range(30):
            key = ("mallory", "5e2f3c1a", point)
            points.watch(key)
            cells = tuple(
                OutputCell(kind="text", state="done", source=str(n)) for n in range(number)
            )
            points.take(key, 1, PointOutput(cells=cells), 1.0, last=False, held=False)

    assert kept_after(attack) < 10 * 1.2 * LARGEST / MIB + 1


def test_an_output_is_shown_as_it_came() -> None:
    points, key = LivePoints(), ("ada", "5e2f3c1a", 0)
    output = PointOutput(log="\N{GRINNING FACE}", left_out=3)
    points.watch(key)
    assert points.is_missing(key)
    points.take(key, 1, output, 1.0, last=False, held=False)
    assert points.watch(key).output == output and not points.is_missing(key)
