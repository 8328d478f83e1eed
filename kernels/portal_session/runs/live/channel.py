"""Channel of a point to the portal: its output while its user looks at it, and the requests to its
kept kernel."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any, Callable

from ...service import Service, ServiceError
from ...situation import in_thread
from .kept_kernel import HeldKernel
from .rendering import LARGEST, LARGEST_LAST

PATH = "session/points/output"
_EVERY = 2.0  # seconds between two sendings while somebody looks
_SHARE = 10  # a sending that takes 1 s is followed by 10 s without one
_LOOKS = 5.0  # seconds between two questions whether somebody looks at a kept kernel
_TRIES = (0.0, 1.0, 3.0, 6.0)  # seconds before each try of the last sending
_GIVES_UP = frozenset({400, 403, 409, 413})


class LiveChannel:
    """Channel of one point. ``about``: what each sending has (point, attempt); ``execution``
    returns its execution, None while there is none."""

    def __init__(
        self, service: Service | None, about: dict[str, Any], execution: Callable[[], Any]
    ) -> None:
        self._service, self._about, self._execution = service, about, execution
        self._loop = asyncio.get_running_loop()
        self._watched = asyncio.Event()
        self._is_watched = False
        self._sent: dict[str, Any] | None = None  # what the portal has
        self._rank = 0  # whose log the user looks at
        self._task = asyncio.ensure_future(self._run())

    def take_answer(self, answer: dict[str, Any]) -> None:
        """Take the answer to a report, which says whether the user looks. May be called from any
        thread."""
        if answer.get("watched") is True:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the point has ended
                self._loop.call_soon_threadsafe(self._watched.set)

    async def _run(self) -> None:
        """Send the output while the user looks at it, until cancelled."""
        while True:
            await self._watched.wait()
            self._watched.clear()
            with contextlib.suppress(ServiceError):  # the next report hears whether to go on
                await self._follow()

    async def _follow(self) -> None:
        self._is_watched = True
        while self._is_watched:
            began = time.monotonic()
            await self._send("running", await self._changed("running"))
            await asyncio.sleep(max(_EVERY, _SHARE * (time.monotonic() - began)))

    async def end(self, state: str, kernel: HeldKernel | None, seconds: float) -> None:
        """Send what is left at the point's end. ``state``: "failed": the portal keeps the output;
        ``kernel``: the kernel that is kept, which is served until it ends; ``seconds``: for the
        last sending."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if state == "failed" or self._is_watched:
            sending = asyncio.ensure_future(self._send_last(state, kernel))
            await asyncio.wait({sending}, timeout=seconds)
            sending.cancel()
        if kernel is not None:
            try:
                await self._serve(kernel)
            finally:
                await kernel.close()

    async def _send_last(self, state: str, kernel: HeldKernel | None) -> None:
        output = await self._rendered(state, LARGEST_LAST)
        until = None if kernel is None else kernel.until
        for pause in _TRIES:
            await asyncio.sleep(pause)
            try:
                await self._send(state, output, last=True, kept_until=until)
                return
            except ServiceError as error:
                if error.status in _GIVES_UP:
                    return

    async def _serve(self, kernel: HeldKernel) -> None:
        """Execute what the portal's page asks, until the kernel is to end."""
        answers: list[dict[str, Any]] = []
        while not kernel.is_over:
            output = await self._changed("failed") if self._is_watched else None
            try:
                fields = {"kept_until": kernel.until, "answers": answers}
                answer = await self._send("failed", output, **fields)
            except ServiceError:
                await kernel.wait(_LOOKS)
                continue
            if answer.get("end") is True:
                answers = []
                break
            questions = answer.get("questions") or ()
            answers = [
                {"id": question.get("id"), "text": await kernel.execute(str(question.get("code")))}
                for question in questions
            ]
            if not answers:
                await kernel.wait(_EVERY if self._is_watched else _LOOKS)
        kernel.end()
        with contextlib.suppress(ServiceError):
            await self._send("failed", None, kept_until=0.0, answers=answers)

    async def _rendered(self, state: str, largest: int) -> dict[str, Any] | None:
        """Return the output as text, of ``largest`` bytes at most; None while there is none."""
        execution = self._execution()
        if execution is None:
            return None
        # Rank 0's is kept: it has the end of that of the rank that failed.
        rank = 0 if state == "failed" else self._rank
        return await execution.rendered(state, largest, rank)

    async def _changed(self, state: str) -> dict[str, Any] | None:
        """Return the output, None if the portal has it."""
        output = await self._rendered(state, LARGEST)
        return None if output == self._sent else output

    async def _send(self, state: str, output: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
        """Return the portal's answer. Raises ServiceError."""
        if self._service is None:
            raise ServiceError("The portal's address is not set in this job.", 403)
        body = {**self._about, "state": state, "output": output, **more}
        answer = await in_thread(self._service.ask, "POST", PATH, body)
        self._sent = output if output is not None else self._sent
        if answer.get("missing") is True:  # it was restarted, or nobody looked for a while
            self._sent = None
        rank = answer.get("rank")
        self._rank = rank if isinstance(rank, int) else 0
        self._is_watched = answer.get("watched") is True
        return answer
