"""Shared, cached query of one kind of Slurm's objects, in turns that a budget gives."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from portal.cache import SharedAnswer
from portal.errors import PortalError, SlurmUnavailable

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

# After a failed query, this many seconds are enough to see that Slurm is back.
_HOPE = 0.3
_LOOK = 0.25  # seconds between two looks for the other process's answer, while a turn is awaited
_UNDER_WAY = 1.0  # seconds that an own query waits for the other process's, which is under way
_SOON = 0.05  # seconds between two looks meanwhile


class OtherProcess(Protocol[T_co]):
    """Another process that sends the same query."""

    async def newer_than(self, moment: float) -> tuple[T_co, float] | None:
        """Return its newest answer and when it was sent, unless that was before ``moment`` (both
        time.monotonic())."""

    def taken(self) -> None:
        """Note that its answer is used in place of an own one."""

    def begin(self) -> bool:
        """Announce an own query; return False while the other process's is under way."""

    def end(self) -> None:
        """Note that the own query has ended."""


class QueryCache(Generic[T]):
    """SharedAnswer whose queries wait for their turn, with its error as a sentence.

    ``take_turn`` waits until Slurm may be queried, or less long once the event that it is given is
    set (somebody cannot wait). ``ask`` sends the query. ``error`` is the last query's error as a
    sentence, "" if it was answered. ``patience`` returns the seconds that callers wait for an
    answer if there is an older one: Slurm's commands retry for ten seconds and more when slurmctld
    is away. ``other``: an answer from there that is new enough is taken instead of an own query.
    """

    def __init__(
        self,
        name: str,
        take_turn: Callable[[asyncio.Event], Awaitable[None]],
        ask: Callable[[], Awaitable[T]],
        patience: Callable[[], float] = lambda: 3.0,
        other: OtherProcess[T] | None = None,
    ) -> None:
        self.name = name
        self.taken_at = 0.0  # time of the last answer's query (Unix seconds), to be shown
        self.error = ""
        self._take_turn, self._ask, self._patience = take_turn, ask, patience
        self._other = other
        self._answer = SharedAnswer(self._asked, ttl=0.0, keep=False)
        self._turn = SharedAnswer[None](ttl=0.0, keep=False)
        self._hurry = asyncio.Event()
        self._sent_at = float("-inf")  # time of the newest query
        self._tried_at = float("-inf")  # time of the newest query that has ended
        self._late = False  # the query under way is late, and the one before was answered

    @property
    def value(self) -> T | None:
        """Last answer; None before the first one."""
        return self._answer.last

    @property
    def asked_at(self) -> float:
        """Time at which the last answer was queried (time.monotonic())."""
        return self._answer.asked_at

    async def newer_than(self, moment: float, urgent: bool = False) -> None:
        """Wait for an answer that was queried at ``moment`` (time.monotonic()) or later.

        All callers share the queries. A failure ends the wait too, and so does an answer that does
        not come in time: both are kept in ``error``.
        """
        moment = min(moment, time.monotonic())
        while self._tried_at < moment:
            if not self._answer.under_way:
                if urgent:
                    self._hurry.set()
                await self._turn.get(lambda: self._turned(moment))
                continue
            seconds = min(_HOPE, self._patience()) if self.error else self._patience()
            try:
                await self._answer.get(patience=None if self.value is None else seconds)
            except TimeoutError:
                if not self.error:
                    self._late = True
                    self.error = f"Slurm has not answered for {seconds:g} s."
                return
            except PortalError:
                pass  # ``error`` says it

    async def late_answer(self, seconds: float) -> None:
        """Wait at most ``seconds`` for a late answer; not if the last query failed."""
        if self._late:
            with contextlib.suppress(TimeoutError, PortalError):
                async with asyncio.timeout(seconds):
                    await self._answer.get()

    async def _turned(self, moment: float) -> None:
        """Send the query when its turn has come, unless the other process has an answer of
        ``moment`` or later before that."""
        if not await self._taken_over(moment):
            turn = asyncio.ensure_future(self._take_turn(self._hurry))
            try:
                while not turn.done():
                    await asyncio.wait({turn}, timeout=None if self._other is None else _LOOK)
                    if await self._taken_over(moment):
                        return
            finally:
                turn.cancel()
            turn.result()
            if self._other is not None and await self._waited_for_other(self._other, moment):
                return
            self._sent_at = time.monotonic()
            self._answer.expect()  # before anybody else can take a turn
        self._hurry.clear()

    async def _waited_for_other(self, other: OtherProcess[T], moment: float) -> bool:
        """Announce the query to the other process; return True if that one was asking already, and
        its answer will do."""
        deadline = time.monotonic() + _UNDER_WAY
        while not (begun := other.begin()):
            if self._hurry.is_set() or time.monotonic() > deadline:
                return False
            await asyncio.sleep(_SOON)
            if await self._taken_over(moment):
                return True
        if begun and await self._taken_over(moment):
            other.end()
            return True
        return False

    async def _taken_over(self, moment: float) -> bool:
        theirs = None if self._other is None else await self._other.newer_than(moment)
        if self._other is None or theirs is None:
            return False
        answer, asked_at = theirs
        self._other.taken()
        self._answer.put(answer, asked_at)
        self._sent_at = self._tried_at = asked_at
        self._succeeded(asked_at)
        return True

    async def _asked(self) -> T:
        sent = self._sent_at
        try:
            answer = await self._ask()
        except PortalError as error:
            self.error = error.message
            raise
        except (ValueError, LookupError) as error:
            self.error = f"The portal cannot read Slurm's answer about {self.name}: {error}."
            raise SlurmUnavailable(self.error) from error
        finally:
            self._tried_at, self._late = sent, False
            if self._other is not None:
                self._other.end()
        self._succeeded(sent)
        return answer

    def _succeeded(self, sent: float) -> None:
        self.error, self.taken_at = "", time.time() - (time.monotonic() - sent)
