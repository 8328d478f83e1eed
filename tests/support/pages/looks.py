"""How a page looks, for browser tests: pictures in both themes and widths, and what axe finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PICTURES = Path(__file__).parents[3] / "build" / "screenshots"
# Bootstrap fades colours, and what follows the window's size is drawn in the next frame. What is
# paused or never ends is not waited for, and nothing longer than 10 s.
STILL = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const moves = one =>
    one.playState === "running" && Number.isFinite(one.effect?.getComputedTiming().endTime);
  await frame();
  await frame();
  const began = performance.now();
  while (document.getAnimations().some(moves) && performance.now() - began < 10000) await frame();
}"""


def check(page: Any, name: str) -> None:
    """Pictures of the page in light and dark, wide and narrow; fails where axe finds anything or
    the page is wider than a phone."""
    from axe_core_python.sync_playwright import Axe

    PICTURES.mkdir(parents=True, exist_ok=True)
    found = []
    for theme in ("light", "dark"):
        for width in (1200, 390):
            page.set_viewport_size({"width": width, "height": 600})
            page.evaluate("t => document.documentElement.setAttribute('data-bs-theme', t)", theme)
            page.evaluate(STILL)
            size = "wide" if width > 400 else "phone"
            # A screen as high as the page, or the start bar covers the middle of the picture.
            height = page.evaluate("document.documentElement.scrollHeight")
            page.set_viewport_size({"width": width, "height": max(600, height)})
            page.evaluate("window.scrollTo(0, 0)")
            page.screenshot(path=PICTURES / f"{name}-{theme}-{size}.png")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{name} is {wide} px wide on a screen of {width} px"
            for violation in Axe().run(page)["violations"]:
                nodes = [node["html"][:150] for node in violation["nodes"]]
                why = violation["nodes"][0].get("failureSummary", "")
                found.append(f"{name} {theme} {size}: {violation['id']}: {nodes} {why}")
    page.set_viewport_size({"width": 1200, "height": 900})
    assert not found, "\n".join(found)
