"""Parts of GPUs on the launch page: what may be chosen, in a real browser, without a Hub."""

from __future__ import annotations

import time
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


def launch_page(environment: Environment) -> str:
    """The form as the Hub renders it, with its script, on a cluster with all kinds of parts."""
    shards = GpuPool(type="shard.t4", count=8, used=5, each=4)
    usual = {"state": "IDLE", "address": "", "cpus": 8, "memory": 64_000}
    nodes = {
        node.name: node
        for node in (
            Node(
                name="gpu01", gpus=(GpuPool(type="t4", count=2, used=2),), shares=(shards,), **usual
            ),
            Node(name="gpu02", gpus=(GpuPool(type="a100_1g.10gb", count=2),), **usual),
        )
    }
    snapshot = ClusterSnapshot(
        taken_at=time.time(),
        nodes=nodes,
        partitions={"gpu": Partition(name="gpu", default=True, nodes=tuple(nodes))},
    )
    form = LaunchForm(gpu_types={"t4": {"title": "T4", "memory": "16 GB"}})
    inside = form.render(form.view(snapshot, [environment], None, Person(name="ada")))
    assets = data_path("templates") / "assets"
    names = ("hub", "estimate", "link", "launch")  # as templates/spawn.html has them
    script = "".join((assets / f"{name}.js").read_text() for name in names)
    return (
        f"<!DOCTYPE html><html lang=en><meta charset=utf-8><title>Launch</title>"
        '<script>window.jhdata = {base_url: "/hub/", xsrf_token: "secret"}</script>'
        f'<form id="spawn_form">{inside}</form>'
        f'<script type="module">{script}</script></html>'
    )


@pytest.fixture
def opened(page: Any, request: pytest.FixtureRequest) -> Any:
    """The launch page, for an environment with the parameter's fields."""
    more = getattr(request, "param", {})
    environment = Environment(name="lab", title="Lab", kind=EnvironmentKind.VENV, path="/v", **more)
    html = launch_page(environment)
    page.route("**/hub/spawn", lambda route: route.fulfill(body=html, content_type="text/html"))
    page.route("**/api/portal/estimates/ada", lambda route: route.fulfill(status=503, json={}))
    page.goto(ADDRESS)
    return page


def gpus(page: Any, number: int) -> Any:
    return page.locator(f"input[name=gpus][value='{number}']")


def choose(page: Any, number: int, gpu_type: str | None = None) -> None:
    page.locator(f"label[for='launch-gpus-{number}']").click()
    if gpu_type is not None:
        page.locator(f"input[name=gpu_type][value='{gpu_type}']").check(force=True)


def test_a_share_is_chosen_by_its_tile(opened: Any) -> None:
    choose(opened, 2, "shard.t4")
    tile = opened.locator("label", has_text="shard of T4")
    expect(tile).to_contain_text("1/4 of a GPU, shared with other jobs")
    expect(tile).to_contain_text("3 of 8 free")
    expect(opened.locator("#launch-summary")).to_contain_text("2 \N{MULTIPLICATION SIGN} shard.t4")
    expect(gpus(opened, 4)).to_be_enabled()  # as many shards as one GPU has
    expect(opened.locator("#launch-hint")).to_have_text("")
    choose(opened, 4)
    expect(opened.locator("#launch-hint")).to_contain_text(
        "No node has 4 \N{MULTIPLICATION SIGN} shard.t4 free now"
    )


def test_so_much_memory_is_enough(opened: Any) -> None:
    choose(opened, 1, "")
    memory = opened.get_by_label("GPU memory that is enough")
    assert memory.locator("option").all_inner_texts() == ["choose a type below", "10 GB", "16 GB"]
    memory.select_option("10")
    expect(opened.locator("input[name=gpu_type]:checked")).to_have_value("a100_1g.10gb")
    memory.select_option("16")  # never a share, which has no memory of its own
    expect(opened.locator("input[name=gpu_type]:checked")).to_have_value("t4")
    expect(opened.locator("#launch-summary")).to_contain_text("1 \N{MULTIPLICATION SIGN} T4")
    fields = opened.evaluate("[...new FormData(document.forms[0]).keys()]")
    assert "gpu_memory" not in fields and fields.count("gpu_type") == 1


def test_any_type_is_no_share(opened: Any) -> None:
    choose(opened, 2, "")
    expect(opened.locator("label", has_text="Any type")).to_contain_text("2 of 4 free")
    expect(gpus(opened, 2)).to_be_enabled()
    expect(gpus(opened, 3)).to_be_disabled()  # no node has so many whole GPUs or slices
    slices = opened.locator("label", has_text="a100_1g.10gb")
    expect(slices).to_contain_text("MIG slice, 1/7 of a GPU, 10 GB")


@pytest.mark.parametrize("opened", [{"gpu_types": ("t4", "a100_1g.10gb")}], indirect=True)
def test_an_environment_that_was_not_tested_on_shares_still_has_any_gpu(opened: Any) -> None:
    choose(opened, 1)
    expect(opened.locator("input[name=gpu_type][value='']")).to_be_enabled()
    expect(opened.locator("input[name=gpu_type][value='shard.t4']")).to_be_disabled()
    expect(opened.locator("#launch-refusals")).to_have_text("Lab does not run on shard.t4.")
