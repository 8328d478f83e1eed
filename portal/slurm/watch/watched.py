"""One noun of Slurm's, asked for once for all who look, in turns that a budget gives."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from portal.cache import SharedAnswer
from portal.errors import PortalError, SlurmUnavailable

T = TypeVar("T")

# Where the last question failed, this many seconds are enough to see that Slurm is back.
_HOPE = 0.3


class Watched(Generic[T]):
    """A SharedAnswer whose questions wait for their turn, with its error as a sentence.

    ``take_turn`` waits until Slurm may be asked, or less long once the event that it is given is
    set: somebody cannot wait. ``ask`` asks. ``error`` is the sentence of the last question, "" when
    it was answered. ``patience`` gives the seconds that callers wait for an answer when there is an
    older one: Slurm's commands try for ten seconds and more when slurmctld is away.
    """

    def __init__(
        self,
        name: str,
        take_turn: Callable[[asyncio.Event], Awaitable[None]],
        ask: Callable[[], Awaitable[T]],
        patience: Callable[[], float] = lambda: 3.0,
    ) -> None:
        self.name = name
        self.taken_at = 0.0  # when the last answer was asked for, in Unix seconds, to be shown
        self.error = ""
        self._take_turn, self._ask, self._patience = take_turn, ask, patience
        self._answer = SharedAnswer(self._asked, ttl=0.0, keep=False)
        self._turn = SharedAnswer(self._turned, ttl=0.0, keep=False)
        self._hurry = asyncio.Event()
        self._sent_at = float("-inf")  # the newest question
        self._tried_at = float("-inf")  # the newest question that has ended
        self._late = False  # the question that is under way, and the one before was answered

    @property
    def value(self) -> T | None:
        """The last answer; None until there was one."""
        return self._answer.last

    @property
    def asked_at(self) -> float:
        """The moment when the last answer was asked for, by the monotonic clock."""
        return self._answer.asked_at

    async def newer_than(self, moment: float, urgent: bool = False) -> None:
        """Wait until this was asked for at ``moment`` (time.monotonic()) or later.

        All callers share the questions. A failure ends the wait too, and so does an answer that
        does not come in time: both are kept in ``error``.
        """
        moment = min(moment, time.monotonic())
        while self._tried_at < moment:
            if not self._answer.under_way:
                if urgent:
                    self._hurry.set()
                await self._turn.get()
                continue
            seconds = min(_HOPE, self._patience()) if self.error else self._patience()
            try:
                await self._answer.get(patience=None if self.value is None else seconds)
            except TimeoutError:
                if not self.error:
                    self._late = True
                    self.error = f"Slurm has not answered for {seconds:g} seconds."
                return
            except PortalError:
                pass  # ``error`` says it

    async def late_answer(self, seconds: float) -> None:
        """Wait for the answer that is late, so long at most; not where the last question failed."""
        if self._late:
            with contextlib.suppress(TimeoutError, PortalError):
                async with asyncio.timeout(seconds):
                    await self._answer.get()

    async def _turned(self) -> None:
        await self._take_turn(self._hurry)
        self._hurry.clear()
        self._sent_at = time.monotonic()
        self._answer.expect()  # before anybody else can take a turn

    async def _asked(self) -> T:
        sent = self._sent_at
        try:
            answer = await self._ask()
        except PortalError as error:
            self.error = error.message
            raise
        except (ValueError, LookupError) as error:
            self.error = (
                f"The portal does not understand Slurm's answer about {self.name}: {error}."
            )
            raise SlurmUnavailable(self.error) from error
        finally:
            self._tried_at, self._late = sent, False
        self.error, self.taken_at = "", time.time() - (time.monotonic() - sent)
        return answer
