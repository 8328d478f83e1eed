"""The five main pages in a real browser, at a first visit: what they load, when something is
painted, and how far they shift meanwhile. All figures are from the browser's performance API."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Browser, Playwright, sync_playwright

from tests.support.demo.hub_client import PASSWORD

from .cluster import Cluster, NotMeasured
from .page import FLAGS, PROGRAM
from .report import Row

WHO = "ada"
VISITS = 5
WHAT = "A first visit in Chromium"
PAGES = {
    "Home": "/services/portal/home",
    "the launch page": "/hub/spawn",
    "Sessions": "/services/portal/sessions",
    "Runs": "/services/portal/runs",
    "Cluster": "/services/portal/",
}
_SETTLED = 2000  # milliseconds after the page has loaded, in which its scripts fill it
_MOST_SHIFT = 0.05  # web.dev/articles/cls calls 0.1 good

# Of one visit: milliseconds since the navigation began, kB and number of what it loaded, and the
# sum of the layout shifts.
_FIGURES = """() => new Promise((resolve) => {
  let shift = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) shift += entry.value;
  }).observe({ type: "layout-shift", buffered: true });
  setTimeout(() => {
    const loaded = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
    resolve({
      paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0,
      bytes: loaded.reduce((sum, entry) => sum + entry.transferSize, 0) / 1000,
      requests: loaded.length,
      shift,
    });
  }, 0);
})"""  # noqa: E501


def measure(cluster: Cluster) -> list[Row]:
    """Return the rows: medians of VISITS, each with an empty cache."""
    if not PROGRAM:
        raise NotMeasured("no chromium on this machine")
    url = str(cluster.state["url"])
    with sync_playwright() as started:
        with _browser(started) as browser:
            state = _login(browser, url)
        rows = []
        for name, path in PAGES.items():
            rows += _rows(name, [_visit(started, url + path, state) for _ in range(VISITS)])
    return rows


@contextlib.contextmanager
def _browser(started: Playwright) -> Iterator[Browser]:
    browser = started.chromium.launch(executable_path=PROGRAM, args=FLAGS)
    try:
        yield browser
    finally:
        browser.close()


def _login(browser: Browser, url: str) -> Any:
    page = browser.new_page()
    page.goto(f"{url}/hub/login")
    page.get_by_label("User name").fill(WHO)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/hub/**")
    return page.context.storage_state()


def _visit(started: Playwright, address: str, state: Any) -> dict[str, float]:
    """Return the figures of a visit, in a browser of its own: contexts of one browser share files
    in its memory."""
    with _browser(started) as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 800}, storage_state=state)
        page = context.new_page()
        page.goto(address, wait_until="load")
        page.wait_for_timeout(_SETTLED)
        figures: dict[str, float] = page.evaluate(_FIGURES)
    return figures


def _rows(name: str, visits: list[dict[str, float]]) -> list[Row]:
    def median(figure: str) -> float:
        return statistics.median(visit[figure] for visit in visits)

    shift, what = median("shift"), f"{WHAT}: {name}"
    return [
        Row(f"{what}, first paint", median("paint"), "ms"),
        Row(f"{what}, transferred in {median('requests'):.0f} requests", median("bytes"), "kB"),
        Row(
            *(f"{what}, layout shift", shift, ""),
            goal=f"under {_MOST_SHIFT}",
            met=shift < _MOST_SHIFT,
        ),
    ]
