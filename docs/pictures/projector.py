"""Film to WebM, by the browser's own recorder (MediaRecorder)."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from .film import SIZE, Reel

SCRIPT = Path(__file__).with_name("projector.js")
BAND = 48  # pixels of the caption
BITS = 120_000  # a second; the encoder takes up to half as much again for pages full of text
AT_ONCE = 50  # frames in a message to the browser


def video(browser: Any, reel: Reel) -> bytes:
    """Play the film in a page of ``browser``, and return the recording."""
    height = SIZE["height"] + BAND
    context = browser.new_context(viewport={"width": SIZE["width"], "height": height})
    context.set_default_timeout(0)
    page = context.new_page()
    page.set_content("<style>body { margin: 0 }</style><canvas></canvas>")
    page.add_script_tag(content=SCRIPT.read_text())
    frames = sorted(reel.frames)
    for start in range(0, len(frames), AT_ONCE):
        page.evaluate("load", frames[start : start + AT_ONCE])
    told = {
        "length": reel.length,
        "captions": reel.captions,
        "moves": reel.moves,
        "presses": reel.presses,
        "width": SIZE["width"],
        "height": height,
        "page": SIZE["height"],
        "bits": BITS,
    }
    made = page.evaluate("play", told)
    context.close()
    print(f"{made['mimeType']}, {reel.length:.0f} s, {len(frames)} frames", flush=True)
    return base64.b64decode(made["video"])
