"""Clicks that a task takes, as the browser sees them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

# Presses, since a click on a label makes another one on its input; a choice in a list is one more.
COUNT = """() => {
  if (window.portalCounts) return;
  window.portalCounts = true;
  const named = (target) => target.closest("a, button, label, select, summary")?.textContent ?? "";
  addEventListener("pointerdown", (event) => {
    if (event.isTrusted) window.portalClicked(named(event.target));
  }, true);
  addEventListener("change", (event) => {
    if (event.isTrusted && event.target.tagName === "SELECT") window.portalClicked("a choice");
  }, true);
}"""


class Clicks:
    """Counter of the clicks in ``page``, on all pages that it shows."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self._texts: list[str] = []
        page.expose_function("portalClicked", self._note)
        page.add_init_script(f"({COUNT})()")
        page.evaluate(COUNT)

    def _note(self, text: str) -> None:
        self._texts.append(" ".join(text.split())[:60])

    @contextlib.contextmanager
    def at_most(self, number: int, task: str) -> Iterator[None]:
        """Fail if the block takes no click, or more than ``number``."""
        self._texts.clear()
        yield
        print(f"{task}: {len(self._texts)} clicks, at most {number}: {self._texts}")
        assert 0 < len(self._texts) <= number, f"{task} takes the clicks {self._texts}"
