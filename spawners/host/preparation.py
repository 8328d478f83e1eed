"""Call of the site's own function that makes homes and Slurm associations on demand."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from portal.cache import SharedAnswers
from portal.errors import PortalError

from ..settings import SessionSettings
from .blocking import Blocking, StillRunning


class Preparation:
    """Caller of ``preparation_hook``, once at a time per person, however many pages they open."""

    def __init__(self, blocking: Blocking) -> None:
        self._blocking = blocking
        self._failures = SharedAnswers[str, str](ttl=0.0, keep=False)

    async def failure(self, spawner: SessionSettings, contact: str) -> str:
        """Call the hook for the owner; return a sentence that says why it failed; "": it did not.

        ``contact``: whom the sentence tells to ask.
        """
        failures = self._failures.for_key(spawner.user.name)
        return await failures.get(lambda: self._failure(spawner, contact))

    async def _failure(self, spawner: SessionSettings, contact: str) -> str:
        name, seconds = spawner.user.name, spawner.preparation_timeout
        try:
            await self._call(spawner.preparation_hook, spawner)
        except PortalError as error:
            return error.message
        except StillRunning:
            spawner.log.warning("preparation_hook for %s: longer than %s s", name, seconds)
            return (
                f"Your account could not be prepared within {seconds:g} s. Try again in "
                f"a minute; if the problem persists, contact {contact}."
            )
        except Exception:
            # Its message is for the Hub's log only: it may hold paths, commands, secrets.
            spawner.log.exception("preparation_hook for %s failed", name)
            return f"Your account could not be prepared for a session. Please ask {contact}."
        return ""

    async def _call(self, hook: Callable[[SessionSettings], Any], spawner: SessionSettings) -> None:
        name, seconds = f"preparation-{spawner.user.name}", spawner.preparation_timeout
        if inspect.iscoroutinefunction(hook):
            result = hook(spawner)
        else:
            result = await self._blocking.call(name, lambda: hook(spawner), seconds)
        if not inspect.isawaitable(result):
            return
        waiting = asyncio.ensure_future(result)
        done, _ = await asyncio.wait({waiting}, timeout=seconds)
        if not done:
            waiting.cancel()
            raise StillRunning(name)
        await waiting
