"""Pages that are open while a part of the portal is away: the Hub with the web service, or Slurm.
Each says so in a sentence, and goes on by itself."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from api_client import Caller
from hub_client import Person, wait_until, with_session
from jobs import living_jobs, squeue
from looks import take_picture, violations
from outages import without
from sign_in import sign_in

from portal.work.run.kind import Run

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect
pytestmark = pytest.mark.usefixtures("unharmed")

WHO = "student21"
CPUS = {"environment": "python-venv", "gpus": 0, "cpus": 1, "memory": "2G", "time": "0:40:00"}
PAGES = {"home": "#home .part", "runs": "#list", "": "#history-words:not(:empty)"}
CLUSTER = ""  # its address
NOTICED = 120_000  # milliseconds: the slowest page asks each minute
BACK = 180_000
TROUBLE = "#troubles .trouble"


@pytest.fixture
def pages(demo: Any, page: Any) -> Iterator[dict[str, Any]]:
    """The pages by name, open side by side, each with a mark that a reload would remove."""
    sign_in(page, demo.url, WHO)
    opened: dict[str, Any] = {}
    for name, shown in PAGES.items():
        at = opened[name] = page.context.new_page()
        at.on("pageerror", lambda error: page.errors.append(str(error)))
        at.goto(f"{demo.url}/services/portal/{name}")
        expect(at.locator(shown).first).to_be_visible()
        expect(at.locator(TROUBLE)).to_have_count(0)
        at.evaluate("window.mark = 1")
    yield opened
    for at in opened.values():
        at.close()


def all_say(pages: dict[str, Any], words: str, about: str) -> None:
    for name, at in pages.items():
        trouble = at.locator(TROUBLE).first
        expect(trouble).to_contain_text(re.compile(words), timeout=NOTICED)
        take_picture(at, f"{about}-{name or 'cluster'}")
        assert violations(at, "#troubles") == []


def all_are_back(pages: dict[str, Any]) -> None:
    for at in pages.values():
        expect(at.locator(TROUBLE)).to_have_count(0, timeout=BACK)
        expect(at.locator("main [aria-busy=true]:visible")).to_have_count(0)


def test_the_hub_is_killed(demo: Any, pages: dict[str, Any]) -> None:
    with without(demo, "hub", "kill"):
        all_say(pages, "does not answer|connection to the portal is lost", "hub-killed")
    all_are_back(pages)
    expect(pages[CLUSTER].locator("#history-words")).to_contain_text("Select a name", timeout=BACK)


@contextlib.contextmanager
def hung(demo: Any) -> Iterator[None]:
    """slurmctld takes connections, and does not answer them."""
    pid = int((demo.home.run / "slurmctld.process").read_text().split()[0])
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_slurm_hangs(demo: Any, pages: dict[str, Any]) -> None:
    home, cluster = pages["home"], pages[CLUSTER]
    with hung(demo):
        old = re.compile("does not answer.* ago", re.DOTALL)
        expect(cluster.locator(TROUBLE).first).to_contain_text(old, timeout=NOTICED)
        gpus = home.locator("#home-gpus")
        expect(gpus).to_contain_text(re.compile("as of|does not answer"), timeout=NOTICED)
        expect(gpus.locator("li").first).to_contain_text("free")  # what was known stays
        for name, at in pages.items():
            take_picture(at, f"slurm-hangs-{name or 'cluster'}")
    all_are_back(pages)
    assert all(at.evaluate("window.mark") == 1 for at in pages.values()), "loaded again"
    expect(gpus).not_to_contain_text(re.compile("as of|does not answer"), timeout=BACK)


@pytest.fixture
def owner(demo: Any) -> Iterator[Person]:
    someone = Person(demo.url, WHO)
    for _ in with_session(someone, CPUS):
        file = {"type": "file", "format": "text", "content": "import time\ntime.sleep(300)\n"}
        made = someone.session("PUT", "api/contents/slow.py", json=file)
        assert made.status_code in (200, 201), made.text
        yield someone


def runs(demo: Any, name: str) -> list[Any]:
    """The runs that the portal has of this name, and with a number after it."""
    with Caller(demo.url, WHO) as caller:
        items = caller.get("runs").json()["items"]
    return [run for run in items if run["name"].startswith(name)]


def take_late(demo: Any, server: str, sessions: set[str]) -> None:
    """Submit what a killed Hub's sbatch for this server leaves: a job with its mark, and a log of
    the Hub's: that of ``sessions``, since only the Hub makes one."""
    about = squeue(demo, f"--jobs={','.join(sessions)}", "--Format=STDOUT:500").split()[0]
    log = f"--output={about}"
    mark = f"--comment=portal:python-venv:{server}"
    asked = ["--cpus-per-task=1", "--mem=100M", "--time=10", "--wrap=sleep 300"]
    demo.run(
        ["sbatch", mark, log, "--open-mode=append", "--chdir=/tmp", *asked], user=demo.user(WHO)
    )


def test_a_run_is_started_once_although_its_answer_is_lost(
    demo: Any, owner: Person, page: Any
) -> None:
    """The Hub is killed while Slurm hangs; its sbatch gets through after that."""
    name = f"slow-{secrets.token_hex(3)}"
    before = {job.id.split("_")[0] for job in living_jobs(demo, WHO)}
    sign_in(page, demo.url, WHO)
    page.goto(f"{demo.url}/services/portal/runs/new")
    page.get_by_label("Notebook or script").fill("~/slow.py", timeout=60_000)
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_text("More: ").click()
    for label, value in {"GPUs": "0", "CPUs": "1", "Memory": "512M"}.items():
        page.get_by_label(label, exact=True).fill(value)
    expect(page.locator("#run-points")).to_have_text("1 point")
    start, alert = page.get_by_role("button", name="Start run"), page.locator("#run-alert")
    with hung(demo):
        with page.expect_request("**/ask/start"):
            start.click()
        (run,) = wait_until("the portal has the run", lambda: runs(demo, name))
        demo.control("kill", "hub")

    def jobs() -> set[str]:
        return {job.id.split("_")[0] for job in living_jobs(demo, WHO)} - before

    try:
        take_late(demo, Run.server_name(run["id"]), before)
        late = wait_until("Slurm has a job that no Hub knows", jobs)
        expect(alert).to_contain_text("Whether the run has started is not known.", timeout=60_000)
        assert violations(page, "#new-run") == []
    finally:
        demo.control("start", "hub")  # the next tests need it
    # The restarted Hub wants a new login, which asks nothing.
    expect(alert).to_be_visible()
    wait_until("the Hub is back", lambda: page.reload().status == 200)
    expect(page.get_by_role("heading", level=1)).to_have_text(name, timeout=60_000)
    assert len(runs(demo, name)) == 1
    wait_until("its job is there", lambda: jobs() - late)
    assert len(jobs()) == 1
    with Caller(demo.url, WHO) as caller:
        assert caller.delete(f"runs/{runs(demo, name)[0]['id']}").status_code == 200
