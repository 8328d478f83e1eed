"""Points that somebody looks at, and kept kernels, in memory: bounded, and forgotten in time."""

from __future__ import annotations

import pytest
from still_clock import StillClock

from portal.errors import Conflict
from portal.models.session.run_output import MOST_QUESTIONS, KernelAnswer, PointOutput
from portal.work.run import live
from portal.work.run.live import LOOKS, LivePoints, PointKey

KEY: PointKey = ("ada", "5e2f3c1a", 3)


@pytest.fixture
def clock() -> StillClock:
    return StillClock(100.0)


@pytest.fixture
def points(clock: StillClock) -> LivePoints:
    return LivePoints(clock)


def take(points: LivePoints, log: str, attempt: int = 1, **more: bool) -> None:
    values = {"last": False, "held": False, **more}
    points.take(KEY, attempt, PointOutput(log=log), 5.0, **values)


def shown(points: LivePoints) -> str | None:
    output = points.watch(KEY).output
    return None if output is None else output.log


def test_a_point_is_watched_for_a_while(points: LivePoints, clock: StillClock) -> None:
    assert not points.is_watched(KEY)
    assert points.watch(KEY).output is None
    assert points.is_watched(KEY) and points.is_missing(KEY)
    take(points, "on")
    assert not points.is_missing(KEY)
    clock.now += LOOKS - 1
    assert shown(points) == "on"
    clock.now += LOOKS
    assert not points.is_watched(KEY) and not points.is_missing(KEY)
    assert shown(points) is None, "it was forgotten"


def test_what_nobody_looks_at_is_not_kept(points: LivePoints) -> None:
    take(points, "on")
    assert shown(points) is None


def test_outputs_that_were_overtaken_are_not_shown(points: LivePoints) -> None:
    points.watch(KEY)
    take(points, "last", last=True)
    take(points, "late")
    assert shown(points) == "last"
    take(points, "held", held=True)
    assert shown(points) == "held"
    take(points, "second", attempt=2)
    take(points, "first again", last=True)
    assert shown(points) == "second"


def test_the_number_of_outputs_is_bounded(
    points: LivePoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        points.watch(("ada", "5e2f3c1a", number))
    watched = [number for number in range(30) if points.is_watched(("ada", "5e2f3c1a", number))]
    assert watched == list(range(20, 30)), "the newest of a user"
    monkeypatch.setattr(live, "_MOST", 12)
    for number in range(5):
        points.watch(("bob", "5e2f3c1a", number))
    assert points.is_watched(("bob", "5e2f3c1a", 0))
    assert not points.is_watched(("ada", "5e2f3c1a", 20))


def test_a_kept_kernel_is_asked_once(points: LivePoints) -> None:
    points.keep(KEY, 700.0, ())
    asked = points.ask(KEY, "loss")
    assert (asked.id, asked.text) == (1, None)
    assert [(each.id, each.code) for each in points.questions(KEY)] == [(1, "loss")]
    assert points.questions(KEY) == ()
    points.keep(KEY, 700.0, (KernelAnswer(id=1, text="0.5"), KernelAnswer(id=9, text="?")))
    held = points.kernel(KEY)
    assert held is not None and [(each.code, each.text) for each in held.asked] == [("loss", "0.5")]


def test_kernels_of_a_user_do_not_push_out_those_of_others(points: LivePoints) -> None:
    points.keep(KEY, 700.0, ())
    for number in range(3_000):
        points.keep(("mallory", "5e2f3c1a", number), 700.0, ())
    assert points.kernel(KEY) is not None
    assert points.kernel(("mallory", "5e2f3c1a", 2_999)) is not None
    assert points.kernel(("mallory", "5e2f3c1a", 0)) is None


def test_questions_are_bounded(points: LivePoints) -> None:
    points.keep(KEY, 700.0, ())
    for _ in range(MOST_QUESTIONS):
        points.ask(KEY, "loss")
    with pytest.raises(Conflict, match="waiting for an answer"):
        points.ask(KEY, "loss")


def test_a_kernel_that_is_not_kept_is_not_asked(points: LivePoints, clock: StillClock) -> None:
    for before in (lambda: None, lambda: points.keep(KEY, 0, ())):
        before()
        with pytest.raises(Conflict, match="was not kept"):
            points.ask(KEY, "loss")
        with pytest.raises(Conflict, match="was not kept"):
            points.end_kernel(KEY)
    points.keep(KEY, 700.0, ())
    clock.now += 61  # its job is silent
    assert points.kernel(KEY) is None


def test_a_kernel_is_ended(points: LivePoints) -> None:
    points.keep(KEY, 700.0, ())
    assert not points.is_to_end(KEY)
    points.end_kernel(KEY)
    assert points.is_to_end(KEY) and points.kernel(KEY) is None
    points.keep(KEY, 0, ())
    assert not points.is_to_end(KEY)
