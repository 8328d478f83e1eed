"""Slurm's own estimates, kept for a while: each question once at a time, and not too many."""

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
_LONG_PAUSE = 600.0  # … that is not understood: each costs a job id, and the next will be no better


class Told(NamedTuple):
    """``start`` in Unix seconds, None where Slurm named none or with ``error``; ``at`` is when the
    question was sent, for ``user``, and ``asked_at`` the same by the monotonic clock."""

    start: float | None
    error: PortalError | None
    at: float
    user: str
    asked_at: float


class Questions:
    """``rate``: questions a second in the long run; ``busy``: the share of time in which one may be
    under way, so that slow answers (a long queue) make them rarer."""

    def __init__(self, rate: float, busy: float) -> None:
        self._number = QueryBudget(rate, _BURST, 0.0)
        self._time = QueryBudget(busy, _BURST_SECONDS, 0.0)
        self._told: OrderedDict[Hashable, Told] = OrderedDict()
        self._under_way: dict[Hashable, asyncio.Task[Told]] = {}
        self._not_before = 0.0
        self.sent = 0
        self.away = ""  # the sentence of the last question, where Slurm did not answer it

    def told(self, key: Hashable, user: str, since: float) -> Told | None:
        """The answer to a question that was sent after ``since`` (time.monotonic()). A refusal is
        only for the one who was refused."""
        for one in (key, (user, key)):
            kept = self._told.get(one)
            if kept is not None and kept.asked_at >= since:
                return kept
        return None

    def answers(self, since: float) -> Iterator[tuple[Hashable, float]]:
        """The questions that were answered with a start, sent after ``since``, and that start."""
        for key, told in self._told.items():
            if told.start is not None and told.asked_at >= since:
                yield key, told.start

    async def ask(
        self,
        key: Hashable,
        user: str,
        ask: Callable[[], Awaitable[float | None]],
        *,
        patience: float,
        leave: int = 0,
    ) -> Told | None:
        """The new answer, waited for ``patience`` seconds. None where it takes longer (it is kept
        when it comes), where there were too many questions (``leave``: so many must be left for
        others), or Slurm does not answer."""
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
        told = task.result()
        if told.error is None:
            return told if told.start is not None else None
        return told if _refusal(told.error) and told.user == user else None

    def _may(self, leave: int) -> bool:
        free = len(self._under_way) < _AT_ONCE and time.monotonic() >= self._not_before
        return free and self._time.spend(0.0) and self._number.spend(1, leave=leave)

    async def _answer(
        self, key: Hashable, user: str, ask: Callable[[], Awaitable[float | None]]
    ) -> Told:
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
        told = Told(start, problem, at, user, began)
        if start is not None:
            self._keep(key, told)
        elif problem is not None and _refusal(problem):
            self._keep((user, key), told)
        return told

    def _keep(self, key: Hashable, told: Told) -> None:
        self._told.pop(key, None)
        self._told[key] = told
        while len(self._told) > _MOST:
            self._told.popitem(last=False)


def _refusal(error: PortalError) -> bool:
    """Whether Slurm answered, and said no."""
    return isinstance(error, SlurmRefused)
