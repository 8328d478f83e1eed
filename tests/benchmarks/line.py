"""JupyterLab's page on a slow line, which Chromium plays, beside the same JupyterLab served plain:
no portal-session in its server, and no extension in its page."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator

from playwright.sync_api import Browser, BrowserContext, sync_playwright

from portal.demo.daemons.ports import free_port

from .cluster import Cluster, NotMeasured, wait_for
from .lab import PATIENCE, RESOURCES, WHO, answers, server_by_hand, shipped, submit_by_hand
from .page import FLAGS, PROGRAM
from .paint import usable
from .report import Row

TIMES = 5
WHAT = "JupyterLab's page in Chromium, until it is usable"
_LINE = {"offline": False, "latency": 40, "downloadThroughput": 2.5e6, "uploadThroughput": 2.5e6}
VISITS = {  # of a visit, with the most seconds it may take
    (False, 1): ("on loopback, first visit", 3.0),
    (True, 1): ("20 Mbit/s and 40 ms, first visit", 3.5),
    (True, 2): ("20 Mbit/s and 40 ms, second visit", 3.0),
}
_BASE = f"/user/{WHO}/"


def measure(cluster: Cluster) -> list[Row]:
    """The rows; the two servers take turns, after one visit each that warms the caches of the
    machine and of the server."""
    if not PROGRAM:
        raise NotMeasured("no chromium on this machine")
    seconds: dict[str, dict[tuple[bool, int], list[float]]] = {"portal": {}, "plain": {}}
    with (
        server_by_hand(cluster) as (ours, _),
        _plain_server(cluster) as plain,
        sync_playwright() as started,
    ):
        browser = started.chromium.launch(executable_path=PROGRAM, args=FLAGS)
        for turn in range(-1, TIMES):
            for name, url in (("portal", ours), ("plain", plain)):
                for slow in (False, True):
                    for number, took in enumerate(_visits(browser, url, slow), start=1):
                        if turn >= 0:
                            seconds[name].setdefault((slow, number), []).append(took)
        browser.close()
    for name, found in seconds.items():
        for (slow, number), values in found.items():
            words = ", ".join(f"{value:.2f}" for value in values)
            print(f"  {name}, {'line' if slow else 'loopback'}, visit {number}: {words} s")
    return [
        Row(
            f"{WHAT}: {words}",
            value := statistics.median(seconds["portal"][visit]),
            "s",
            "served plain",
            statistics.median(seconds["plain"][visit]),
            goal=f"at most {most:g} s",
            met=value <= most,
        )
        for visit, (words, most) in VISITS.items()
    ]


def _visits(browser: Browser, url: str, slow: bool) -> list[float]:
    """Seconds of the first and of the second visit of a browser that has never been there."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    try:
        return [_visit(context, url, slow) for _ in range(2)]
    finally:
        context.close()


def _visit(context: BrowserContext, url: str, slow: bool) -> float:
    page = context.new_page()
    if slow:
        tools = context.new_cdp_session(page)
        tools.send("Network.enable")
        tools.send("Network.emulateNetworkConditions", _LINE)
    began = time.monotonic()
    page.goto(f"{url}lab?token=none", wait_until="commit")
    usable(page)
    seconds = time.monotonic() - began
    page.wait_for_timeout(1500)  # what comes after belongs to this visit
    page.close()
    return seconds


@contextlib.contextmanager
def _plain_server(cluster: Cluster) -> Iterator[str]:
    """JupyterLab of the same image, as ``jupyter lab`` starts it: its address."""
    port = free_port()
    server = [
        *("python3", "-I", "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", f"--port={port}"),
        *("--ServerApp.port_retries=0", f"--ServerApp.base_url={_BASE}"),
        *("--IdentityProvider.token=none", "--LabApp.labextensions_path=[]"),
        "--ServerApp.jpserver_extensions=portal_session=False",
    ]
    wanted = {**RESOURCES, "gpus": 0}
    job = submit_by_hand(cluster, WHO, shipped(cluster), wanted, server=server)
    try:
        url = f"http://127.0.0.1:{port}{_BASE}"
        wait_for("the plain server", lambda: answers(f"{url}api"), PATIENCE, 0.1)
        yield url
    finally:
        cluster.run("scancel", job)
