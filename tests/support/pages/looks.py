"""Looks of a page, for browser tests: screenshots in both themes and widths, and axe's findings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

PICTURES = Path(__file__).parents[3] / "build" / "screenshots"
NO_PICTURES = "PORTAL_TEST_NO_PICTURES"  # set by the whole suite, where nobody looks at them
# Bootstrap fades colours, and elements that follow the window's size are drawn in the next frame.
# Animations that are paused or endless are not waited for; the limit is 10 s.
STILL = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const moves = one =>
    one.playState === "running" && Number.isFinite(one.effect?.getComputedTiming().endTime);
  await frame();
  await frame();
  const began = performance.now();
  while (document.getAnimations().some(moves) && performance.now() - began < 10000) await frame();
}"""
WIDTHS = {"wide": 1280, "medium": 1024, "tablet": 768, "phone": 390}  # pixels
DRAWER = 992  # pixels; narrower pages have the side bar as a drawer
EDGE = 32  # pixels between side bar and content
ENTRY = 40  # pixels; an entry of the side bar that takes two lines is higher
# Phrases that no page and no document says: CONTRIBUTING.md has the words to use.
BANNED = (
    "what lies behind",
    "the most that one may",
    "stays for ever",
    "one more session",
    "tell me when",
    "to be put right",
    "call it off",
    "look at it",
    "somebody",
    "whoever",
    "begin anew",
    "told to come",
    "one's own",
    "so many",
    "take them along",
    "from then on",
    "the way in",
    "nobody's",
    "seen by",
)
# Passes are left out: thousands of elements on a large page, each sent as HTML. Behind a modal
# dialog the page is inert, and what the dialog happens to cover would seem to have its colors. No
# rule that is on needs a copy of the style sheets (preload), which the page's policy refuses.
VIOLATIONS = """place => {
  const part = place || document.querySelector("dialog:modal") || document;
  return axe.run(part, { resultTypes: ["violations"], preload: false }).then(
    found => found.violations.map(({ id, nodes }) => {
      const html = nodes.map(node => node.html.slice(0, 150)).join(" ");
      return `${id}: ${html} ${nodes[0]?.failureSummary ?? ""}`;
    }));
  }"""


def take_picture(page: Any, name: str, *, full_page: bool = False) -> None:
    """Take a screenshot of the page to build/screenshots/NAME.png, unless the whole suite runs."""
    if NO_PICTURES not in os.environ:
        page.screenshot(path=PICTURES / f"{name}.png", full_page=full_page)


def violations(page: Any, place: str = "") -> list[str]:
    """Return axe's findings on the page as it is, or on the elements of the selector ``place``."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(axe.axe_script)
    findings: list[str] = page.evaluate(VIOLATIONS, place)
    return findings


def check_shell(page: Any, name: str) -> None:
    """Fail if an entry of the side bar has two lines, or the page's head has another left edge."""
    for entry in page.locator("#portal-nav .portal-entry").all():
        high = entry.bounding_box()["height"]
        assert high < ENTRY, f"{entry.inner_text()} in the navigation of {name} is {high} px high"
    side, head = page.locator("#portal-side .portal-side"), page.locator(".page-head").first
    if side.count() and head.count():
        box, edge = side.bounding_box(), head.bounding_box()["x"]
        assert edge - box["x"] - box["width"] == EDGE, f"the head of {name} is at {edge} px"


def check(page: Any, name: str) -> None:
    """Look at the page in light and dark, at four widths, and take pictures of it.

    Fail if axe finds anything, the page is wider than the screen, an entry of its navigation has
    two lines, its head is not at the left edge of the content, or it says a phrase that is banned.
    """
    findings: list[str] = []
    for theme in ("light", "dark"):
        for size, width in WIDTHS.items():
            page.set_viewport_size({"width": width, "height": 600})
            page.evaluate("t => document.documentElement.setAttribute('data-bs-theme', t)", theme)
            page.evaluate(STILL)
            # Without a screen as high as the page, the start bar covers the middle of the picture.
            height = page.evaluate("document.documentElement.scrollHeight")
            page.set_viewport_size({"width": width, "height": max(600, height)})
            page.evaluate("window.scrollTo(0, 0)")
            take_picture(page, f"{name}-{theme}-{size}")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{name} is {wide} px wide on a screen of {width} px"
            if width >= DRAWER:
                check_shell(page, name)
            findings += [f"{name} {theme} {size}: {finding}" for finding in violations(page)]
    page.set_viewport_size({"width": 1200, "height": 900})
    text = page.locator("body").inner_text().lower().replace("\u2019", "'")
    findings += [f"{name} says “{phrase}”" for phrase in BANNED if phrase in text]
    assert not findings, "\n".join(findings)
