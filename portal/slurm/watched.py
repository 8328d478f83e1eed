"""One noun that is asked for at most once at a time, and kept when Slurm does not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from ..errors import PortalError

T = TypeVar("T")

# Where the last question failed, this many seconds are enough to see that Slurm is back.
_HOPE = 0.3


class Watched(Generic[T]):
    """A value with its age.

    ``ask(urgent, started)`` gets a new one; it calls ``started`` when it really asks, since it may
    wait before. ``value`` is None until Slurm answered once; ``asked_at`` is when the question of
    the last answer was sent, by the monotonic clock, since the machine's may be set, and
    ``taken_at`` the same moment in Unix seconds, to be shown; ``error`` is the sentence of the last
    question, ""
    when it was answered. ``patience`` gives the seconds that callers wait for an answer when there
    is an older one: Slurm's commands try for ten seconds and more when slurmctld is away.
    """

    def __init__(
        self,
        name: str,
        ask: Callable[[bool, Callable[[], None]], Awaitable[T]],
        patience: Callable[[], float] = lambda: 3.0,
    ) -> None:
        self.name = name
        self.value: T | None = None
        self.taken_at = 0.0
        self.asked_at = float("-inf")
        self.error = ""
        self._ask = ask
        self._patience = patience
        self._tried_at = float("-inf")
        self._task: asyncio.Task[None] | None = None
        self._enough: asyncio.Future[None] | None = None  # answered, or not waited for any longer
        self._hurry: asyncio.Event | None = None
        self._sent_at: float | None = None
        self._late = False  # the question that is under way, and the one before was answered

    async def newer_than(self, moment: float, urgent: bool = False) -> None:
        """Wait until this was asked for at ``moment`` (time.monotonic()) or later.

        All callers share the questions. A failure ends the wait too, and so does an answer that
        does not come in time: both are kept in ``error``.
        """
        moment = min(moment, time.monotonic())
        while self._tried_at < moment:
            if self._task is None or self._task.done():
                self._enough = asyncio.get_running_loop().create_future()
                self._sent_at = None
                self._hurry = asyncio.Event()
                self._task = asyncio.ensure_future(self._refresh(urgent, self._enough))
            elif urgent and self._sent_at is None and self._hurry is not None:
                self._hurry.set()
            task, enough = self._task, self._enough
            assert enough is not None
            # Shielded: a caller that goes away does not take the answer from the others.
            await asyncio.shield(enough)
            if not task.done() and self._sent_at is not None:
                return  # it takes too long
            await asyncio.shield(task)

    async def late_answer(self, seconds: float) -> None:
        """Wait for the answer that is late, so long at most; not where the last question failed."""
        if self._late and self._task is not None:
            await asyncio.wait({self._task}, timeout=seconds)

    async def _refresh(self, urgent: bool, enough: asyncio.Future[None]) -> None:
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle | None = None

        def started() -> None:
            nonlocal timer
            self._sent_at = time.monotonic()
            if self.value is not None:
                seconds = min(_HOPE, self._patience()) if self.error else self._patience()
                timer = loop.call_later(seconds, late, seconds)

        def late(seconds: float) -> None:
            self._late = not self.error
            self.error = self.error or f"Slurm has not answered for {seconds:g} seconds."
            if not enough.done():
                enough.set_result(None)

        try:
            self.value = await self._asked(urgent, started)
            self.asked_at = self._sent()
            self.taken_at = time.time() - (time.monotonic() - self.asked_at)
            self.error = ""
        except PortalError as error:
            self.error = error.message
        except (ValueError, LookupError) as error:
            self.error = (
                f"The portal does not understand Slurm's answer about {self.name}: {error}."
            )
        finally:
            self._tried_at, self._late = self._sent(), False
            if timer is not None:
                timer.cancel()
            if not enough.done():
                enough.set_result(None)

    def _sent(self) -> float:
        return time.monotonic() if self._sent_at is None else self._sent_at

    async def _asked(self, urgent: bool, started: Callable[[], None]) -> T:
        assert self._hurry is not None
        asked = asyncio.ensure_future(self._ask(urgent, started))
        hurry = asyncio.ensure_future(self._hurry.wait())
        try:
            await asyncio.wait({asked, hurry}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done() and self._sent_at is None:
                # Still waiting for its turn, and someone cannot wait: ask again, urgently.
                asked.cancel()
                asked = asyncio.ensure_future(self._ask(True, started))
            return await asked
        finally:
            hurry.cancel()
