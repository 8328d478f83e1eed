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
from frameworks import python_of
from hub_client import Person, with_session
from jobs import nothing_left
from looks import check
from mpich_memory import no_memory_of_mpich
from notebook_kernel import NotebookKernel
from sign_in import sign_in
from terminal import terminal
from venv_environment import joined_venv, offered, packages_of, usual_venv

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect

LONG = 300_000  # milliseconds: jobs start, and the use of GPUs is measured once a minute
# PyTorch and MPI both add the ranks' numbers, and DDP gives all the weights of rank 0. Two nodes of
# one machine share /dev/shm, in which MPICH's ranks of each would take the same names.
TOGETHER = """
import os
os.environ["MPIR_CVAR_NOLOCAL"] = "1"
import torch
import torch.distributed as dist
from mpi4py import MPI
from torch.nn.parallel import DistributedDataParallel
def step():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), MPI.COMM_WORLD
    assert (rank, dist.get_world_size()) == (world.rank, world.size)
    torch.manual_seed(rank)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    own = torch.cat([part.detach().flatten() for part in model.parameters()])
    weights = [torch.zeros_like(own) for _ in range(world.size)]
    dist.all_gather(weights, own)
    total = torch.tensor([rank])
    dist.all_reduce(total)
    same = all(torch.equal(own, other) for other in weights)
    return f"rank {rank} of {world.size}: {int(total)} {world.allreduce(rank)} {same}"
"""
# Then rank 3 fails when the test says so.
FAILING = f"""{TOGETHER}
import time
print(step(), flush=True)
def load_data():
    if os.environ["RANK"] == "3":
        raise ValueError("no data for rank 3")
while not os.path.exists("go"):
    time.sleep(0.2)
load_data()
time.sleep(600)
"""
TRAINED = f"""{TOGETHER}
from portal_train import train
asked = dict(nodes=2, ranks=2, cpus=2, gpus=0, memory="1500M", partition="cpu", time="0:10:00")
print(train(step, **asked))
"""
RANKS = "ranks"
DEBIANS = Path("/usr/lib/python3/dist-packages")  # PyTorch
NAME = "half-broken"
PYTHON = """#!/bin/bash
[ -z "$PORTAL_TEAM" ] || [ "$SLURMD_NODENAME" != gpu02 ] || exit 9
exec {good}/bin/python3 "$@"
"""


@pytest.fixture(scope="module")
def environment(demo: Any) -> Iterator[str]:
    """An environment with PyTorch and MPI."""
    own = python_of(RANKS).parents[1]
    place = joined_venv(demo.home.demo / RANKS, usual_venv(demo), packages_of(own), DEBIANS)
    for library in own.glob("lib/*mpi*"):  # MPICH, where mpi4py looks for it
        (place / "lib" / library.name).symlink_to(library)
    with no_memory_of_mpich(), offered(demo, RANKS, place, title="PyTorch and MPI"):
        yield RANKS


@pytest.fixture(scope="module")
def ada(demo: Any, environment: str) -> Iterator[Person]:
    """Ada in a session, with a script whose rank 3 fails."""
    nothing_left(demo, "ada")
    person = Person(demo.url, "ada")
    for _ in with_session(person, {"environment": environment, "gpus": 0, "time": "1:00:00"}):
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
    page.get_by_label("Environment").select_option(label="PyTorch and MPI")
    page.get_by_label("Ranks on each node").fill("2")
    page.get_by_label("GPUs", exact=True).fill("2")
    page.get_by_text("More: CPUs").click()
    page.get_by_label("Nodes", exact=True).fill("2")
    page.get_by_label("CPUs", exact=True).fill("2")
    page.get_by_label("Memory", exact=True).fill("1500M")
    expect(page.get_by_text("First point: ")).to_be_visible(timeout=LONG)
    page.get_by_role("button", name="Start run").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("failing", timeout=LONG)
    expect(page.locator("#run")).to_contain_text("Ranks on each node2")
    page.get_by_role("button", name="Point 0", exact=True).click()
    panel = page.get_by_role("region", name="Point 0", exact=True)
    log = panel.get_by_role("region", name="Output", exact=True)
    expect(log).to_contain_text("rank 0 of 4: 6 6 True", timeout=LONG)
    panel.get_by_label("Rank", exact=True).select_option("Rank 3")
    expect(log).to_contain_text("rank 3 of 4: 6 6 True", timeout=LONG)
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
    good, place = usual_venv(demo), demo.home.demo / NAME
    (place / "bin").mkdir(mode=0o755, parents=True)
    for program in (good / "bin").iterdir():
        (place / "bin" / program.name).symlink_to(program)
    for name in ("python", "python3"):
        (place / "bin" / name).unlink(missing_ok=True)
        (place / "bin" / name).write_text(PYTHON.format(good=good))
        (place / "bin" / name).chmod(0o755)
    try:
        with offered(demo, NAME, place, title="Half broken"):
            yield NAME
    finally:
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
        ran = kernel.run(TRAINED, 180)
        assert ran.status == "ok", ran
        return ran.printed
    finally:
        kernel.shut_down()


def test_a_cell_calls_a_function_in_all_ranks(demo: Any, ada: Person, page: Any) -> None:
    with ThreadPoolExecutor(1) as beside:  # the browser has this thread's event loop
        assert beside.submit(trained, ada).result() == "rank 0 of 4: 6 6 True\n"
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}/services/portal/runs")
    page.locator("#list").get_by_role("link", name=re.compile("^step")).first.click()
    expect(page.locator("#run")).to_contain_text("1 succeeded", timeout=LONG)
