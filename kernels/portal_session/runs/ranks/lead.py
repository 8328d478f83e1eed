"""Rank 0 of a point: it checks the nodes, lets all ranks begin, follows them, and decides how the
point has ended. It is executed as a single script is (`execution.script_execution`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...situation import in_thread
from .. import RunError
from ..disk import read_regular, reason
from ..execution.outcome import ENDS, RESUMES, STOPPED, Outcome
from ..execution.script_execution import FILE, ScriptExecution
from ..live.rendering import log_rendering
from .member import LOOKS, Pulse, ended_at, introduce, log_name, note_end, pauses, variables
from .network import Meeting, free_port, master_address
from .preflight import Exclusions, missing_words, refusal
from .stall import Watch
from .team import END, GO, HALT, HERE, SAVE, STOP, Team

_START = 120.0  # seconds until all ranks must be there: images are unpacked, modules loaded
_TOGETHER = 1.5  # seconds in which an earlier error of another rank may still be told
_LONGEST = 16_384  # bytes of the failed rank's log that the point's own gets
_REST = 3.0  # seconds that the other ranks have for their end, beside those of their scripts


class LeadExecution:
    """Execution of a script by all ranks of ``team``. ``make(more)`` returns that of rank 0 with
    further variables; ``told`` is what the others need besides: the values, the folder, variables.
    ``on_stop``, ``on_save``: called when Slurm's signals come, which deploy/session.sh passes on as
    files."""

    cell = cells = None
    held = None

    def __init__(
        self,
        team: Team,
        folder: Path,
        exclusions: Exclusions,
        make: Callable[[Mapping[str, str]], ScriptExecution],
        told: Mapping[str, Any],
        on_stop: Callable[[], None],
        on_save: Callable[[], None],
    ) -> None:
        self._team, self._folder, self._exclusions = team, folder, exclusions
        self._make, self._told = make, told
        self._on_stop, self._on_save = on_stop, on_save
        self._script: ScriptExecution | None = None
        self._stopped, self._patience = "", ENDS
        self._nodes: dict[int, str] = {}
        self._workers: list[str] = []
        self._first: int | None = None  # the rank that failed first
        self._hangs = ""

    @property
    def words(self) -> str:
        """Sentence about a point that goes on: a rank that does nothing, or nodes that were
        excluded; "" for none."""
        return self._hangs or self._exclusions.words

    def stop(self, reason: str, seconds: float = ENDS) -> None:
        """Stop all ranks, which have ``seconds`` to end; ``reason`` is a sentence."""
        self._stopped, self._patience = self._stopped or reason, seconds
        with contextlib.suppress(OSError):
            self._team.write_for_all(HALT, {"reason": self._stopped, "seconds": seconds})
        if self._script is not None:
            self._script.stop(reason, seconds)

    async def rendered(self, state: str, largest: int, rank: int = 0) -> dict[str, Any] | None:
        """Return the end of the log of a ``rank``; None before the ranks begin."""
        if self._script is None:
            return None
        size = self._team.layout.size
        rank = rank if rank < size else 0
        log = self._folder / (log_name(rank) if rank else FILE)
        return {**await in_thread(log_rendering, log, largest), "rank": rank, "ranks": size}

    async def run(self) -> Outcome:
        """Execute the script to the end of all ranks."""
        pulse = Pulse(self._team)
        signals = asyncio.ensure_future(self._pass_signals())
        try:
            try:
                refused = await self._gathered()
            except OSError as error:
                raise RunError(f"The ranks cannot meet: {reason(error)}") from None
            if refused is not None:
                return refused
            outcome = await self._executed(pulse)
            await in_thread(self._log_first)
            return outcome
        finally:
            signals.cancel()
            pulse.end()
            with contextlib.suppress(OSError):
                self._team.write_for_all(HALT, {"reason": self._stopped or "The point has ended"})

    async def _gathered(self) -> Outcome | None:
        """Wait for all ranks and check their nodes, then let them begin; return the outcome if they
        cannot. Raises OSError."""
        layout, meeting = self._team.layout, Meeting()
        address = await in_thread(master_address, os.environ)
        try:
            port = await meeting.open(address)
            await introduce(self._team, address=address, meeting=port, key=meeting.key)
            here, over = await self._answers()
        finally:
            meeting.close()
        if self._stopped:
            return Outcome.failed(self._stopped, STOPPED)
        self._nodes = {rank: str(about.get("node") or "") for rank, about in here.items()}
        refused = await in_thread(refusal, here, over, self._team, self._exclusions)
        if refused is not None:
            return refused
        missing = sorted(set(range(layout.size)) - here.keys())
        if missing:
            return Outcome.failed(
                f"{missing_words(missing)} did not start within {_START:.0f} s. Check that the "
                "home and the environment's image can be read on all nodes."
            )
        on_node = layout.on_node
        self._port = await in_thread(free_port, address, on_node, on_node + 1)
        self._address = address
        self._workers = [str(here[rank].get("worker") or "") for rank in range(layout.size)]
        to_all = {"address": address, "port": self._port, "workers": self._workers}
        go = {**self._told, **to_all}
        await in_thread(self._team.write_for_all, GO, go)
        return None

    async def _answers(self) -> tuple[dict[int, dict[str, Any]], dict[int, tuple[int, str]]]:
        """Return what all ranks say of themselves, and the ends of those that have ended."""
        deadline = time.monotonic() + _START
        here: dict[int, dict[str, Any]] = {}
        over: dict[int, tuple[int, str]] = {}
        ranks, pause = range(self._team.layout.size), pauses()
        while len(here.keys() | over.keys()) < len(ranks) and time.monotonic() < deadline:
            for rank in ranks:
                if rank not in here and (about := await in_thread(self._team.read, HERE, rank)):
                    here[rank] = about
                if rank not in here and (end := await in_thread(self._team.over, rank)):
                    over[rank] = end
            if self._stopped:
                break
            await asyncio.sleep(next(pause))
        return here, over

    async def _executed(self, pulse: Pulse) -> Outcome:
        at = (self._address, self._port, self._workers)
        own = self._make(variables(os.environ, self._team, *at))
        self._script = pulse.script = own
        if self._stopped:
            own.stop(self._stopped, self._patience)
        running = asyncio.ensure_future(own.run())
        watching = asyncio.ensure_future(self._watch())
        await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            outcome = running.result()
            await note_end(self._team, outcome, own)
            if own.code == RESUMES:  # it was saved, and the others end with it
                self.stop("Rank 0 was saved")
                watching.cancel()
                await self._rest()
                return outcome
        await watching
        if self._first is None:
            outcome = await running
            await self._rest()
            return Outcome.failed(self._stopped, STOPPED) if self._stopped else outcome
        # Others may have failed a moment before, and say so a moment later.
        await asyncio.sleep(_TOGETHER)
        first = await in_thread(self._earliest)
        about = await in_thread(self._team.read, END, first) or {}
        message = f"Rank {first} on {self._nodes.get(first, '')}: {self._end_words(first, about)}"
        self._first = first
        stopped = self._stopped
        self.stop(stopped or f"Rank {first} failed")
        outcome = await running
        await self._rest()
        if stopped:
            return Outcome.failed(stopped, STOPPED)
        if own.code == RESUMES:
            return outcome
        return Outcome.failed(message)._replace(pruned=outcome.pruned and not first)

    async def _watch(self) -> None:
        """Return when a rank has failed, when all have succeeded, or when the point is stopped."""
        living, watch = set(range(self._team.layout.size)), Watch(self._team, self._nodes)
        while True:
            for rank in sorted(living):
                about = await in_thread(self._team.read, END, rank)
                if about is None and rank and await in_thread(self._team.over, rank):
                    # Once more: it may have said so just before.
                    about = await in_thread(self._team.read, END, rank) or {"ok": False}
                if about is not None:
                    living.discard(rank)
                    if not about.get("ok"):
                        self._first = rank if self._first is None else self._first
            if self._first is not None or not living or self._stopped:
                self._hangs = ""
                return
            self._hangs = await in_thread(watch.words, living)
            await asyncio.sleep(LOOKS)

    def _earliest(self) -> int:
        """Return the rank that has failed first."""
        failed = [
            rank
            for rank in range(self._team.layout.size)
            if not (self._team.read(END, rank) or {"ok": True}).get("ok")
        ]
        assert self._first is not None
        return min(failed, key=lambda rank: ended_at(self._team, rank), default=self._first)

    def _end_words(self, rank: int, about: Mapping[str, Any]) -> str:
        if about.get("message"):
            return str(about["message"])
        code, _ = self._team.over(rank) or (None, "")
        return f"its program has ended without a word (exit code {code})"

    async def _rest(self) -> None:
        """Wait until the other ranks have ended, or have had the time to."""
        deadline = time.monotonic() + self._patience + _REST
        others = set(range(1, self._team.layout.size))
        while others and time.monotonic() < deadline:
            for rank in sorted(others):
                if await in_thread(self._has_ended, rank):
                    others.discard(rank)
            if others:
                await asyncio.sleep(LOOKS)

    def _has_ended(self, rank: int) -> bool:
        """Return True if a rank's script has ended, or its program, which was killed."""
        return self._team.path(END, rank).exists() or self._team.over(rank) is not None

    def _log_first(self) -> None:
        """Add the end of the failed rank's log to the point's own, which its page shows."""
        if not self._first:
            return
        name = log_name(self._first)
        try:
            text = read_regular(self._folder / name, 100 * 1024 * 1024, own=True)[-_LONGEST:]
            # A member of a group that shares the folder may have put a link there.
            flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(self._folder / FILE, flags), "ab") as log:
                head = f"\n--- Rank {self._first} failed first. The end of its log, {name}: ---\n"
                log.write(head.encode() + text)
        except OSError:
            return

    async def _pass_signals(self) -> None:
        """Act on the signals of Slurm that deploy/session.sh has got."""
        stopped = saved = False
        while True:
            if not stopped and await in_thread(self._team.has, STOP):
                stopped = True
                self._on_stop()
            if not saved and await in_thread(self._team.has, SAVE):
                saved = True
                self._on_save()
            await asyncio.sleep(LOOKS)
