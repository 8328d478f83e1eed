"""First screen of a page: elements that are in sight without scrolling."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from looks import STILL, take_picture

expect = pytest.importorskip("playwright.sync_api").expect

SCREEN = {"width": 1280, "height": 850}  # pixels

# Returns "" for an element in sight, else where it is.
IN_SIGHT = """element => {
  const { left, top, right, bottom } = element.getBoundingClientRect();
  const place = [left, top, right, bottom].map(Math.round).join(" ");
  if (right <= left || bottom <= top) return `has no size at ${place}`;
  if (left < 0 || top < 0 || right > innerWidth || bottom > innerHeight) return `is at ${place}`;
  for (const y of [top + 1, (top + bottom) / 2, bottom - 1]) {
    const there = document.elementFromPoint((left + right) / 2, y);
    if (there && !element.contains(there) && !there.contains(element)) {
      return `at ${place} is below ${there.outerHTML.slice(0, 100)}`;
    }
  }
  return "";
}"""


def out_of_sight(page: Any, selectors: Iterable[str]) -> list[str]:
    """Return the elements of these selectors that are not in sight, each with its place.

    In sight is wholly inside the window, without scrolling, and not below another element, e.g. the
    bar with the Start button. A selector without an element is out of sight.
    """
    assert page.evaluate("scrollY") == 0
    hidden = []
    for selector in selectors:
        places = page.locator(selector).evaluate_all(f"all => all.map({IN_SIGHT})")
        hidden += [f"{selector} {place}" for place in places or ["is not there"] if place]
    return hidden


def look(page: Any, name: str, selectors: Iterable[str]) -> None:
    """Take a picture of the first screen once its elements are there; fail if any of them is out
    of sight."""
    for selector in selectors:
        expect(page.locator(selector).first).to_be_visible()
    page.evaluate(STILL)
    take_picture(page, f"first-screen-{name}")
    assert out_of_sight(page, selectors) == []
