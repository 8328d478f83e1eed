"""How it stands with this session: what the portal says, and what can be seen from here.

Many tabs may ask; the portal is asked once in some seconds, by nobody while nobody asks. While it
does not answer, its last word stays, with its age.
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
    """As asyncio.to_thread, in a thread that the end of the process does not wait for."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def tell(result: Any, error: BaseException | None) -> None:
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
        except Exception as error:  # whatever it is, it belongs to the one who waits
            problem = error
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, result, problem)

    threading.Thread(target=work, name="portal-situation", daemon=True).start()
    return await future


class Kept:
    """The last value that ``find`` brought, fetched anew by at most one task at a time.

    ``clock`` counts seconds and never jumps. ``problem`` is "" or the sentence why there is
    nothing newer; ``failing`` since when that is so, on this clock.
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
        self.at: float | None = None  # when it came
        self.problem = ""
        self.failing: float | None = None

    def outdate(self) -> None:
        """What is known is no longer true: the next one who asks gets it anew."""
        self._due = self._clock()

    async def look(self, patience: float) -> None:
        """Fetches when that is due, and waits for it, ``patience`` seconds at most."""
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
            self.problem = str(error) if known else f"That cannot be read ({error!r})."
            self.failing = self._clock() if self.failing is None else self.failing
            asked = error.peace if isinstance(error, ServiceError) else 0.0
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
    """What ``GET portal/situation`` answers. ``service`` is None where nobody named one."""

    def __init__(
        self, service: Service | None, environ: Mapping[str, str], gpus: GpuReader | None = None
    ) -> None:
        self._service = service
        self._job_id = environ.get("SLURM_JOB_ID", "")
        self._gpus = gpus or gpu_reader(environ)
        self._told = Kept(self._ask, FRESH)
        self._seen = Kept(self._look_here, FRESH)

    def outdate(self) -> None:
        """Something was changed through the portal."""
        self._told.outdate()

    async def answer(self) -> dict[str, Any]:
        """``situation`` is the portal's model Situation, or None; ``age`` its age in seconds.

        ``error``: "" or why there is nothing newer, ``failing``: for how many seconds.
        ``local``: what the GPUs and the job's memory say here, in MiB; None is unknown.
        """
        await asyncio.gather(self._told.look(PATIENCE), self._seen.look(PATIENCE))
        now, told, seen = time.monotonic(), self._told, self._seen
        nothing = told.value is None and not told.problem
        return {
            "situation": told.value,
            "at": None if told.at is None else time.time() - (now - told.at),
            "age": None if told.at is None else now - told.at,
            "error": "The portal has not answered yet." if nothing else told.problem,
            "failing": None if told.failing is None else now - told.failing,
            "local": seen.value or {"gpus": [], "memory_used": None, "memory_limit": None},
        }

    async def _ask(self) -> dict[str, Any]:
        if self._service is None:
            raise ServiceError("The portal did not tell this session where to ask.", 503)
        found = await in_thread(self._service.ask, "GET", "session")
        if not isinstance(found.get("now"), (int, float)):
            raise ServiceError("The portal's answer cannot be read.")
        return found

    async def _look_here(self) -> dict[str, Any]:
        return await in_thread(self._read_here)

    def _read_here(self) -> dict[str, Any]:
        used, limit = job_memory(self._job_id)
        return {"gpus": self._gpus.read(), "memory_used": used, "memory_limit": limit}
