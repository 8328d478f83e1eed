"""The pages in a real Hub and a real browser: what they say, keyboard and screen reader, light
and dark, wide and narrow. Pictures of all of them go to build/screenshots/."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from chromium import SOON
from in_sight import SCREEN, out_of_sight
from looks import EDGE, STILL, check, take_picture, violations
from machine import patience
from sign_in import send_form

from portal.demo.daemons.ports import free_port
from portal.demo.daemons.process import end_child

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")

ROOT = Path(__file__).parents[2]
SHIFT = """() => new Promise(resolve => {
  let shift = 0;
  new PerformanceObserver(list => {
    for (const entry of list.getEntries()) shift += entry.value;
  }).observe({ type: "layout-shift", buffered: true });
  setTimeout(() => resolve(shift), 200);
})"""
TIMES = "\N{MULTIPLICATION SIGN}"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Hub with the portal's pages."""
    place = tmp_path_factory.mktemp("hub")
    port = free_port()
    log = (place / "hub.log").open("wb")
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "jupyterhub",
            "-f",
            str(Path(__file__).with_name("pages_config.py")),
        ],
        cwd=place,
        env={**os.environ, "PAGES_PORT": str(port), "PYTHONPATH": str(ROOT)},
        stdout=log,
        stderr=log,
    )
    address = f"http://127.0.0.1:{port}/hub/"
    try:
        give_up = time.monotonic() + patience(180)
        while True:
            if process.poll() is not None:
                pytest.fail(f"the Hub ended: {(place / 'hub.log').read_text()[-3000:]}")
            try:
                urllib.request.urlopen(f"{address}health", timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < give_up, (place / "hub.log").read_text()[-3000:]
                time.sleep(0.1)
        yield address
    finally:
        end_child(process, 20)
        log.close()


def log_in(page: playwright.Page, hub: str, name: str, to: str = "spawn") -> None:
    page.goto(f"{hub}login?next=/hub/{to}")
    send_form(page, name)
    page.wait_for_url(f"**/hub/{unquote(to).partition('?')[0]}*")


def start(page: playwright.Page, title: str) -> None:
    page.get_by_role("radio", name=title).check()
    page.get_by_role("button", name="Start", exact=True).click()


def test_sign_in(page, hub):
    page.goto(f"{hub}login")
    assert "LDAP" in page.locator("#login-hint").inner_text()
    check(page, "login")
    send_form(page, "ada", "wrong")
    page.get_by_role("alert").wait_for()
    assert "Invalid username or password" in page.get_by_role("alert").inner_text()
    assert page.get_by_label("User name").input_value() == "ada"
    check(page, "login-refused")


def test_launch_form_offers_what_fits_together(page, hub):
    log_in(page, hub, "ada")
    assert page.get_by_role("radio", name="PyTorch").is_checked()
    summary = page.locator("#launch-summary")
    assert summary.inner_text() == (
        f"JupyterLab in PyTorch 2.9 on 1 {TIMES} V100 (simulated), 8 CPUs, 32 GB for 2 h"
    )
    # This environment runs on v100 only.
    assert page.get_by_role("radio", name="T4").is_disabled()
    page.get_by_role("radio", name="Scientific Python").check()
    assert summary.inner_text() == "JupyterLab in Scientific Python on 2 CPUs, 4 GB for 2 h"
    page.locator("label[for=launch-gpus-3]").click()
    page.get_by_role("radio", name="T4").check()
    assert page.locator("#launch-gpus-3").is_disabled()
    assert page.locator("#launch-gpus-2").is_checked()
    assert summary.inner_text().startswith(
        f"JupyterLab in Scientific Python on 2 {TIMES} T4 (simulated)"
    )
    page.get_by_role("radio", name="Ready at once").check()
    times = page.locator("#launch-time option:not([disabled])").all_inner_texts()
    assert times[-1] == "4 h"
    page.locator("#launch-more summary").click()
    partitions = page.get_by_label("Partition").locator("option").all_inner_texts()
    assert any("15 of 20 simulated GPUs free" in text for text in partitions)
    check(page, "launch")


def test_many_environments_are_searched(page, hub):
    page.set_viewport_size(SCREEN)
    log_in(page, hub, "many")
    cards = page.locator("#launch-cards > .portal-card:visible")
    assert cards.count() == 6
    take_picture(page, "first-screen-launch-many")
    parts = ("#launch-search", "#launch-all", "label[for=launch-gpus-0]", "#launch-gpu-type")
    assert out_of_sight(page, (*parts, "#launch-time", "#start")) == []
    page.set_viewport_size({"width": 1280, "height": 800})
    assert out_of_sight(page, (*parts, "#launch-time", "#start")) == []
    rows = [card.bounding_box()["height"] for card in cards.all()[1:]]
    assert max(rows) <= 44, "a row has one line, unless it is chosen"
    # What one likes and used last stands first.
    names = cards.locator(".portal-card-title").all_inner_texts()
    assert names[:3] == ["Environment 150", "Environment 7", "Environment 0"]
    assert "favourite" in cards.nth(0).inner_text()
    assert "used 14 Nov 2023" in cards.nth(1).inner_text()
    search, count = page.get_by_label("Search environments"), page.locator("#launch-count")
    search.press_sequentially("environment 19")
    assert count.inner_text() == "19 environments of 200."
    page.get_by_role("button", name="odd", exact=True).click()
    assert count.inner_text() == "14 environments of 200."
    check(page, "launch-many")
    # Enter leads to the first one, and starts nothing; the chosen one stays in sight.
    search.press("Enter")
    page.keyboard.press("Space")
    assert "/hub/spawn" in page.url
    assert (
        page.locator("#launch-summary").inner_text().startswith("JupyterLab in Environment 119 on")
    )
    search.fill("nothing like this")
    assert count.inner_text() == "No environment matches. Use fewer words or tags."
    assert cards.locator(".portal-card-title").all_inner_texts() == ["Environment 119"]
    search.fill("")
    page.get_by_role("button", name="odd", exact=True).click()
    page.get_by_role("button", name="Show all 200 environments").click()
    assert cards.count() == 200


def test_a_link_prefills_the_form_and_starts_nothing(page, hub):
    wanted = "#environment=slow&gpus=2&gpu_type=t4&time=4:00:00&partition=gpu&cpus=6&memory=9G"
    page.goto(f"{hub}spawn{wanted}")
    send_form(page, "linked")
    page.wait_for_url("**/hub/spawn*")
    assert page.locator("#launch-summary").inner_text() == (
        f"JupyterLab in Scientific Python on 2 {TIMES} T4 (simulated), 6 CPUs, 9 GB for 4 h"
    )
    assert page.get_by_label("Partition").input_value() == "gpu"


def test_a_link_lists_what_does_not_fit(page, hub):
    wanted = (
        "opt-environment=slow&opt-gpus=9&opt-gpu_type=h100&opt-time=900:00:00&opt-cpus=some"
        "&opt-memory=9G&opt-partition=%3Cimg%20src=x%3E&opt-colour=red&gpus=1"
    )
    log_in(page, hub, "unfit", to=quote(f"spawn?{wanted}", safe=""))
    ignored = page.locator("#launch-ignored")
    assert ignored.locator("li").all_inner_texts() == [
        "Partition “<img src=x>” is not among the choices here.",
        "GPU type “h100” is not among the choices here.",
        "GPUs “9”: at most 4 with these choices.",
        "Time limit “900:00:00” is not among the choices; the longest is 2 d.",
        "CPUs “some” must be a whole number, 1 or more.",
        "“colour” is not an option of a session.",
    ]
    # What fits is filled in, and the rest is as it was.
    assert page.get_by_label("Memory").input_value() == "9G"
    assert page.locator("#launch-summary").inner_text() == (
        "JupyterLab in Scientific Python on 2 CPUs, 9 GB for 2 h"
    )
    check(page, "launch-ignored")
    page.goto(f"{hub}spawn#environment=gone&gpu_type=t4")
    page.reload()
    assert ignored.locator("li").all_inner_texts() == [
        "Environment “gone” does not exist, or you may not use it.",
        "GPU type “t4”: PyTorch 2.9 does not run on T4.",
    ]
    page.goto(f"{hub}spawn#environment=slow&gpus=1&gpu_type=t4")
    page.reload()
    assert ignored.is_hidden()


def test_gpu_types_that_do_not_fit_say_why(page, hub):
    log_in(page, hub, "types")
    why = page.locator("#launch-refusals")
    page.get_by_role("radio", name="PyTorch").check()
    assert why.inner_text() == "PyTorch 2.9 does not run on T4."
    page.locator("label[for=launch-gpus-0]").click()
    assert why.inner_text() == "Choose a number of GPUs first."
    page.get_by_role("radio", name="GCC 14").check()
    assert why.inner_text() == "GCC 14 and OpenMPI 5 uses no GPUs."
    struck = "all => all.filter(e => getComputedStyle(e).textDecorationLine.includes('through'))"
    assert page.locator(".portal-launch *").evaluate_all(f"{struck}.length") == 0


def test_a_session_that_runs_hides_no_form(page, hub):
    """There is a way to it, and another one is started; a GET makes neither."""
    log_in(page, hub, "twice")
    start(page, "Ready at once")
    page.locator("#portal-pending").wait_for()
    page.goto(f"{hub}home")
    page.get_by_role("link", name="Open Session").wait_for()
    page.goto(f"{hub}spawn")
    banner = page.locator("#launch-running")
    assert banner.inner_text() == (
        "Ready at once is running: open it, or start another (“Session 2”) here."
    )
    assert page.get_by_role("radio", name="Ready at once").is_checked()  # the last choice
    check(page, "launch-running")
    for address in ("spawn/twice/third", "spawn/twice/third?display_name=Third&opt-gpus=1"):
        page.goto(f"{hub}{address}")
        assert page.get_by_role("button", name="Start", exact=True).is_enabled()
    page.goto(f"{hub}home")
    assert page.locator(".portal-sessions > li").count() == 1
    page.goto(f"{hub}spawn")
    start(page, "Ready at once")
    page.wait_for_url("**/hub/spawn-pending/twice/session-2*")
    page.goto(f"{hub}home")
    page.get_by_role("link", name="Open Session 2").wait_for()
    page.goto(f"{hub}spawn/twice/session-2")
    assert "start another (“Session 3”) here" in banner.inner_text()
    assert "Ready at once (Session 2) is running" in banner.inner_text()
    # What is to be opened in the session is opened there.
    page.goto(f"{hub}spawn?next={quote('/hub/token')}")
    page.wait_for_url("**/hub/token")


def test_a_refusal_keeps_what_was_entered(page, hub):
    log_in(page, hub, "refused")
    page.locator("label[for=launch-gpus-4]").click()
    page.get_by_role("button", name="Start", exact=True).click()
    page.get_by_role("alert").wait_for()
    assert page.get_by_role("alert").inner_text().strip() == (
        "The account 'research' may not use 4 GPUs."
    )
    assert page.locator("#launch-gpus-4").is_checked()
    assert "_xsrf" not in page.url
    assert page.get_by_role("button", name="Start", exact=True).is_enabled()
    check(page, "launch-refused")


@pytest.mark.parametrize("name", ["nobody", "later"])
def test_problems_are_said_before_the_start(page, hub, name):
    log_in(page, hub, name)
    if name == "nobody":
        assert "Slurm account" in page.get_by_role("alert").inner_text()
        assert page.get_by_role("button", name="Start", exact=True).is_disabled()
    else:
        assert "5 min old" in page.locator(".alert-warning").inner_text()
        assert page.get_by_role("button", name="Start", exact=True).is_enabled()
    check(page, f"launch-{name}")


def test_the_form_works_without_scripts(browser, hub):
    context = browser.new_context(java_script_enabled=False)
    context.set_default_timeout(SOON)
    page = context.new_page()
    log_in(page, hub, "plain")
    page.locator("input[name=environment][value=slow]").check(force=True)
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url("**/hub/spawn-pending/plain*")
    context.close()


def test_progress_in_words_and_cancel(page, hub):
    log_in(page, hub, "waits")
    start(page, "Scientific Python")
    page.wait_for_url("**/hub/spawn-pending/waits*")
    page.get_by_text("3rd in the queue").first.wait_for()
    assert "<img src=x>" in page.locator("#progress-message").inner_text()
    assert page.locator("#progress-job").inner_text() == "Slurm job 4711"
    page.locator("#progress-details summary").click()
    check(page, "pending")
    page.goto(f"{hub}home")
    check(page, "home-starting")
    assert "Waiting for resources" in page.locator("#portal-home").inner_text()
    page.get_by_role("link", name="Watch").click()
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_url("**/hub/spawn/waits")
    # The last choice is there again.
    assert page.get_by_role("radio", name="Scientific Python").is_checked()


def test_progress_survives_a_broken_stream(page, hub):
    log_in(page, hub, "broken")
    broken = []

    def break_twice(route):
        broken.append(route.request.url)
        if len(broken) <= 2:
            route.abort()
        else:
            route.continue_()

    page.route("**/progress?*", break_twice)
    start(page, "Scientific Python")
    page.get_by_text("The connection to the portal was lost").wait_for()
    page.get_by_text("3rd in the queue").first.wait_for()
    assert page.locator("#progress-connection").inner_text() == ""


def test_a_failed_start_says_why_with_the_log(page, hub):
    log_in(page, hub, "fails")
    start(page, "GCC 14")
    page.get_by_role("heading", name="The session did not start").wait_for()
    assert "exit code 1" in page.get_by_role("alert").inner_text()
    assert "<b>ModuleNotFoundError</b>" in page.locator("#session-log").inner_text()
    check(page, "failed")
    assert page.locator(".portal-simulated").count() == 0  # it asked for no GPU
    # Its start fails so soon that the progress page may never be seen.
    with page.expect_navigation():
        page.get_by_role("button", name="Try again").click()
    page.get_by_role("heading", name="The session did not start").wait_for()
    page.get_by_role("link", name="Change options").click()
    assert page.get_by_role("radio", name="GCC 14").is_checked()


def test_sessions_start_stop_and_end(page, hub):
    log_in(page, hub, "runs", to="home")
    check(page, "home-empty")
    page.get_by_label("Add a named session").fill("Second one")
    page.get_by_role("button", name="Configure").click()
    page.wait_for_url("**/hub/spawn/runs/*")
    start(page, "Ready at once")
    page.locator("#portal-pending").wait_for()
    page.goto(f"{hub}home")
    # The list follows the start by itself.
    page.get_by_role("link", name="Open Second one").wait_for()
    text = page.locator("#portal-home").inner_text()
    assert "Second one" in text and "Running on gpu02, ends" in text
    check(page, "home")
    page.get_by_role("button", name="Stop Second one").click()
    page.get_by_role("button", name="Remove Second one").wait_for()
    page.get_by_role("button", name="Remove Second one").click()
    page.get_by_role("heading", name="Second one").wait_for(state="detached")


def test_an_ended_session_says_why(page, hub):
    log_in(page, hub, "ends")
    start(page, "Ready at once")
    page.locator("#portal-pending").wait_for()
    page.goto(f"{hub}home")
    page.get_by_role("link", name="Open Session").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("link", name="Start Session").wait_for()
    page.goto(f"{hub}user/ends/")
    page.get_by_role("heading", name="The session has ended").wait_for()
    assert "stopped from the portal" in page.locator("#session-reason").inner_text()
    check(page, "ended")


def test_simulated_gpus_are_labelled_wherever_a_session_is_shown(page, hub):
    log_in(page, hub, "gpus")
    page.get_by_role("radio", name="Ready at once").check()
    page.locator("label[for=launch-gpus-1]").click()
    page.get_by_role("button", name="Start", exact=True).click()
    page.locator("#portal-pending .portal-simulated").wait_for()
    page.goto(f"{hub}home")
    page.get_by_role("link", name="Open Session").wait_for()
    assert page.locator("#portal-home .portal-simulated").inner_text() == "simulated GPUs"
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("link", name="Start Session").wait_for()
    page.goto(f"{hub}user/gpus/")
    page.get_by_role("heading", name="The session has ended").wait_for()
    assert page.locator(".portal-facts .portal-simulated").inner_text() == "simulated GPUs"


def test_home_says_how_old_it_is_while_slurm_does_not_answer(page, hub):
    log_in(page, hub, "later", to="home")
    assert page.locator("#portal-stale").inner_text() == ""  # no session that it would be about
    page.goto(f"{hub}spawn")
    start(page, "Scientific Python")
    page.locator("#portal-pending").wait_for()
    page.goto(f"{hub}home")
    assert "is 5 min old. slurmctld did not answer" in page.locator("#portal-stale").inner_text()
    check(page, "home-later")


def test_errors_are_sentences(page, hub):
    log_in(page, hub, "lost", to="home")
    page.goto(f"{hub}no-such-page")
    assert "This page does not exist" in page.get_by_role("heading").first.inner_text()
    check(page, "error")


def test_the_form_can_be_used_with_the_keyboard(page, hub):
    log_in(page, hub, "keys")
    page.get_by_role("radio", name="PyTorch").focus()
    page.keyboard.press("ArrowDown")
    assert page.get_by_role("radio", name="Scientific Python").is_checked()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "gpus"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "gpu_type"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "launch-time"
    page.keyboard.press("Enter")


def collapsed(page) -> bool:
    """Return True if the side bar shows icons only, and the content has the room."""
    side, head = page.locator(".portal-side"), page.locator(".page-head")
    left, width = head.bounding_box()["x"], side.bounding_box()["width"]
    assert left == width + EDGE
    return width < 80


def test_the_side_bar_collapses_and_the_choice_is_remembered(page, hub):
    page.set_viewport_size(SCREEN)
    log_in(page, hub, "narrow", to="home")
    assert not collapsed(page)
    button = page.get_by_role("button", name="Collapse navigation")
    button.focus()
    page.keyboard.press("Enter")
    assert collapsed(page) and button.get_attribute("aria-pressed") == "true"
    # Its entries keep their names, for screen readers and as hints.
    launch = page.get_by_role("navigation", name="Portal").get_by_role("link", name="Launch")
    assert launch.get_attribute("title") == "Launch"
    assert violations(page) == []
    take_picture(page, "side-bar-collapsed")
    launch.click()
    page.wait_for_url("**/hub/spawn*")
    assert collapsed(page)
    assert page.evaluate(SHIFT) < 0.05  # it was narrow from the first paint on
    page.get_by_role("button", name="Collapse navigation").click()
    page.reload()
    assert not collapsed(page) and page.get_by_title("Launch").count() == 0


def test_a_phone_has_the_side_bar_as_a_drawer(page, hub):
    page.set_viewport_size({"width": 390, "height": 844})
    log_in(page, hub, "drawer", to="home")
    links = page.get_by_role("navigation").get_by_role("link", name="Launch")
    toggle = page.get_by_role("button", name="Toggle navigation")
    assert links.count() == 0
    toggle.focus()
    page.keyboard.press("Enter")
    links.wait_for()
    drawer = page.get_by_role("dialog", name="Navigation")
    page.wait_for_function("document.activeElement.id === 'portal-side'")
    page.evaluate(STILL)
    take_picture(page, "drawer")
    assert violations(page, "#portal-side") == []
    # The focus stays inside, and goes back to the button.
    for _ in range(12):
        page.keyboard.press("Tab")
        assert drawer.locator(":focus").count() == 1
    page.keyboard.press("Escape")
    drawer.wait_for(state="hidden")
    page.wait_for_function("document.activeElement.ariaLabel === 'Toggle navigation'")
    toggle.click()
    links.click()
    page.wait_for_url("**/hub/spawn*")


def test_the_first_tab_skips_the_navigation(page, hub):
    log_in(page, hub, "skips", to="home")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "portal-main"


def test_jupyterhubs_own_pages_have_the_shell(page, hub):
    log_in(page, hub, "ada", to="token")
    assert page.get_by_role("heading", name="Tokens", exact=True).is_visible()
    check(page, "tokens")
    page.goto(f"{hub}logout")
    check(page, "logged-out")
