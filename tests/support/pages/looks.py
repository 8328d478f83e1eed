"""How a page looks, for browser tests: pictures in both themes and widths, and what axe finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
# What passes is thousands of elements on a large page, each of which would come over as HTML.
VIOLATIONS = """place => axe.run(place || document, { resultTypes: ["violations"] }).then(
  found => found.violations.map(({ id, nodes }) => {
    const html = nodes.map(node => node.html.slice(0, 150)).join(" ");
    return `${id}: ${html} ${nodes[0]?.failureSummary ?? ""}`;
  }))"""


def violations(page: Any, place: str = "") -> list[str]:
    """What axe finds wrong with the page as it stands, or with the elements of a selector."""
    axe = pytest.importorskip("axe_core_python.sync_playwright").Axe()
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(axe.axe_script)
    found: list[str] = page.evaluate(VIOLATIONS, place)
    return found


def check(page: Any, name: str) -> None:
    """Pictures of the page in light and dark, wide and narrow; fails where axe finds anything or
    the page is wider than a phone."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    found: list[str] = []
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
            found += [f"{name} {theme} {size}: {one}" for one in violations(page)]
    page.set_viewport_size({"width": 1200, "height": 900})
    assert not found, "\n".join(found)
