"""What the launch page's script makes of expected starts, in a real browser; the Hub's answers are
played, so that they can be slow, wrong and counted."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from portal.models.catalog.environment import Environment, EnvironmentKind
from portal.models.cluster.cluster import ClusterSnapshot, GpuPool, Node, Partition
from portal.models.person import Person
from portal.paths import data_path
from spawners.form.form import LaunchForm

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
ADDRESS = "http://portal.test/hub/spawn"
LATER = {
    "outlook": "later",
    "words": "Starts in about 25 min.",
    "source": "Slurm's estimate.",
    "nearby": [{"label": "t4", "words": "starts now", "changes": {"gpu_type": "t4"}}],
}
NOW = {"outlook": "now", "words": "Starts now.", "source": "", "nearby": []}


def launch_page() -> str:
    """The form as the Hub renders it, with its script."""
    nodes = {
        name: Node(
            name=name, address=name, state="IDLE", cpus=8, memory=64_000,
            gpus=(GpuPool(type=kind, count=2),),
        )
        for name, kind in (("gpu01", "v100"), ("gpu02", "t4"))
    }  # fmt: skip
    snapshot = ClusterSnapshot(
        taken_at=time.time(),
        nodes=nodes,
        partitions={"gpu": Partition(name="gpu", default=True, nodes=tuple(nodes))},
    )
    environment = Environment(name="pytorch", title="PyTorch", kind=EnvironmentKind.VENV, path="/v")
    form = LaunchForm()
    inside = form.render(form.view(snapshot, [environment], None, Person(name="ada")))
    assets = data_path("templates") / "assets"
    names = ("hub", "estimate", "link", "launch")  # as templates/spawn.html has them
    script = "".join((assets / f"{name}.js").read_text() for name in names)
    return (
        "<!DOCTYPE html><html lang=en><title>Launch</title>"
        '<script>window.jhdata = {base_url: "/hub/", xsrf_token: "secret"}</script>'
        f'<form id="spawn_form">{inside}</form><script type="module">{script}</script></html>'
    )


@pytest.fixture
def opened(page: Any) -> Callable[[Any], list[dict[str, Any]]]:
    """``opened(answer)`` shows the page and gives the list of what it asks; ``answer(fields)``
    gives the Hub's status and body."""

    def show(answer: Callable[[dict[str, Any]], tuple[int, Any]]) -> list[dict[str, Any]]:
        asked: list[dict[str, Any]] = []

        def estimates(route: Any) -> None:
            assert route.request.headers["x-xsrftoken"] == "secret"
            asked.append(json.loads(route.request.post_data))
            status, body = answer(asked[-1])
            route.fulfill(status=status, json=body)

        html = launch_page()
        page.route("**/hub/spawn", lambda route: route.fulfill(body=html, content_type="text/html"))
        page.route("**/api/portal/estimates/ada", estimates)
        page.goto(ADDRESS)
        return asked

    return show


# In one task of the page, however slow the test is.
CHOOSE = """choices => {
  for (const [gpus, type] of choices) {
    document.querySelector(`label[for='launch-gpus-${gpus}']`).click();
    document.querySelector(`input[name=gpu_type][value=${type}]`).click();
  }
}"""


def choose(page: Any, gpus: int, gpu_type: str) -> None:
    page.locator(f"label[for='launch-gpus-{gpus}']").click()
    page.locator(f"input[name=gpu_type][value={gpu_type}]").check(force=True)


def test_asked_once_when_the_person_pauses_and_a_button_fills_in(page: Any, opened: Any) -> None:
    asked = opened(lambda fields: (200, LATER if fields.get("gpu_type") == "v100" else NOW))
    starts = page.locator("#launch-starts")
    expect(starts).to_have_text("Starts now.")
    before = len(asked)
    page.evaluate(CHOOSE, [[1, "v100"], [2, "v100"]])
    expect(starts).to_have_text("Starts in about 25 min.")
    assert asked[before:] == [{**asked[0], "gpus": "2", "gpu_type": "v100"}]
    expect(page.locator("#launch-hint")).to_be_hidden()
    page.get_by_role("button", name="t4: starts now").click()
    expect(starts).to_have_text("Starts now.")
    expect(page.locator("#launch-nearby")).to_be_hidden()
    assert (asked[-1]["gpus"], asked[-1]["gpu_type"]) == ("2", "t4")
    assert page.evaluate("document.activeElement.id") == "start"


def test_the_old_answer_stays_greyed_and_is_not_read_again(page: Any, opened: Any) -> None:
    opened(lambda fields: (200, LATER))
    starts, place = page.locator("#launch-starts"), page.locator("#launch-estimate")
    expect(starts).to_have_text("Starts in about 25 min.")
    page.evaluate(
        "window.changes = 0; new MutationObserver((all) => { changes += all.length; }).observe("
        "document.getElementById('launch-estimate'), {childList: true, subtree: true})"
    )
    page.evaluate(
        """() => {
          window.greyed = [];
          const place = document.getElementById("launch-estimate");
          const words = document.getElementById("launch-starts");
          new MutationObserver(() => {
            if (place.classList.contains("portal-old")) greyed.push(words.textContent);
          }).observe(place, { attributeFilter: ["class"] });
        }"""
    )
    choose(page, 1, "v100")
    expect(place).not_to_have_class(re.compile("portal-old"))
    assert set(page.evaluate("greyed")) == {"Starts in about 25 min."}
    expect(starts).to_have_text("Starts in about 25 min.")
    expect(place).to_be_visible()
    assert page.evaluate("changes") == 0


@pytest.mark.parametrize("status", [429, 503])
def test_nobody_answers_nothing_old_is_said(page: Any, opened: Any, status: int) -> None:
    opened(lambda fields: (200, NOW) if fields["gpus"] == "0" else (status, {"message": "no"}))
    expect(page.locator("#launch-starts")).to_have_text("Starts now.")
    choose(page, 1, "v100")
    expect(page.locator("#launch-estimate-words")).to_be_hidden()
    expect(page.get_by_role("button", name="Start", exact=True)).to_be_enabled()


def test_markup_in_an_answer_is_text(page: Any, opened: Any) -> None:
    evil = "<img src=x onerror=window.owned=1>"
    nearby = [{"label": evil, "words": "", "changes": {}}]
    opened(lambda fields: (200, {**LATER, "words": evil, "nearby": nearby}))
    expect(page.locator("#launch-starts")).to_have_text(evil)
    assert page.evaluate("window.owned") is None


def test_the_wait_over_the_next_day_is_a_plot(page: Any, opened: Any) -> None:
    hours = [5400.0, 1800.0, *[0.0] * 20, None, None]
    words = "The longest wait over the next 24 h is about 2 h."
    asked = opened(lambda fields: (200, {**LATER, "waits": hours, "waits_words": words}))
    plot = page.get_by_role("img", name=words)
    expect(plot).to_be_visible()
    bars = plot.locator(".portal-waits-bars > span")
    expect(bars).to_have_count(24)
    assert bars.evaluate_all("all => all.map(bar => bar.className.slice(11))") == [
        "", "", *["-none"] * 20, "-unknown", "-unknown",
    ]  # fmt: skip
    assert bars.first.evaluate("bar => bar.style.height") == "100%"
    assert len(asked) == 1, "it comes with the estimate"


def test_no_plot_where_nothing_is_known(page: Any, opened: Any) -> None:
    opened(lambda fields: (200, {**NOW, "outlook": "unknown", "waits": [], "waits_words": ""}))
    expect(page.locator("#launch-starts")).to_have_text("Starts now.")
    expect(page.locator("#launch-waits")).to_be_hidden()
