"""Slurm's own estimates, cached: each question once at a time, and at a limited rate."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterator
from typing import NamedTuple

from portal.errors import PortalError, SlurmRefused
from portal.slurm.commands.start_estimate import AnswerNotUnderstood
from portal.slurm.watch.budget import QueryBudget

_MOST = 2000  # answers that are kept
_BURST = 4  # questions at once after a quiet time
_BURST_SECONDS = 1  # of answers, likewise
_AT_ONCE = 2  # questions under way; a Slurm that hangs gets no more
_PAUSE = 10.0  # seconds without questions after one that Slurm did not answer
_LONG_PAUSE = 600.0  # … after one not understood: each costs a job id, the next is no better


class SlurmAnswer(NamedTuple):
    """Answer of Slurm."""

    start: float | None  # Unix seconds; None if none was named, or with ``error``
    error: PortalError | None
    at: float  # time of the question
    user: str  # the question was asked for them
    asked_at: float  # ``at`` by the monotonic clock


class Questions:
    """Questions to Slurm. ``rate``: questions a second in the long run; ``busy``: share of time in
    which one may be under way, so that slow answers (a long queue) make them rarer."""

    def __init__(self, rate: float, busy: float) -> None:
        self._number = QueryBudget(rate, _BURST, 0.0)
        self._time = QueryBudget(busy, _BURST_SECONDS, 0.0)
        self._answers: OrderedDict[Hashable, SlurmAnswer] = OrderedDict()
        self._under_way: dict[Hashable, asyncio.Task[SlurmAnswer]] = {}
        self._not_before = 0.0
        self.sent = 0
        self.away = ""  # error of the last question, if Slurm did not answer it

    def known_answer(self, key: Hashable, user: str, since: float) -> SlurmAnswer | None:
        """Return the answer to a question that was sent after ``since`` (time.monotonic()). A
        refusal is only for the person who was refused."""
        for cache_key in (key, (user, key)):
            answer = self._answers.get(cache_key)
            if answer is not None and answer.asked_at >= since:
                return answer
        return None

    def answers(self, since: float) -> Iterator[tuple[Hashable, float]]:
        """Yield each question sent after ``since`` and answered with a start, and that start."""
        for key, answer in self._answers.items():
            if answer.start is not None and answer.asked_at >= since:
                yield key, answer.start

    async def ask(
        self,
        key: Hashable,
        user: str,
        ask: Callable[[], Awaitable[float | None]],
        *,
        patience: float,
        leave: int = 0,
    ) -> SlurmAnswer | None:
        """Return a new answer within ``patience`` seconds. None if it takes longer (it is kept
        when it comes), if there were too many questions (``leave``: how many must be left for
        others), or if Slurm does not answer."""
        task = self._under_way.get(key)
        if task is None:
            if not self._may(leave):
                return None
            task = asyncio.ensure_future(self._answer(key, user, ask))
            self._under_way[key] = task
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        done, _ = await asyncio.wait({task}, timeout=patience)
        if not done or task.cancelled():
            return None
        answer = task.result()
        if answer.error is None:
            return answer if answer.start is not None else None
        return answer if _refusal(answer.error) and answer.user == user else None

    def _may(self, leave: int) -> bool:
        free = len(self._under_way) < _AT_ONCE and time.monotonic() >= self._not_before
        return free and self._time.spend(0.0) and self._number.spend(1, leave=leave)

    async def _answer(
        self, key: Hashable, user: str, ask: Callable[[], Awaitable[float | None]]
    ) -> SlurmAnswer:
        at, began = time.time(), time.monotonic()
        self.sent += 1
        start: float | None = None
        problem: PortalError | None = None
        try:
            start = await ask()
            self.away = ""
        except PortalError as error:
            problem = error
            odd = isinstance(error, AnswerNotUnderstood)  # it does answer
            self.away = "" if _refusal(error) or odd else error.message
            if self.away or odd:
                self._not_before = time.monotonic() + (_LONG_PAUSE if odd else _PAUSE)
        self._time.owe(time.monotonic() - began)
        answer = SlurmAnswer(start, problem, at, user, began)
        if start is not None:
            self._keep(key, answer)
        elif problem is not None and _refusal(problem):
            self._keep((user, key), answer)
        return answer

    def _keep(self, key: Hashable, answer: SlurmAnswer) -> None:
        self._answers.pop(key, None)
        self._answers[key] = answer
        while len(self._answers) > _MOST:
            self._answers.popitem(last=False)


def _refusal(error: PortalError) -> bool:
    """Return True if Slurm answered with a refusal."""
    return isinstance(error, SlurmRefused)
