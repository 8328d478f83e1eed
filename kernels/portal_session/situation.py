"""Status of this session: from the portal, and as measured here.

Many tabs may ask; the portal is asked once in a few seconds, and only while a tab asks. While it
does not answer, its last answer stays, with its age.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Mapping
from typing import Any, Callable, TypeVar

from .measurements.gpus import GpuReader, gpu_reader
from .measurements.memory import job_memory
from .service import Service, ServiceError

FRESH = 4.0  # seconds for which one answer serves everybody
LONGEST_WAIT = 60.0  # seconds between two tries while the portal does not answer
PATIENCE = 3.0  # seconds that a page waits for news; then it gets what there is

_T = TypeVar("_T")


async def in_thread(function: Callable[..., _T], *arguments: Any) -> _T:
    """Run ``function`` as asyncio.to_thread does, in a thread that does not delay the exit of the
    process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def set_outcome(result: Any, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def work() -> None:
        result: Any = None
        problem: BaseException | None = None
        try:
            result = function(*arguments)
        except Exception as error:  # any error is the waiting caller's
            problem = error
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(set_outcome, result, problem)

    threading.Thread(target=work, name="portal-situation", daemon=True).start()
    return await future


class CachedValue:
    """Last value of ``find``, refreshed by at most one task at a time.

    ``clock`` returns monotonic seconds. ``problem`` is "" or a sentence that says why there is
    nothing newer; ``failing`` is the time since which that is so, on this clock.
    """

    def __init__(
        self,
        find: Callable[[], Awaitable[dict[str, Any]]],
        fresh: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find = find
        self._fresh = fresh
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._due = clock()
        self._wait = fresh
        self.value: dict[str, Any] | None = None
        self.at: float | None = None  # time of the value, on ``clock``
        self.problem = ""
        self.failing: float | None = None

    def outdate(self) -> None:
        """Mark the value as outdated: the next `look` fetches a new one."""
        self._due = self._clock()

    async def fetch_if_due(self, patience: float) -> None:
        """Fetch the value if that is due, and wait for it, ``patience`` seconds at most."""
        if self._task is None and self._clock() >= self._due:
            self._due = self._clock()
            self._task = asyncio.ensure_future(self._fetch())
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=patience)

    async def _fetch(self) -> None:
        outdated = self._due
        wait = self._fresh
        try:
            self.value = await self._find()
        except Exception as error:
            known = isinstance(error, ServiceError)
            self.problem = (
                str(error) if known else f"The portal's answer cannot be read ({error!r})."
            )
            self.failing = self._clock() if self.failing is None else self.failing
            asked = error.retry_after if isinstance(error, ServiceError) else 0.0
            wait = max(self._wait, asked)
            self._wait = min(self._wait * 2, LONGEST_WAIT)
        else:
            self.at = self._clock()
            self.problem, self.failing, self._wait = "", None, self._fresh
        finally:
            self._task = None
            if self._due == outdated:  # else `outdate` was called meanwhile
                self._due = self._clock() + wait


class Situations:
    """Answers of ``GET portal/situation``. ``service`` is None if none is configured."""

    def __init__(
        self, service: Service | None, environ: Mapping[str, str], gpus: GpuReader | None = None
    ) -> None:
        self._service = service
        self._job_id = environ.get("SLURM_JOB_ID", "")
        self._gpus = gpus or gpu_reader(environ)
        self._situation = CachedValue(self._ask, FRESH)
        self._seen = CachedValue(self._look_here, FRESH)

    def outdate(self) -> None:
        """Mark the situation as outdated: something was changed through the portal."""
        self._situation.outdate()

    async def answer(self) -> dict[str, Any]:
        """Return the situation with its age.

        ``situation`` is the portal's model Situation, or None; ``age`` its age in seconds.
        ``error``: "" or why there is nothing newer, ``failing``: for how many seconds. ``local``:
        the GPUs and the job's memory as read here, in MiB; None is unknown.
        """
        await asyncio.gather(
            self._situation.fetch_if_due(PATIENCE), self._seen.fetch_if_due(PATIENCE)
        )
        now, situation, seen = time.monotonic(), self._situation, self._seen
        nothing = situation.value is None and not situation.problem
        return {
            "situation": situation.value,
            "at": None if situation.at is None else time.time() - (now - situation.at),
            "age": None if situation.at is None else now - situation.at,
            "error": "The portal has not answered yet." if nothing else situation.problem,
            "failing": None if situation.failing is None else now - situation.failing,
            "local": seen.value or {"gpus": [], "memory_used": None, "memory_limit": None},
        }

    async def _ask(self) -> dict[str, Any]:
        if self._service is None:
            raise ServiceError("The portal's address is not set in this session.", 503)
        situation = await in_thread(self._service.ask, "GET", "session")
        if not isinstance(situation.get("now"), (int, float)):
            raise ServiceError("The portal's answer cannot be read.")
        return situation

    async def _look_here(self) -> dict[str, Any]:
        return await in_thread(self._read_here)

    def _read_here(self) -> dict[str, Any]:
        used, limit = job_memory(self._job_id)
        return {"gpus": self._gpus.read(), "memory_used": used, "memory_limit": limit}
