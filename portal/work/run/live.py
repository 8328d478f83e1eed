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
    ended: bool = False  # that output is its last
    content: bytes = b""  # of the output: as objects, thousands of cells take ten times as much

    @property
    def output(self) -> PointOutput | None:
        """Newest output; None if none has come."""
        return PointOutput.model_validate_json(self.content) if self.content else None


@dataclass
class KeptPoint:
    """Kernel of a failed point. ``until``: Unix seconds; ``heard``: in time.monotonic()."""

    until: float
    heard: float
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
        self._kept: OrderedDict[PointKey, KeptPoint] = OrderedDict()

    def watch(self, key: PointKey) -> Watched:
        """Note that the user looks at the point now; return its known state."""
        self._drop_old()
        watched = self._watched.pop(key, None) or Watched(0.0)
        watched.until = self._clock() + LOOKS
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

    def is_missing(self, key: PointKey) -> bool:
        """Return True if the user looks at the point, and there is no output to show."""
        return self.is_watched(key) and not self._watched[key].content

    def take(
        self, key: PointKey, attempt: int, output: PointOutput, at: float, *, last: bool, kept: bool
    ) -> None:
        """Keep the newest output of a watched point, which came at ``at`` (Unix seconds).
        ``last``: the point has ended; ``kept``: and its kernel lives."""
        watched = self._watched.get(key)
        if watched is None or attempt < watched.attempt:
            return
        if watched.ended and attempt == watched.attempt and not (last or kept):
            return  # it was overtaken
        watched.content = output.model_dump_json().encode()
        watched.at, watched.attempt = at, attempt
        watched.ended = last or kept

    def keep(self, key: PointKey, until: float, answers: tuple[KernelAnswer, ...]) -> None:
        """Note that the point's kernel is kept until ``until`` (Unix seconds; 0: no longer), and
        what it has answered."""
        kept = self._kept.pop(key, None) or KeptPoint(until, 0.0)
        if not until:
            return
        kept.until, kept.heard = until, self._clock()
        texts = {answer.id: answer.text for answer in answers}
        kept.asked = [
            asked.model_copy(update={"text": texts[asked.id]}) if asked.id in texts else asked
            for asked in kept.asked
        ]
        self._kept[key] = kept
        own = [other for other in self._kept if other[0] == key[0]]
        for other in own[:-_MOST_KERNELS_OF_USER]:
            del self._kept[other]
        self._bound_texts(key[0])
        _bound(self._kept, _MOST_KERNELS)

    def kernel(self, key: PointKey) -> KeptPoint | None:
        """Return the point's kernel; None if none is kept."""
        kept = self._kept.get(key)
        if kept is None or kept.end or self._clock() - kept.heard > _SILENT:
            return None
        return kept

    def ask(self, key: PointKey, code: str) -> AskedKernel:
        """Ask the point's kernel to execute ``code``. Raises Conflict if none is kept, or too much
        waits."""
        kept = self._kernel(key)
        if sum(asked.text is None for asked in kept.asked) >= MOST_QUESTIONS:
            raise Conflict(
                f"{MOST_QUESTIONS} requests to this kernel are waiting for an answer. Try again "
                "later."
            )
        asked = AskedKernel(id=kept.next_id, code=code)
        kept.next_id += 1
        kept.asked = [*kept.asked, asked][-_MOST_ASKED:]
        self._bound_texts(key[0])
        return asked

    def questions(self, key: PointKey) -> tuple[KernelQuestion, ...]:
        """Return the questions that were not yet sent to the kernel, and mark them as sent."""
        kept = self.kernel(key)
        if kept is None:
            return ()
        fresh = [asked for asked in kept.asked if asked.text is None and asked.id not in kept.sent]
        kept.sent = {asked.id for asked in kept.asked if asked.text is None}
        return tuple(KernelQuestion(id=asked.id, code=asked.code) for asked in fresh)

    def end_kernel(self, key: PointKey) -> None:
        """End the point's kernel. Raises Conflict if none is kept."""
        self._kernel(key).end = True

    def is_to_end(self, key: PointKey) -> bool:
        """Return True if the point's kernel was ended by its user."""
        kept = self._kept.get(key)
        return kept is not None and kept.end

    def _kernel(self, key: PointKey) -> KeptPoint:
        kept = self.kernel(key)
        if kept is None:
            raise Conflict("The kernel of this point was not kept, or has ended.")
        return kept

    def _bound_texts(self, user: str) -> None:
        """Drop the oldest questions of a user beyond _LARGEST, those of kernels first that were
        heard of longest ago."""
        own = [kept for key, kept in self._kept.items() if key[0] == user]
        excess = sum(kept.size for kept in own) - _LARGEST
        for kept in own:
            while excess > 0 and kept.asked:
                before = kept.size
                kept.asked = kept.asked[1:]
                excess -= before - kept.size

    def _drop_old(self) -> None:
        now = self._clock()
        for key in [key for key, watched in self._watched.items() if watched.until <= now]:
            del self._watched[key]
        for key in [key for key, kept in self._kept.items() if now - kept.heard > _SILENT]:
            del self._kept[key]


def _bound(entries: OrderedDict[PointKey, _Entry], most: int) -> None:
    while len(entries) > most:
        entries.popitem(last=False)
