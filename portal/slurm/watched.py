"""One noun that is asked for at most once at a time, and kept when Slurm does not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from ..errors import PortalError

T = TypeVar("T")


class Watched(Generic[T]):
    """A value with its age.

    ``ask(urgent, started)`` gets a new one; it calls ``started`` when it really asks, since it may
    wait before. ``value`` is None until Slurm answered once; ``taken_at`` is when the question of
    the last answer was sent (Unix seconds); ``error`` is the sentence of the last question, ""
    when it was answered.
    """

    def __init__(self, name: str, ask: Callable[[bool, Callable[[], None]], Awaitable[T]]) -> None:
        self.name = name
        self.value: T | None = None
        self.taken_at = 0.0
        self.error = ""
        self._ask = ask
        self._tried_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._hurry: asyncio.Event | None = None
        self._sent_at: float | None = None

    async def newer_than(self, moment: float, urgent: bool = False) -> None:
        """Wait until this was asked for at ``moment`` (Unix seconds) or later.

        All callers share the questions; a failure ends the wait too, and is kept in ``error``.
        """
        moment = min(moment, time.time())
        while self._tried_at < moment:
            if self._task is None or self._task.done():
                self._task = asyncio.ensure_future(self._refresh(urgent))
            elif urgent and self._sent_at is None and self._hurry is not None:
                self._hurry.set()
            # Shielded: a caller that goes away does not take the answer from the others.
            await asyncio.shield(self._task)

    async def _refresh(self, urgent: bool) -> None:
        self._sent_at = None
        self._hurry = asyncio.Event()

        def started() -> None:
            self._sent_at = time.time()

        asked = asyncio.ensure_future(self._ask(urgent, started))
        hurry = asyncio.ensure_future(self._hurry.wait())
        try:
            await asyncio.wait({asked, hurry}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done() and self._sent_at is None:
                # Still waiting for its turn, and someone cannot wait: ask again, urgently.
                asked.cancel()
                asked = asyncio.ensure_future(self._ask(True, started))
            self.value = await asked
            self.taken_at = self._sent_at or time.time()
            self.error = ""
        except PortalError as error:
            self.error = error.message
        except (ValueError, LookupError) as error:
            self.error = (
                f"The portal does not understand Slurm's answer about {self.name}: {error}."
            )
        finally:
            hurry.cancel()
            self._tried_at = self._sent_at or time.time()
