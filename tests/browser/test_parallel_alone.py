"""Parallel coordinates of a run by themselves: axes are brushed, lines pointed at and opened."""

from __future__ import annotations

from typing import Any

import pytest
from pages_alone import open_alone

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

VALUES = {
    "parameters": ["rate"],
    "metrics": ["loss"],
    "items": [{"number": n, "parameters": [n / 10], "metrics": [(n - 4) ** 2]} for n in range(11)],
    "total": 11,
}
DRAW = """async () => {
  const { src } = document.querySelector("script[src*='run/compare']");
  const { Parallel } = await import(src.replace("compare", "parallel"));
  window.opened = [];
  const plot = new Parallel(document.getElementById("comparison"), (n) => window.opened.push(n));
  await plot.update({ id: "x" }, { metric: "loss", lowest: true, best: 4, query: {} });
}"""
ON_LINE = """path => {
  const quarter = path.getPointAtLength(path.getTotalLength() / 4);
  const { x, y } = quarter.matrixTransform(path.getScreenCTM());
  return [x, y];
}"""


def test_axes_are_brushed_and_lines_opened(browser: Any) -> None:
    page = browser.new_page(bypass_csp=True)  # the test's own script imports the plot
    open_alone(page, "runs_compare.html", answers={"runs/x/values": VALUES})
    page.evaluate(DRAW)
    view = page.locator("#comparison")
    page.get_by_text("Filter lines").click()
    box = view.locator(".parallel-brush .overlay").first.bounding_box()
    middle = box["x"] + box["width"] / 2
    top, half, end = (box["y"] + box["height"] * share for share in (0.1, 0.6, 0.9))
    page.mouse.move(middle, top)
    page.mouse.down()
    page.mouse.move(middle, half, steps=5)
    page.mouse.up()
    expect(view).to_contain_text("6 of 11 points within the limits")
    expect(view.locator(".parallel-faint")).to_have_count(5)
    expect(page.get_by_label("rate, minimum")).not_to_have_value("")
    page.mouse.click(middle, end)
    expect(view).not_to_contain_text("within the limits")
    expect(page.get_by_label("rate, minimum")).to_have_value("")
    page.mouse.move(*view.locator(".parallel-lines path").nth(3).evaluate(ON_LINE))
    expect(view).to_contain_text("Point 3: rate 0.3, loss 1")
    page.mouse.down()
    page.mouse.up()
    assert page.evaluate("window.opened") == [3]
    page.close()
