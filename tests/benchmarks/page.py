"""The cluster page in a real browser on a synthetic cluster: time until the grid is painted,
scrolling, and cost of a refresh. All figures are from the browser's performance API."""

from __future__ import annotations

import contextlib
import mimetypes
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jupyterhub._data import DATA_FILES_PATH
from playwright.sync_api import Page, sync_playwright

from tests.support.pages.chromium import PROGRAM

from .cluster import NotMeasured
from .report import Row
from .synthetic_service import ADMIN_TOKEN, Service, synthetic_service

NODES, JOBS = 1000, 10_000
VISITS = 3
WHAT = f"The cluster page in Chromium, {NODES} synthetic nodes, {8 * NODES} GPUs"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]

# Milliseconds since the navigation began; the grid's are from the board's arrival on.
_MARKS = """() => {
  const at = (name) => performance.getEntriesByName(name).at(-1)?.startTime;
  const board = performance.getEntriesByType("resource").find((e) => e.name.endsWith("/board"));
  return {
    first_paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
    board_asked: board?.startTime, board_there: at("portal-board"),
    grid_there: at("portal-grid") ?? null,
    board_bytes: board?.transferSize,
    cells: document.querySelectorAll("#grid .gpu").length,
  };
}"""

# Scrolls from the top of the grid to its end (0: not at all) in two seconds; the times between
# frames.
_SCROLL = """(share) => new Promise((resolve) => {
  const place = document.querySelector(".nodes-scroll");
  const most = place.scrollHeight - place.clientHeight, began = performance.now(), gaps = [];
  let last = began;
  const step = (now) => {
    gaps.push(now - last); last = now;
    const part = Math.min(1, (now - began) / 2000);
    place.scrollTop = share * part * most;
    part < 1 ? requestAnimationFrame(step) : resolve({ height: most, gaps: gaps.slice(1) });
  };
  requestAnimationFrame(step);
})"""

# The longest time for which the page did not answer while events came in.
_TASKS = """(wait) => new Promise((resolve) => {
  const long = [];
  const seen = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) long.push(entry.duration);
  });
  seen.observe({ type: "longtask" });
  setTimeout(() => { seen.disconnect(); resolve(long); }, wait);
})"""


def measure() -> list[Row]:
    """Return the rows; takes a minute."""
    if not PROGRAM:
        raise NotMeasured("no chromium on this machine")
    with synthetic_service(NODES, JOBS, telemetry="simulated") as service:
        visits = [visit(service, watch=5) for _ in range(VISITS - 1)]
        visits.append(visit(service, watch=20))
    middle = {name: statistics.median(figures[name] for figures in visits) for name in visits[0]}
    frames = middle["frames_per_second"]
    return [
        Row(
            f"{WHAT}: the grid is painted after the board came",
            middle["grid"],
            "ms",
            goal="under 1000",
            met=middle["grid"] < 1000,
        ),
        Row(f"{WHAT}: from the click to the painted grid", middle["open"], "ms"),
        Row(
            f"{WHAT}: frames while scrolling through {middle['scroll_px']:.0f} px in 2 s",
            frames,
            "a second",
            floor_value=middle["idle_frames"],
            goal="30 or more",
            met=frames >= 30,
        ),
        Row(f"{WHAT}: the longest task of a refresh", visits[-1]["longest_task"], "ms"),
    ]


def visit(service: Service, watch: float) -> dict[str, float]:
    """Open the page, wait for the grid, scroll, and watch ``watch`` seconds of refreshes.

    Return times in milliseconds: ``grid`` from the board's arrival to the painted grid, ``open``
    from the navigation to it. Raises NotMeasured if the grid does not appear.
    """
    with opened(service.url) as page:
        # wait_for_function() uses eval, which the page's policy forbids.
        for _ in range(600):
            marks = page.evaluate(_MARKS)
            if marks["grid_there"]:
                break
            page.wait_for_timeout(100)
        else:
            raise NotMeasured("the grid did not come")
        page.wait_for_timeout(2000)
        idle = page.evaluate(_SCROLL, 0)
        scroll = page.evaluate(_SCROLL, 1)
        tasks = page.evaluate(_TASKS, watch * 1000)
    if marks["cells"] != 8 * NODES:
        raise NotMeasured(f"{marks['cells']} GPUs stand on the page")
    return {
        "grid": marks["grid_there"] - marks["board_there"],
        "open": marks["grid_there"],
        "scroll_px": scroll["height"],
        "frames_per_second": len(scroll["gaps"]) / 2,
        "idle_frames": len(idle["gaps"]) / 2,
        "longest_task": max(tasks, default=0.0),
    }


@contextlib.contextmanager
def opened(address: str) -> Iterator[Page]:
    """Open a page of the service as an admin, in a browser that lives while the block runs."""
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=PROGRAM, args=FLAGS)
        page = browser.new_page(
            viewport={"width": 1400, "height": 900},
            extra_http_headers={"Authorization": f"token {ADMIN_TOKEN}"},
        )
        page.route("**/hub/static/**", hubs_own)
        page.goto(address)
        yield page
        browser.close()


def hubs_own(route: Any) -> None:
    """Serve JupyterHub's own styles and scripts in place of a Hub."""
    path = Path(DATA_FILES_PATH) / "static" / route.request.url.split("/hub/static/")[1]
    path = Path(str(path).split("?")[0])
    kind = mimetypes.guess_type(path)[0] or "text/plain"
    route.fulfill(path=path, content_type=kind)
