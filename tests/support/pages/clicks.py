"""Clicks that a task takes, counted as the browser sees them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

COUNT = """() => {
  if (window.portalCounts) return;
  window.portalCounts = true;
  // A list takes a click to open, and its choice is counted as one more.
  for (const kind of ["click", "change"]) {
    addEventListener(kind, (event) => {
      if (!event.isTrusted || (kind === "change" && event.target.tagName !== "SELECT")) return;
      const target = event.target.closest("a, button, label, input, select, summary");
      window.portalClicked(target?.textContent ?? "");
    }, true);
  }
}"""


@contextlib.contextmanager
def at_most(page: Any, number: int, task: str) -> Iterator[list[str]]:
    """Fail if the block takes more than ``number`` clicks; yield what was clicked so far.

    A click on a label is one, though the browser reports a second for its input.
    """
    clicked: list[str] = []
    page.expose_function("portalClicked", lambda text: clicked.append(" ".join(text.split())[:60]))
    page.add_init_script(f"({COUNT})()")
    page.evaluate(COUNT)
    yield clicked
    counted = [text for at, text in enumerate(clicked) if text or not at or not clicked[at - 1]]
    print(f"{task}: {len(counted)} clicks, at most {number}: {counted}")
    assert len(counted) <= number, f"{task} takes {len(counted)} clicks: {counted}"
