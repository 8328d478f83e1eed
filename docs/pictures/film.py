"""Recording of what pages show, with captions and a pointer, on a time of its own.

The browser reports each change of a page with its time (Chrome DevTools Protocol,
Page.startScreencast). The film keeps the time that is meant for the viewer, and cuts that in which
the demo works: so it is equally long on every machine.
"""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from playwright.sync_api import Error

SIZE = {"width": 1280, "height": 672}  # pixels of a page; the caption is below
SHORT = 0.25  # seconds that remain of what happens between two steps
GLIDE = 0.5  # seconds of the pointer from one place to the next
KEY = 45  # milliseconds from one key to the next


@dataclass
class Reel:
    """Film as the projector plays it: everything with its second, from the film's start."""

    frames: list[tuple[float, str]] = field(default_factory=list)  # PNG in base64
    captions: list[tuple[float, str]] = field(default_factory=list)
    moves: list[tuple[float, float, float]] = field(default_factory=list)  # to x, y
    presses: list[tuple[float]] = field(default_factory=list)
    length: float = 0.0


class Film:
    """Recorder of one page at a time (``aim``)."""

    def __init__(self) -> None:
        self._raw = Reel()
        self._sections: list[tuple[float, float]] = [(time.time(), SHORT)]  # begin, most seconds
        self._page: Any = None
        self._camera: Any = None

    def aim(self, page: Any) -> None:
        """Record ``page`` from now on, instead of the page before it."""
        self.stop()
        page.bring_to_front()
        self._page, self._camera = page, page.context.new_cdp_session(page)
        self._camera.on("Page.screencastFrame", self._keep)
        self._still()
        self._camera.send("Page.startScreencast", {"format": "png"})

    def stop(self) -> None:
        """End the recording of the page."""
        if self._camera:
            self._camera.send("Page.stopScreencast")
            self._camera.detach()
        self._camera = None

    def caption(self, text: str) -> None:
        """Show ``text`` below the page from now on."""
        self._raw.captions.append((time.time(), text))

    def hold(self, seconds: float) -> None:
        """Let the viewer look."""
        # The browser leaves out frames that come too fast, and the last one may be among them.
        self._still()
        with self.at_most(seconds):
            self._page.wait_for_timeout(1000 * seconds)

    @contextlib.contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """Cut the middle of what happens in the block, if it takes longer than ``seconds``."""
        self._sections.append((time.time(), seconds))
        yield
        self._sections.append((time.time(), SHORT))

    def point(self, target: Any) -> None:
        """Move the pointer to the middle of ``target``, a locator."""
        box = target.bounding_box()
        if not 0 <= box["y"] <= SIZE["height"] - box["height"]:
            target.scroll_into_view_if_needed()
            box = target.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self._raw.moves.append((time.time(), x, y))
        self.hold(GLIDE)
        self._page.mouse.move(x, y)

    def press(self, target: Any) -> None:
        """Move the pointer to ``target`` and click."""
        self.point(target)
        self._raw.presses.append((time.time(),))
        target.click()
        self.hold(0.3)

    def type(self, text: str) -> None:
        """Type into what has the focus, as fast as a person."""
        with self.at_most(len(text) * KEY / 1000):
            self._page.keyboard.type(text, delay=KEY)

    def scroll(self, down: int) -> None:
        """Scroll the page by ``down`` pixels."""
        with self.at_most(0.8):
            for _ in range(8):
                self._page.evaluate("down => scrollBy(0, down)", down / 8)
                self._page.wait_for_timeout(60)

    def reel(self) -> Reel:
        """Return the film so far."""
        when = self._film_time
        raw = self._raw
        return Reel(
            frames=[(when(at), data) for at, data in raw.frames],
            captions=[(when(at), text) for at, text in raw.captions],
            moves=[(when(at), x, y) for at, x, y in raw.moves],
            presses=[(when(at),) for (at,) in raw.presses],
            length=when(time.time()),
        )

    def _keep(self, event: dict[str, Any]) -> None:
        self._raw.frames.append((event["metadata"]["timestamp"], event["data"]))
        with contextlib.suppress(Error):  # the page may be gone
            self._camera.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})

    def _still(self) -> None:
        """Keep what the page shows now; nothing while it is left for another."""
        with contextlib.suppress(Error):
            data = base64.b64encode(self._page.screenshot()).decode()
            self._raw.frames.append((time.time(), data))

    def _film_time(self, at: float) -> float:
        """Return the second of the film for the clock's ``at``."""
        ends = [*self._sections, (float("inf"), 0.0)]
        second = 0.0
        for (begin, most), (end, _) in pairwise(ends):
            if at < end:
                end = min(end, time.time())
                return second + kept(max(at - begin, 0.0), end - begin, most)
            second += min(end - begin, most)
        return second


def kept(passed: float, length: float, most: float) -> float:
    """Return how much of ``passed`` remains of a section of ``length`` seconds whose middle is cut
    out, so that ``most`` seconds are left."""
    cut = max(length - most, 0.0)
    return min(passed, most / 2) if passed < most / 2 + cut else passed - cut
