"""Pictures of the documentation, taken in the running demo.

python -m docs.pictures [NAME …]     take all pictures, or those named

Each is docs/images/NAME-light.png and NAME-dark.png, 1280 x at most 850 pixels; "tour" is the film
docs/images/tour.webm. Sessions of the people in them are stopped before and after.
"""

from __future__ import annotations

import sys

from portal.demo.home import Home
from portal.demo.running import Running
from tests.support.pages.chromium import chromium

from .demo import IMAGES, Demo
from .scenes import tour
from .stills import STORIES

ALL = {**STORIES, tour: ("tour",)}


def main(names: list[str]) -> int:
    """Take the pictures ``names`` (none: all); return 1 with a sentence if that is impossible."""
    known = {name for pictures in ALL.values() for name in pictures}
    if unknown := set(names) - known:
        print(f"There is no picture {sorted(unknown)}. Pictures: {sorted(known)}.", file=sys.stderr)
        return 1
    running = Running(Home.find())
    if not (running.state or {}).get("ready"):
        print("The demo is not running. Start it with 'make run'.", file=sys.stderr)
        return 1
    IMAGES.mkdir(exist_ok=True)
    with chromium() as browser:
        demo = Demo(browser, running, frozenset(names))
        for story, pictures in ALL.items():
            if demo.wants(*pictures):
                story(demo)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
