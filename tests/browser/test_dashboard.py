"""The dashboard in a real browser on the real demo: what it shows, what it lets whom do, and how it
goes on through breaks. Pictures of all pages go to build/screenshots/."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from chromium import SOON
from hub_client import Person, wait_until
from jobs import job_state, living_jobs
from looks import check, take_picture
from menu_items import menu_item
from nodes import reason_of, set_level
from sign_in import sign_in

from portal.models.scope import ANNOUNCEMENTS_MANAGE, AUDIT_READ, right

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect
pytestmark = pytest.mark.usefixtures("unharmed")

PORTAL = "/services/portal/"


@pytest.fixture
def submit(demo: Any) -> Iterator[Callable[..., str]]:
    """Submits a job as someone; all of them are cancelled at the end."""
    jobs: list[str] = []

    def job(user: str, *words: str, wait: bool = True) -> str:
        argv = ["sbatch", "--parsable", "--time=10", *words, "--wrap=sleep 600"]
        jobs.append(demo.run(argv, user=demo.user(user)).stdout.strip())
        if wait:
            wait_until("the job runs", lambda: job_state(demo, jobs[-1]) == "RUNNING")
        return jobs[-1]

    yield job
    demo.run(["scancel", *jobs], check=False) if jobs else None
    wait_until("no job is left", lambda: not any(job_state(demo, id_) for id_ in jobs))


def another(page: Any) -> Any:
    """A page in a browser of somebody else's."""
    context = page.context.browser.new_context()
    context.set_default_timeout(SOON)
    return context.new_page()


def visit(page: Any, demo: Any, path: str = "") -> None:
    page.goto(f"{demo.url}{PORTAL}{path}")


def cluster(page: Any, demo: Any, name: str, query: str = "") -> None:
    """The cluster page as this person, live."""
    sign_in(page, demo.url, name)
    visit(page, demo, query)
    expect(page.locator("#fresh")).to_contain_text("Live")


def gpus_of(page: Any, job: str) -> Any:
    """The cells of the GPUs that a job holds."""
    return page.locator(f"#grid .gpu[aria-label*='job {job}']")


def row_of(page: Any, job: str) -> Any:
    return page.locator(f"#jobs tr[data-key='{job}']")


def confirm(page: Any, button: str) -> None:
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name=button, exact=True).click()
    expect(dialog).to_have_count(0)


def test_a_job_appears_on_the_grid_and_goes(demo: Any, page: Any, submit: Any) -> None:
    cluster(page, demo, "grace")
    job = submit("barbara", "--gres=gpu:t4:2", "--job-name=<img src=x onerror=window.hacked=1>")
    cells = gpus_of(page, job)
    expect(cells).to_have_count(2)
    owner = "barbara" if demo.people else demo.words["account"]
    # Which ones, whose it is and what for stands in the table and at each GPU.
    row = row_of(page, job)
    expect(row).to_contain_text("<img src=x")
    expect(row).to_contain_text(owner)
    expect(row).to_contain_text("GPU 0\N{EN DASH}1")
    expect(row.locator(".cell-left")).to_contain_text("of 10 min")
    cells.first.hover()
    expect(page.locator("#panel")).to_contain_text(owner)
    expect(page.locator("#panel")).to_contain_text("Utilisation")
    if demo.words["simulated_gpus"]:
        expect(page.locator("#panel .portal-simulated")).to_have_text("simulated readings")
        expect(page.locator("#simulated")).to_be_visible()
    # Time passes without anyone asking for it.
    used = row.locator(".cell-used .first")
    before = used.inner_text()
    expect(used).not_to_have_text(before)
    demo.run(["scancel", job])
    expect(gpus_of(page, job)).to_have_count(0)
    expect(row_of(page, job)).to_have_count(0)
    assert page.evaluate("window.hacked") is None


def test_the_grid_by_keyboard(demo: Any, page: Any) -> None:
    cluster(page, demo, "grace")
    page.locator("#filter-user").focus()
    page.keyboard.press("Tab")
    while "csv" in (page.evaluate("document.activeElement.className") or ""):
        page.keyboard.press("Tab")
    focused = page.locator(":focus")
    expect(focused).to_have_attribute("data-key", "gpu01")
    page.keyboard.press("ArrowRight")
    expect(focused).to_have_attribute("data-key", "gpu01/0")
    expect(focused).to_have_attribute("aria-label", re.compile("GPU 0: "))
    expect(page.locator("#panel")).to_contain_text("gpu01 · GPU 0")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    expect(focused).to_have_attribute("data-key", "gpu02")
    page.keyboard.press("Home")
    page.keyboard.press("End")
    expect(focused).to_have_attribute("data-key", "gpu02/3")
    page.keyboard.press("Control+Home")
    page.keyboard.press("ArrowDown")
    below = focused.get_attribute("data-key")
    assert below and below.startswith("gpu0") and below != "gpu01"
    page.keyboard.press("Enter")
    expect(page.locator("#panel")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Close the details")).to_be_focused()
    page.keyboard.press("Escape")
    expect(focused).to_have_attribute("data-key", below)
    assert page.locator("#grid [tabindex='0']").count() == 1  # one stop for Tab


def test_filters_narrow_grid_and_jobs_and_stay_in_the_address(
    demo: Any, page: Any, submit: Any
) -> None:
    job = submit("barbara", "--gres=gpu:v100:1", "--job-name=filtered")
    other = submit("ada", "--gres=gpu:t4:1", "--job-name=other")
    cluster(page, demo, "grace")
    expect(page.locator("#nodes-count")).to_have_text("8 nodes")
    # Not by the job's id: on a young cluster that is a digit, which nodes have in their names.
    who = "barbara" if demo.people else job
    page.get_by_label("Search").fill(who)
    expect(page.locator("#nodes-count")).to_have_text("1 of 8 nodes")
    expect(row_of(page, job)).to_be_visible()
    expect(row_of(page, other)).to_have_count(0)
    assert f"text={who}" in page.url
    page.reload()
    expect(page.locator("#nodes-count")).to_have_text("1 of 8 nodes")
    expect(page.get_by_label("Search")).to_have_value(who)
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#nodes-count")).to_have_text("8 nodes")
    assert "text=" not in page.url
    page.get_by_label("GPU type").select_option("t4")
    expect(page.locator("#nodes-count")).to_have_text("2 of 8 nodes")
    expect(row_of(page, other)).to_be_visible()
    expect(row_of(page, job)).to_have_count(0)
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("button", name=re.compile("free$")).click()
    assert "state=free" in page.url
    expect(gpus_of(page, job).first).to_have_class(re.compile("gpu-other"))
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("button", name="Waiting").click()
    expect(page.locator("#jobs-empty")).to_have_text("No jobs match these filters.")
    page.get_by_role("button", name="Running").click()
    page.get_by_role("button", name="Job", exact=True).click()
    expect(page.locator("th[aria-sort]")).to_have_attribute("aria-sort", "ascending")
    in_order = f"#jobs tr[data-key='{job}'] ~ tr[data-key='{other}']"
    expect(page.locator(in_order)).to_have_count(1)
    if demo.people:
        page.get_by_label("User").fill("barbara")
        expect(row_of(page, other)).to_have_count(0)
        expect(row_of(page, job)).to_be_visible()
        expect(page.locator("#nodes-count")).to_have_text("1 of 8 nodes")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the jobs").click()
    text = download.value.path().read_text()
    assert "filtered" in text
    assert not demo.people or "other" not in text  # the file is filtered too


def test_a_job_is_cancelled_after_a_question(demo: Any, page: Any, submit: Any) -> None:
    job = submit("ada", "--gres=gpu:v100:1", "--job-name=mine")
    cluster(page, demo, "ada" if demo.people else "grace")
    row = row_of(page, job)
    if demo.people:
        expect(row).to_contain_text("ada (you)")
    cancel = row.get_by_role("button", name=f"Cancel job {job}")
    cancel.click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(cancel).to_be_focused()
    assert job_state(demo, job) == "RUNNING"
    cancel.click()
    confirm(page, "Cancel job")
    expect(page.locator("#board-status")).to_contain_text(f"Job {job} is being cancelled")
    expect(row).to_have_count(0)
    wait_until("Slurm has cancelled it", lambda: job_state(demo, job) != "RUNNING")


def test_a_waiting_job_is_held_and_released(demo: Any, page: Any, submit: Any) -> None:
    job = submit("barbara", "--gres=gpu:t4:1", "--begin=now+1hour", wait=False)
    cluster(page, demo, "grace")
    row = row_of(page, job)
    row.get_by_role("button", name=f"Hold job {job}").click()
    confirm(page, "Hold")
    expect(row.locator(".state-held")).to_be_visible()
    row.get_by_role("button", name=f"Release job {job}").click()
    confirm(page, "Release")
    expect(row.locator(".state-waits")).to_be_visible()


def test_ada_sees_nothing_of_others(demo: Any, page: Any, submit: Any) -> None:
    if not demo.people:
        pytest.skip("needs the root form: two people with accounts of their own")
    job = submit("barbara", "--gres=gpu:v100:2", "--job-name=secret-project")
    own = submit("ada", "--gres=gpu:t4:1", "--job-name=my-project")
    told: list[str] = []

    def keep(answer: Any) -> None:
        if "/api/v1/" in answer.url and "/events" not in answer.url:
            told.append(answer.text())

    page.on("requestfinished", lambda request: keep(request.response()))
    cluster(page, demo, "ada")
    expect(row_of(page, job)).to_contain_text("another user")
    expect(row_of(page, own)).to_contain_text("my-project")
    expect(gpus_of(page, own)).to_have_class(re.compile("gpu-mine"))
    gpus_of(page, job).first.click()
    expect(page.locator("#panel")).to_contain_text("another user")
    assert row_of(page, job).locator(".cell-actions").get_by_role("button").count() == 0
    text = "\n".join([page.content(), *told])
    assert len(told) > 3
    assert "barbara" not in text and "secret-project" not in text
    # What is hers is found by "Only mine".
    page.get_by_label("User").select_option("Only mine")
    expect(row_of(page, job)).to_have_count(0)
    expect(row_of(page, own)).to_be_visible()
    for path, needs in (("audit", AUDIT_READ), ("announcements", ANNOUNCEMENTS_MANAGE)):
        answer = page.goto(f"{demo.url}{PORTAL}{path}")
        assert answer.status == 403
        assert right(needs) in page.locator("#error-message").inner_text()


def test_a_node_is_drained_only_with_the_right(demo: Any, page: Any) -> None:
    node = "gpu06"
    set_level(demo, "Operator")
    cluster(page, demo, "grace")
    head = page.locator(f".node-head[data-key='{node}']")
    drain = page.get_by_role("button", name=f"Drain… {node}")

    def offered(yes: bool) -> bool:
        # What Slurm lets the portal do is asked once a minute.
        visit(page, demo)
        expect(page.locator("#fresh")).to_contain_text("Live")
        head.click()
        drain.wait_for()
        return drain.is_enabled() is yes

    try:
        if demo.people:
            wait_until("the page says why not", lambda: offered(False), timeout=120, every=5)
            rights = page.locator(".panel-rights")
            expect(rights).to_contain_text("adminlevel=Administrator")
            expect(drain).to_have_attribute("aria-describedby", "panel-rights")
        set_level(demo, "Administrator")
        wait_until("the page offers to drain", lambda: offered(True), timeout=120, every=5)
        drain.click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Drain", exact=True).click()  # without a reason
        expect(dialog).to_be_visible()
        dialog.get_by_label("Reason").fill("fan <b>broken</b>")
        dialog.get_by_role("button", name="Drain", exact=True).click()
        expect(page.locator("#board-status")).to_contain_text("accepts no new jobs")
        expect(head).to_contain_text("fan <b>broken</b>")
        first = page.locator(f"#grid [data-key='{node}/0']")
        expect(first).to_have_class(re.compile("gpu-drained"))
        assert "fan <b>broken</b>" in reason_of(demo, node)
        resume = page.get_by_role("button", name=f"Resume… {node}")
        resume.click()
        confirm(page, "Resume")
        expect(first).to_have_class(re.compile("gpu-free"))
    finally:
        demo.run(
            ["scontrol", "update", f"NodeName={node}", "State=RESUME"],
            user="slurm" if demo.people else None,
            check=False,
        )


def test_a_broken_connection_is_said_and_taken_up_again(demo: Any, page: Any, submit: Any) -> None:
    cluster(page, demo, "grace")
    demo.control("stop", "hub")
    try:
        expect(page.locator("#fresh")).to_contain_text("Reconnecting")
        expect(page.locator("#troubles")).to_contain_text("connection to the portal is lost")
        job = submit("barbara", "--gres=gpu:v100:1")
    finally:
        demo.control("start", "hub")
        wait_until("the Hub answers", lambda: Person(demo.url, "grace").logged_in)
    expect(page.locator("#fresh")).to_contain_text("Live")
    expect(page.locator("#troubles")).to_be_empty()
    expect(gpus_of(page, job)).to_have_count(1)


def test_a_lost_stream_goes_on_where_it_was(demo: Any, page: Any, submit: Any) -> None:
    through: list[str] = []
    seen: list[bool] = []
    cluster(page, demo, "grace")
    boards: list[str] = []
    page.on("request", lambda one: boards.append(one.url) if "/api/v1/board" in one.url else None)

    def until_seen(route: Any) -> None:
        if not seen:
            route.abort()
            return
        through.append(route.request.url)
        route.continue_()

    page.route("**/api/v1/events*", until_seen)
    # As a tab that is hidden and shown again: the stream is let go of and taken up.
    for hidden in ("true", "false"):
        page.evaluate(
            f"Object.defineProperty(document, 'hidden', {{value: {hidden}, configurable: true}});"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )
        if hidden == "true":
            job = submit("barbara", "--gres=gpu:v100:1")
    expect(page.locator("#fresh")).to_contain_text("Reconnecting")
    seen.append(True)
    expect(gpus_of(page, job)).to_have_count(1)
    expect(page.locator("#fresh")).to_contain_text("Live")
    assert re.search(r"last_event_id=[0-9a-f]+-\d+", through[0])
    assert boards == []  # only what was missed came


def test_without_a_stream_the_page_polls(demo: Any, page: Any, submit: Any) -> None:
    page.route("**/api/v1/events*", lambda route: route.abort())
    sign_in(page, demo.url, "grace")
    visit(page, demo)
    expect(page.locator("#fresh")).to_contain_text("Updating every few seconds")
    expect(page.locator("#troubles")).to_contain_text("live connection does not work")
    expect(page.locator("#nodes-count")).to_have_text("8 nodes")
    job = submit("barbara", "--gres=gpu:v100:1")
    expect(gpus_of(page, job)).to_have_count(1)
    take_picture(page, "cluster-polling")
    page.unroute("**/api/v1/events*")
    expect(page.locator("#fresh")).to_contain_text("Live")
    expect(page.locator("#troubles")).to_be_empty()


def test_a_stream_that_is_refused_says_why(demo: Any, page: Any) -> None:
    words = "You already have 20 live pages open. Close some of them."
    body = json.dumps({"error": {"code": "too_many_requests", "message": words}})
    page.route("**/api/v1/events*", lambda route: route.fulfill(status=429, body=body))
    sign_in(page, demo.url, "grace")
    visit(page, demo)
    troubles = page.locator("#troubles")
    expect(troubles).to_have_text(f"{words} This page updates every few seconds instead.")
    expect(page.locator("#fresh")).to_contain_text("Updating every few seconds")
    page.unroute("**/api/v1/events*")
    expect(troubles).to_be_empty()


def test_an_outage_of_slurm_is_said_and_nothing_is_lost(demo: Any, page: Any, submit: Any) -> None:
    job = submit("barbara", "--gres=gpu:v100:1")
    cluster(page, demo, "grace")
    expect(gpus_of(page, job)).to_have_count(1)
    demo.stop_slurmctld()
    try:
        expect(page.locator("#fresh")).to_contain_text("Not up to date")
        expect(page.locator("#troubles")).to_contain_text("The data shown is from")
        expect(gpus_of(page, job)).to_have_count(1)
        expect(row_of(page, job)).to_be_visible()
        take_picture(page, "cluster-outage")
    finally:
        demo.start_slurmctld()
    expect(page.locator("#fresh")).to_contain_text("Live")
    expect(page.locator("#troubles")).to_be_empty()


def test_my_session_from_running_to_why_it_ended(demo: Any, page: Any) -> None:
    ada = Person(demo.url, "ada")
    ada.stop()
    # With the type: after a restart, slurmctld 22.05 gives jobs without one a GPU, and says of
    # them that they have none (JOB_GRES=gpu:v100:0).
    wanted = {"gpus": 1, "cpus": 1, "memory": "2G", "time": "0:20:00"}
    if demo.words["simulated_gpus"]:
        wanted["gpu_type"] = "v100"
    answer = ada.launch({"environment": "python-venv", **wanted})
    assert answer.status_code in (201, 202), answer.text
    try:
        ada.wait_ready()
        (job,) = [row for row in living_jobs(demo, "ada") if row.name.startswith("portal-")]
        sign_in(page, demo.url, "ada")
        visit(page, demo, "sessions")
        card = page.locator("#living .entry").first
        expect(card).to_contain_text("Running")
        expect(card).to_contain_text(f"{job.node}: GPU")
        expect(card).to_contain_text(f"job {job.id}")
        expect(card).to_contain_text("left")
        assert card.get_by_role("link", name="Open").get_attribute("href") == "/user/ada/"
        check(page, "sessions-running")
        menu_item(card, "Details and log", "link").click()
        expect(page.locator("#log")).to_contain_text("ServerApp")
        expect(page.locator("#session")).to_contain_text("Server ready")
        # Where the time of its start went: the session itself tells, with its first report.
        start = page.locator("table.startup")
        expect(start.get_by_role("row", name="Importing JupyterLab")).to_be_visible()
        check(page, "session-running")
        details = page.url
        page.get_by_role("button", name="Extend").click()
        expect(page.get_by_role("dialog")).to_contain_text("left")
        page.get_by_label("Extend by").select_option("30")
        check(page, "session-extend")
        confirm(page, "Extend")
        expect(page.locator("#session")).to_contain_text("extended to 50 min")
        expect(page.locator(".session-state")).to_contain_text(re.compile(r"\b4\d min left"))
        # An admin opens it only after a question, with a reason for the audit log.
        admin = another(page)
        sign_in(admin, demo.url, "grace")
        visit(admin, demo, "sessions?user=ada")
        expect(admin.locator("#sessions-title")).to_have_text("Sessions of ada")
        menu_item(admin.locator("#living"), "Open").click()
        admin.get_by_role("dialog").get_by_label("Reason").fill("she asked for help")
        confirm(admin, "Open")
        admin.wait_for_url(re.compile(r"/user/ada/|/hub/api/oauth2/authorize"))
        visit(admin, demo, "audit?action=open-server")
        expect(admin.locator("#list tbody tr").first).to_contain_text("she asked for help")
        admin.context.close()
        page.get_by_role("link", name="Sessions").first.click()
        menu_item(page.locator("#living"), "Stop").click()
        confirm(page, "Stop")
        expect(page.locator("#board-status")).to_contain_text("being stopped")
        expect(page.locator("#living")).to_contain_text("No session is running or waiting")
        ended = page.locator(f"#ended .entry[data-session='{details.rsplit('/', 1)[1]}']")
        expect(ended).to_contain_text("Stopped")
        details_of = ended.get_by_text("20 min, extended to 50 min")
        expect(details_of).to_be_hidden()
        ended.locator("summary").press("Enter")
        expect(details_of).to_be_visible()
        check(page, "sessions-ended")
        page.goto(details)
        expect(page.locator(".ending")).to_contain_text("stopped")
        check(page, "session-ended")
        # Launching again fills the form in, and starts nothing.
        page.get_by_role("link", name="Launch again").click()
        page.wait_for_url("**/hub/spawn*")
        expect(page.locator("#launch-summary")).to_contain_text("1")
        assert living_jobs(demo, "ada") == []
        # To another user there is no such session.
        strange = another(page)
        sign_in(strange, demo.url, "student01")
        assert strange.goto(details).status == 404
        expect(strange.locator("#error-message")).to_have_text("You have no such session.")
        strange.context.close()
    finally:
        ada.stop()


def test_announce_withdraw_and_the_audit_log(demo: Any, page: Any) -> None:
    text = f"Maintenance <b>on Sunday</b> {time.time():.0f}"
    sign_in(page, demo.url, "grace")
    visit(page, demo, "announcements")
    page.get_by_label("Message").fill(text)
    page.get_by_label("Level").select_option("Warning")
    page.get_by_label("End (your local time)").fill("2001-01-01T00:00")
    page.get_by_role("button", name="Publish announcement").click()
    expect(page.locator("#announce-problem")).to_have_text("The end must be after the start.")
    page.get_by_label("End (your local time)").fill("2099-01-01T00:00")
    page.get_by_role("button", name="Publish announcement").click()
    entry = page.locator(".entry", has_text=text)
    expect(entry).to_contain_text("Shown now")
    check(page, "announcements")
    reader = another(page)
    sign_in(reader, demo.url, "ada")
    visit(reader, demo)
    expect(reader.locator("#announcements")).to_contain_text(text)
    reader.context.close()
    entry.get_by_role("button", name="Withdraw").click()
    confirm(page, "Withdraw")
    expect(page.locator(".entry", has_text=text)).to_contain_text("Ended")
    visit(page, demo, "audit")
    page.get_by_label("Action").select_option("withdraw-announcement")
    row = page.locator("#list tbody tr").first
    expect(row).to_contain_text("grace")
    expect(row).to_contain_text("Withdraw announcement")
    expect(row).to_contain_text("done")
    assert "action=withdraw-announcement" in page.url
    page.get_by_label("Action").select_option("All")
    expect(page.locator("#list tbody tr").nth(1)).to_be_visible()
    check(page, "audit")


def test_usage_of_oneself_and_of_all(demo: Any, page: Any, submit: Any) -> None:
    submit("ada", "--gres=gpu:v100:2")
    sign_in(page, demo.url, "grace")
    visit(page, demo, "usage?by=user")
    owner = "ada" if demo.people else demo.words["account"]

    def counted() -> bool:
        page.reload()
        page.locator("#list-count:not(:empty), #troubles > *").first.wait_for()
        return page.locator("#list tbody tr", has_text=owner).count() > 0

    wait_until("the meter has counted", counted, timeout=120, every=5)
    expect(page.locator("#chart")).to_have_attribute("aria-label", re.compile("GPU-hours held"))
    check(page, "usage-all")
    sign_in(page, demo.url, "ada")
    visit(page, demo, "usage?by=user")
    assert page.get_by_label("Breakdown").locator("option").count() == 1
    check(page, "usage-mine")


def test_every_page_looks_right_in_both_themes(demo: Any, page: Any, submit: Any) -> None:
    submit("ada", "--gres=gpu:v100:3", "--job-name=train")
    submit("barbara", "--gres=gpu:t4:2", "--job-name=<i>sweep</i>")
    submit("barbara", "--gres=gpu:v100:1", "--begin=now+1hour", wait=False)
    cluster(page, demo, "grace")
    expect(page.locator("#jobs tbody tr").nth(2)).to_be_visible()
    page.locator("#grid .gpu[aria-label*=job]").first.click()
    page.locator("#history-details summary").click()
    page.wait_for_timeout(1000)
    check(page, "cluster-admin")
    page.get_by_role("button", name=re.compile("^Cancel job")).first.click()
    page.wait_for_timeout(500)
    check(page, "cluster-question")
    page.keyboard.press("Escape")
    sign_in(page, demo.url, "ada")
    visit(page, demo)
    expect(page.locator("#fresh")).to_contain_text("Live")
    expect(page.locator("#jobs tbody tr").nth(2)).to_be_visible()
    check(page, "cluster")
    assert page.goto(f"{demo.url}{PORTAL}nothing").status == 404
    check(page, "problem")


def test_history_is_drawn_zoomed_and_read_as_a_table(demo: Any, page: Any) -> None:
    cluster(page, demo, "ada")
    page.locator("#history-range").scroll_into_view_if_needed()
    page.get_by_role("button", name="3 h").click()
    picture = page.locator("#plots canvas").first
    expect(picture).to_have_attribute("aria-label", re.compile("GPUs.*in the cluster: last 20"))
    over = page.locator("#plots .u-over").first
    wait_until("the plot stands", lambda: over.bounding_box() is not None, 30)
    place = over.bounding_box()
    page.mouse.move(place["x"] + place["width"] * 0.5, place["y"] + 40)
    page.mouse.down()
    page.mouse.move(place["x"] + place["width"] * 0.95, place["y"] + 40, steps=5)
    page.mouse.up()
    back = page.get_by_role("button", name="Reset zoom")
    expect(back).to_be_visible()
    back.click()
    expect(back).to_be_hidden()
    page.locator("#history-details summary").click()
    expect(page.locator("#history-table tbody tr").nth(10)).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the history").click()
    assert download.value.path().read_text().startswith("at,seconds,gpus_total")
