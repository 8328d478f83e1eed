"""Kernel of a failed cell, which is kept for some minutes so that its user can inspect its
variables.

Its sockets are Unix sockets in a folder of mode 700 in the job: only its user on its node reaches
it, and all requests to it come through the reports' own channel.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Mapping
from typing import Any, Callable

from .plain_text import newest_part, plain_text
from .rendering import output_text

HELD = 600.0  # seconds
_BEFORE_END = 60.0  # seconds before the end of the job's time
_ANSWERS = 20.0  # seconds that the kernel may take for one answer
_LONGEST = 16_000  # characters of an answer
_MOST_PARTS = 500


class HeldKernel:
    """Kernel of ``manager``, whose client is ``client``, until ``until`` (Unix seconds).
    ``ending``: ends the kernel."""

    def __init__(
        self, manager: Any, client: Any, until: float, ending: Callable[[], Awaitable[None]]
    ) -> None:
        self._manager, self._client, self._ending = manager, client, ending
        self.until = until
        self._deadline = time.monotonic() + max(0.0, until - time.time())
        self._over = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """True once the kernel is to end."""
        return self._over.is_set() or time.monotonic() >= self._deadline

    @property
    def words(self) -> str:
        """Sentence that says until when, by the clock of the node."""
        return f"Its kernel is kept until {time.strftime('%H:%M', time.localtime(self.until))}."

    def end(self) -> None:
        """Let `is_over` be true now."""
        self._over.set()

    async def wait(self, seconds: float) -> None:
        """Wait, but not longer than the kernel is kept."""
        left = max(0.0, min(seconds, self._deadline - time.monotonic()))
        waiting = asyncio.ensure_future(self._over.wait())
        await asyncio.wait({waiting}, timeout=left)
        waiting.cancel()

    async def execute(self, code: str) -> str:
        """Execute ``code`` in the kernel; return what it prints and shows as text, or a sentence
        that says why there is none."""
        parts: list[str] = []

        def take(message: Mapping[str, Any]) -> None:
            item = {"output_type": message["msg_type"], **message["content"]}
            if len(parts) < _MOST_PARTS and (text := output_text(item, _LONGEST)):
                parts.append(text)

        note = ""
        try:
            await self._client.execute_interactive(
                code,
                store_history=False,
                allow_stdin=False,
                stop_on_error=False,
                timeout=_ANSWERS,
                output_hook=take,
            )
        except TimeoutError:
            note = f"The kernel did not answer in {_ANSWERS:.0f} s and was interrupted."
            with contextlib.suppress(Exception):
                await self._manager.interrupt_kernel()
        except Exception as error:  # of its sockets, or of a message that is damaged
            note = plain_text(f"The kernel could not be queried: {error}")[:500]
        with contextlib.suppress(Exception):
            if not await self._manager.is_alive():
                note = "The kernel has ended."
                self.end()
        return "\n".join([newest_part("\n".join(parts), _LONGEST), note]).strip("\n")

    async def close(self) -> None:
        """End the kernel."""
        await self._ending()


def kept_until(environ: Mapping[str, str]) -> float:
    """Return the time until which a kernel that failed now is kept (Unix seconds): HELD from now,
    or before the job's time is over."""
    until = time.time() + HELD
    end = environ.get("SLURM_JOB_END_TIME", "")
    return min(until, int(end) - _BEFORE_END) if end.isdecimal() else until
