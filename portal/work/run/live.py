"""Points that their users look at, in memory: their newest output, and the kernels that are kept.

A point's job learns from the answer to each report whether its user looks, and sends its output
only then.
"""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from portal.errors import Conflict
from portal.models.session.run_output import (
    MOST_QUESTIONS,
    AskedKernel,
    KernelAnswer,
    KernelQuestion,
    PointOutput,
)

PointKey = tuple[str, str, int]  # user, id of the run, number of the point

LOOKS = 30.0  # seconds for which a point is watched after its page has asked
_MOST = 200  # points with an output
_MOST_OF_USER = 10
_MOST_KERNELS_OF_USER = 50
_MOST_KERNELS = 2_000
_SILENT = 60.0  # seconds after which the job of a kept kernel is gone
_MOST_ASKED = 50  # questions that are shown
_LARGEST = 1024 * 1024  # bytes of all questions and answers of a user
_Entry = TypeVar("_Entry")


@dataclass
class Watched:
    """Point that its user looks at."""

    until: float  # time.monotonic()
    at: float | None = None  # when its output came (Unix seconds)
    attempt: int = 0
    rank: int = 0  # whose log its user looks at
    ended: bool = False  # that output is its last
    content: bytes = b""  # of the output: as objects, thousands of cells take ten times as much

    @property
    def output(self) -> PointOutput | None:
        """Newest output; None if none has come."""
        return PointOutput.model_validate_json(self.content) if self.content else None


@dataclass
class HeldPoint:
    """Kernel of a failed point. ``until``: Unix seconds; ``asked_at``: in time.monotonic()."""

    until: float
    asked_at: float
    asked: list[AskedKernel] = field(default_factory=list)
    next_id: int = 1
    sent: set[int] = field(default_factory=set)
    end: bool = False

    @property
    def size(self) -> int:
        """Bytes of the questions and answers in memory."""
        texts = [text for asked in self.asked for text in (asked.code, asked.text)]
        return sum(map(sys.getsizeof, texts))


class LivePoints:
    """Points that are watched, and kept kernels. All of it is lost with the process: jobs send it
    anew."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._watched: OrderedDict[PointKey, Watched] = OrderedDict()
        self._held: OrderedDict[PointKey, HeldPoint] = OrderedDict()

    def watch(self, key: PointKey, rank: int = 0) -> Watched:
        """Note that the user looks at the log of this ``rank`` of the point now; return its known
        state."""
        self._drop_old()
        watched = self._watched.pop(key, None) or Watched(0.0)
        watched.until, watched.rank = self._clock() + LOOKS, rank
        self._watched[key] = watched
        own = [other for other in self._watched if other[0] == key[0]]
        for other in own[:-_MOST_OF_USER]:
            del self._watched[other]
        _bound(self._watched, _MOST)
        return watched

    def is_watched(self, key: PointKey) -> bool:
        """Return True while the user looks at the point."""
        watched = self._watched.get(key)
        return watched is not None and watched.until > self._clock()

    def rank(self, key: PointKey) -> int:
        """Return the rank at whose log the user looks."""
        watched = self._watched.get(key)
        return 0 if watched is None else watched.rank

    def is_missing(self, key: PointKey) -> bool:
        """Return True if the user looks at the point, and there is no output to show."""
        return self.is_watched(key) and not self._watched[key].content

    def take(
        self, key: PointKey, attempt: int, output: PointOutput, at: float, *, last: bool, held: bool
    ) -> None:
        """Keep the newest output of a watched point, which came at ``at`` (Unix seconds).
        ``last``: the point has ended; ``held``: and its kernel lives."""
        watched = self._watched.get(key)
        if watched is None or attempt < watched.attempt:
            return
        if watched.ended and attempt == watched.attempt and not (last or held):
            return  # it was overtaken
        watched.content = output.model_dump_json().encode()
        watched.at, watched.attempt = at, attempt
        watched.ended = last or held

    def keep(self, key: PointKey, until: float, answers: tuple[KernelAnswer, ...]) -> None:
        """Note that the point's kernel is kept until ``until`` (Unix seconds; 0: no longer), and
        what it has answered."""
        held = self._held.pop(key, None) or HeldPoint(until, 0.0)
        if not until:
            return
        held.until, held.asked_at = until, self._clock()
        texts = {answer.id: answer.text for answer in answers}
        held.asked = [
            asked.model_copy(update={"text": texts[asked.id]}) if asked.id in texts else asked
            for asked in held.asked
        ]
        self._held[key] = held
        own = [other for other in self._held if other[0] == key[0]]
        for other in own[:-_MOST_KERNELS_OF_USER]:
            del self._held[other]
        self._bound_texts(key[0])
        _bound(self._held, _MOST_KERNELS)

    def kernel(self, key: PointKey) -> HeldPoint | None:
        """Return the point's kernel; None if none is kept."""
        held = self._held.get(key)
        if held is None or held.end or self._clock() - held.asked_at > _SILENT:
            return None
        return held

    def ask(self, key: PointKey, code: str) -> AskedKernel:
        """Ask the point's kernel to execute ``code``. Raises Conflict if none is kept, or too much
        waits."""
        held = self._kernel(key)
        if sum(asked.text is None for asked in held.asked) >= MOST_QUESTIONS:
            raise Conflict(
                f"{MOST_QUESTIONS} requests to this kernel are waiting for an answer. Try again "
                "later."
            )
        asked = AskedKernel(id=held.next_id, code=code)
        held.next_id += 1
        held.asked = [*held.asked, asked][-_MOST_ASKED:]
        self._bound_texts(key[0])
        return asked

    def questions(self, key: PointKey) -> tuple[KernelQuestion, ...]:
        """Return the questions that were not yet sent to the kernel, and mark them as sent."""
        held = self.kernel(key)
        if held is None:
            return ()
        fresh = [asked for asked in held.asked if asked.text is None and asked.id not in held.sent]
        held.sent = {asked.id for asked in held.asked if asked.text is None}
        return tuple(KernelQuestion(id=asked.id, code=asked.code) for asked in fresh)

    def end_kernel(self, key: PointKey) -> None:
        """End the point's kernel. Raises Conflict if none is kept."""
        self._kernel(key).end = True

    def is_to_end(self, key: PointKey) -> bool:
        """Return True if the point's kernel was ended by its user."""
        held = self._held.get(key)
        return held is not None and held.end

    def _kernel(self, key: PointKey) -> HeldPoint:
        held = self.kernel(key)
        if held is None:
            raise Conflict("The kernel of this point was not kept, or has ended.")
        return held

    def _bound_texts(self, user: str) -> None:
        """Drop the oldest questions of a user beyond _LARGEST, those of kernels first that were
        heard of longest ago."""
        own = [held for key, held in self._held.items() if key[0] == user]
        excess = sum(held.size for held in own) - _LARGEST
        for held in own:
            while excess > 0 and held.asked:
                before = held.size
                held.asked = held.asked[1:]
                excess -= before - held.size

    def _drop_old(self) -> None:
        now = self._clock()
        for key in [key for key, watched in self._watched.items() if watched.until <= now]:
            del self._watched[key]
        for key in [key for key, held in self._held.items() if now - held.asked_at > _SILENT]:
            del self._held[key]


def _bound(entries: OrderedDict[PointKey, _Entry], most: int) -> None:
    while len(entries) > most:
        entries.popitem(last=False)
