"""Ranks on two nodes of the demo, as a data scientist follows them: a run from the page New run,
whose rank 3 fails, one with a bad node, and one of a cell."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from api_client import Caller
from hub_client import Person, wait_until, with_session
from jobs import nothing_left
from looks import check
from notebook_kernel import NotebookKernel
from sign_in import sign_in
from terminal import terminal

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect

LONG = 300_000  # milliseconds: jobs start, and the use of GPUs is measured once a minute
# The ranks add their numbers, by their own rendezvous; then rank 3 fails when the test says so.
FAILING = """
import os, socket, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    with socket.create_server(address) as server:
        others = [server.accept()[0] for _ in range(size - 1)]
    total = sum(other.recv(1)[0] for other in others)
    for other in others:
        other.sendall(bytes([total]))
else:
    while True:
        try:
            own = socket.create_connection(address)
            break
        except OSError:
            time.sleep(0.1)
    own.sendall(bytes([rank]))
    total = own.recv(1)[0]
print("rank", rank, "of", size, "has", total, flush=True)
def load_data():
    if rank == 3:
        raise ValueError("no data for rank 3")
while not os.path.exists("go"):
    time.sleep(0.2)
load_data()
time.sleep(600)
"""
NAME = "half-broken"
PYTHON = """#!/bin/bash
[ -z "$PORTAL_TEAM" ] || [ "$SLURMD_NODENAME" != gpu02 ] || exit 9
exec {good}/bin/python3 "$@"
"""
TRAINED = """
import os
from portal_train import train
def fit(x):
    print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])
    return x * 10
asked = dict(nodes=2, ranks=2, cpus=2, gpus=0, memory="512M", partition="cpu", time="0:10:00")
print(train(fit, 2, **asked))
"""


@pytest.fixture(scope="module")
def ada(demo: Any) -> Iterator[Person]:
    """Ada in a session, with a script whose rank 3 fails."""
    nothing_left(demo, "ada")
    person = Person(demo.url, "ada")
    for _ in with_session(person, {"environment": "python-venv", "gpus": 0, "time": "1:00:00"}):
        terminal(person, "rm -rf ranks; mkdir ranks")
        model = {"type": "file", "format": "text", "content": FAILING}
        assert person.session("PUT", "api/contents/ranks/failing.py", json=model).is_success
        yield person
    nothing_left(demo, "ada")


def test_a_run_of_ranks_from_the_page(demo: Any, ada: Person, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs/new")
    page.get_by_label("Notebook or script").fill("~/ranks/failing.py")
    expect(page.locator("#run-points")).to_have_text("1 point", timeout=LONG)
    page.get_by_label("Ranks on each node").fill("2")
    page.get_by_label("GPUs", exact=True).fill("2")
    page.get_by_text("More: CPUs").click()
    page.get_by_label("Nodes", exact=True).fill("2")
    page.get_by_label("CPUs", exact=True).fill("2")
    page.get_by_label("Memory", exact=True).fill("512M")
    expect(page.get_by_text("First point: ")).to_be_visible(timeout=LONG)
    page.get_by_role("button", name="Start run").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("failing", timeout=LONG)
    expect(page.locator("#run")).to_contain_text("Ranks on each node2")
    page.get_by_role("button", name="Point 0", exact=True).click()
    panel = page.get_by_role("region", name="Point 0", exact=True)
    log = panel.get_by_role("region", name="Output", exact=True)
    expect(log).to_contain_text("rank 0 of 4 has 6", timeout=LONG)
    panel.get_by_label("Rank", exact=True).select_option("Rank 3")
    expect(log).to_contain_text("rank 3 of 4 has 6", timeout=LONG)
    plot = panel.locator("canvas").first
    each = re.compile(
        r"^GPU utilisation, each GPU\.( gpu\d+:\d+: last \d+ %, maximum \d+ %[;.]){4}$"
    )
    expect(plot).to_have_attribute("aria-label", each, timeout=LONG)
    names = re.findall(r"(gpu\d+):\d+:", plot.get_attribute("aria-label"))
    assert len(set(names)) == 2 and names[0] == names[1], names
    check(page, "run-of-ranks")

    terminal(ada, "touch ranks/go")
    message = panel.locator(".point-message")
    failed = re.compile(r"^Rank 3 on gpu\d+: ValueError: no data for rank 3 \(exit code 1\)$")
    expect(message).to_have_text(failed, timeout=LONG)
    panel.get_by_label("Rank", exact=True).select_option("Rank 0")
    expect(log).to_contain_text("Rank 3 failed first", timeout=LONG)
    expect(log).to_contain_text("in load_data")
    expect(log).to_contain_text("ValueError: no data for rank 3")
    check(page, "run-of-ranks-failed")


@pytest.fixture
def half_broken(demo: Any) -> Iterator[str]:
    """Name of an environment that does not start the ranks on gpu02."""
    with Caller(demo.url, "grace") as grace:
        good = Path(grace.get("environments/python-venv").json()["path"])
        place = demo.home.demo / NAME
        (place / "bin").mkdir(mode=0o755, parents=True)
        for program in (good / "bin").iterdir():
            (place / "bin" / program.name).symlink_to(program)
        for name in ("python", "python3"):
            (place / "bin" / name).unlink(missing_ok=True)
            (place / "bin" / name).write_text(PYTHON.format(good=good))
            (place / "bin" / name).chmod(0o755)
        file = demo.environments / f"{NAME}.yaml"
        file.write_text(f"name: {NAME}\ntitle: Half broken\nkind: venv\npath: {place}\n")
        try:
            wait_until(
                "the environment is offered",
                lambda: f'"name":"{NAME}"' in grace.get("environments").text,
            )
            yield NAME
        finally:
            file.unlink()
            shutil.rmtree(place)


def test_a_bad_node_is_named_and_excluded(
    demo: Any, ada: Person, half_broken: str, page: Any
) -> None:
    text = "import os\nprint('on', os.environ['SLURMD_NODENAME'], flush=True)\n"
    model = {"type": "file", "format": "text", "content": text}
    assert ada.session("PUT", "api/contents/ranks/excluded.py", json=model).is_success
    asked = f"--environment {half_broken} --partition gpu --gpus 1 --nodes 2 --cpus 1 --memory 512M"
    said = terminal(ada, f"portal-run ranks/excluded.py {asked}")
    assert "Run 'excluded': 1 point" in said, said
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs")
    page.locator("#list").get_by_role("link", name="excluded", exact=True).click()
    unfit = "gpu02 is unfit: the environment does not start there (exit code 9). The point starts"
    expect(page.locator("#list")).to_contain_text(
        f"{unfit} again without it (1 of 2).", timeout=LONG
    )
    expect(page.locator("#run")).to_contain_text("1 succeeded", timeout=LONG)
    assert "gpu02" not in terminal(ada, "cat ranks/runs/excluded/0000-2/*.log")


def trained(ada: Person) -> str:
    """Call a function in all ranks from a cell; return what the cell prints."""
    kernel = NotebookKernel.start(ada)
    try:
        kernel.install("cloudpickle")
        ran = kernel.run(TRAINED, 180)
        assert ran.status == "ok", ran
        return ran.printed
    finally:
        kernel.shut_down()


def test_a_cell_calls_a_function_in_all_ranks(demo: Any, ada: Person, page: Any) -> None:
    with ThreadPoolExecutor(1) as beside:  # the browser has this thread's event loop
        assert beside.submit(trained, ada).result() == "rank 0 of 4\n20\n"
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs")
    page.locator("#list").get_by_role("link", name=re.compile("^fit")).first.click()
    expect(page.locator("#run")).to_contain_text("1 succeeded", timeout=LONG)
