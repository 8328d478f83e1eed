"""Cache of shared answers: asked for once for all callers, kept through errors, with their age.

For one event loop. Times are those of the monotonic clock, since the machine's may be set.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from traitlets.log import get_logger

from .errors import PortalError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
Ask = Callable[[], Awaitable[T]]

_NONE: Any = object()
_under_way: set[asyncio.Future[Any]] = set()  # asyncio itself keeps only weak references


@dataclass(eq=False)
class _Question(Generic[T]):
    task: asyncio.Future[T]
    sent_at: float
    ended_at: float = math.inf


class SharedAnswer(Generic[T]):
    """Cache of the newest answer to a single question, shared by all callers.

    ``get`` returns the cached answer while it is fresh. Otherwise the question is asked, and
    callers that come meanwhile wait for that same question: a hundred cost as much as one.
    Cancelling a caller does not cancel the question for the others. ::

        load = SharedAnswer(ask_slurm, ttl=5.0)
        await load.get()  # asks Slurm
        await load.get()  # the same answer, for five seconds
        load.invalidate()  # something was changed: the next caller asks Slurm

    - ``ask``: the question, a coroutine function; ``get`` may be given another one.
    - ``ttl``: seconds for which an answer is fresh, counted from when its question was sent; or a
      function that returns them for the last answer.
    - ``keep``: return the last answer, however old, if a question fails or is late; ``age`` and
      ``error`` tell that. False: raise the error, and do not remember it.
    - ``retry``: seconds until a failed question is asked again (``ttl``, if that is shorter).
      Without an answer, callers get the error meanwhile.
    - ``patience``: seconds, from when a question was sent, after which callers stop waiting for
      it; its answer is stored all the same when it comes. None: wait until it ends.
    - ``first``: answer to return before the first one has come.
    """

    def __init__(
        self,
        ask: Ask[T] | None = None,
        *,
        ttl: float | Callable[[T], float],
        keep: bool = True,
        retry: float = 5.0,
        patience: float | None = None,
        first: T = _NONE,
    ) -> None:
        self.ttl, self.patience = ttl, patience
        self.asked_at = -math.inf  # when the question of the last answer was sent
        self._ask, self._keep, self._retry, self._last = ask, keep, retry, first
        self._valid = False  # nothing was changed since the last answer was asked for
        self._question: _Question[T] | None = None  # under way, and nothing was changed since
        self._failed: _Question[T] | None = None  # the newest question, where it failed

    @property
    def last(self) -> T | None:
        """Last answer, however old; ``first``, or None, if there is none."""
        return None if self._last is _NONE else self._last

    @property
    def age(self) -> float:
        """Seconds since the question of the last answer was sent; infinity without an answer."""
        return time.monotonic() - self.asked_at

    @property
    def error(self) -> BaseException | None:
        """Error of the newest question, if answers are kept; None if it was answered."""
        return self._failed.task.exception() if self._failed else None

    @property
    def under_way(self) -> bool:
        """Return True while a question is being asked."""
        return self._question is not None

    async def get(
        self,
        ask: Ask[T] | None = None,
        *,
        newer_than: float | None = None,
        patience: float | None = None,
    ) -> T:
        """Return the answer; ask for it if none is fresh.

        ``ask`` and ``patience`` override the constructor's. ``newer_than``: only an answer whose
        question was sent at that moment (time.monotonic()) or later is fresh; callers for whom
        the question under way is too old share the one after it. Raises what the question raises,
        and TimeoutError if it is late, unless the last answer is returned instead.
        """
        moment = None if newer_than is None else min(newer_than, time.monotonic())
        patience = self.patience if patience is None else patience
        while not self._fresh(moment):
            question = self._failed if self._failed_lately(moment) else None
            if question is None:
                question = self._question or self._begin(ask or self._ask)
                left = None if patience is None else question.sent_at + patience - time.monotonic()
                if left is None or left > 0:  # not awaited: cancelling a caller would cancel it
                    await asyncio.wait({question.task}, timeout=left)
                if not question.task.done():
                    return self._instead_of(TimeoutError("The answer is late."))
            if moment is None or question.sent_at >= moment:
                try:
                    return question.task.result()
                except (Exception, asyncio.CancelledError) as error:
                    return self._instead_of(error)
        return self._last

    def expect(self) -> None:
        """Start to ask if no answer is fresh, without waiting. Call it in the event loop."""
        if not (self._question or self._fresh(None) or self._failed_lately(None)):
            self._begin(self._ask)

    def invalidate(self) -> None:
        """Make the next ``get`` ask anew, after a change. A question under way may be answered
        from before it, and goes on for those who wait for it already."""
        self._valid, self._question, self._failed = False, None, None

    def put(self, answer: T, asked_at: float | None = None) -> None:
        """Store an answer that came another way, asked for at ``asked_at`` (default: now)."""
        self._store(answer, time.monotonic() if asked_at is None else asked_at, valid=True)

    def _fresh(self, moment: float | None) -> bool:
        if moment is None:
            return self._valid and self.age < self._lasts()
        return self._valid and self.asked_at >= moment

    def _failed_lately(self, moment: float | None) -> bool:
        if self._failed is None:
            return False
        if moment is not None:
            return self._failed.sent_at >= moment
        return time.monotonic() - self._failed.ended_at < min(self._retry, self._lasts())

    def _lasts(self) -> float:
        if not callable(self.ttl):
            return self.ttl
        return math.inf if self._last is _NONE else self.ttl(self._last)

    def _instead_of(self, error: BaseException) -> T:
        if not self._keep or self._last is _NONE:
            raise error
        return self._last

    def _begin(self, ask: Ask[T] | None) -> _Question[T]:
        assert ask is not None
        task = asyncio.ensure_future(ask())
        self._question = question = _Question(task, time.monotonic())
        _under_way.add(task)
        task.add_done_callback(lambda _: self._take(question))
        return question

    def _take(self, question: _Question[T]) -> None:
        """Store the outcome of a question before those who wait for it go on."""
        task, newest = question.task, self._question is question
        _under_way.discard(task)
        question.ended_at = time.monotonic()
        if newest:
            self._question = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            if newest and self._keep:
                self._failed = question
            if not isinstance(error, PortalError):
                get_logger().error("A question that many share failed", exc_info=error)
        elif not task.cancelled():
            self._store(task.result(), question.sent_at, valid=newest)

    def _store(self, answer: T, asked_at: float, *, valid: bool) -> None:
        if asked_at >= self.asked_at:  # else the answer to a later question came first
            self._last, self.asked_at, self._valid = answer, asked_at, valid
            self._failed = None if valid else self._failed


class SharedAnswers(Generic[K, T]):
    """Cache of a SharedAnswer per key: of the ``most`` keys that were used last, or more while all
    of their questions are under way. ``ask`` takes the key; ``rules`` are the arguments of each
    SharedAnswer."""

    def __init__(
        self, ask: Callable[[K], Awaitable[T]] | None = None, *, most: int = 2000, **rules: Any
    ) -> None:
        self._ask, self._most, self._rules = ask, most, rules
        self._answers: OrderedDict[K, SharedAnswer[T]] = OrderedDict()

    def for_key(self, key: K) -> SharedAnswer[T]:
        """Return the SharedAnswer of this key, which may have no answer yet."""
        if key not in self._answers:
            if len(self._answers) >= self._most:
                idle = [other for other, answer in self._answers.items() if not answer.under_way]
                for oldest in idle[: len(self._answers) - self._most + 1]:
                    del self._answers[oldest]
            ask = partial(self._ask, key) if self._ask else None
            self._answers[key] = SharedAnswer(ask, **self._rules)
        self._answers.move_to_end(key)
        return self._answers[key]

    def last(self, key: K) -> T | None:
        """Return the last answer, however old; None if there is none. Does not ask."""
        return self._answers[key].last if key in self._answers else None

    def forget(self, key: K) -> None:
        """Drop the answer of this key. A question under way goes on for those who wait for it
        already, and its answer is not kept."""
        self._answers.pop(key, None)

    def clear(self) -> None:
        """Drop all answers, as ``forget`` does."""
        self._answers.clear()
