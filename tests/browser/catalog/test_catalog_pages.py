"""The catalog's pages in a real browser, by keyboard too, in both themes and on a phone.

The service is the real one with a real database; who asks is told by a token, and Slurm is
synthetic. A launch from there is in tests/browser/sessions/test_launch.py."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from hub_client import wait_until
from looks import check
from remembered import with_store
from session_records import recorded

from portal.models.catalog.catalog import Measurement, Verdict
from portal.models.catalog.environment import Environment
from portal.models.catalog.image_job import Facts, KernelResult, TestResult, WorkState
from portal.models.session.session import SessionState
from portal.store import Store
from tests.benchmarks.page import hubs_own
from tests.benchmarks.synthetic_service import ADMIN_TOKEN, Service, synthetic_service

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect

USER = "ada"
TIMES = "\N{MULTIPLICATION SIGN}"
DIGEST = "sha256:" + "0123456789abcdef" * 4
TEXT = """# PyTorch from NGC

With **CUDA**. See [NGC](https://catalog.ngc.nvidia.com).

<script>document.title = "owned"</script>
[bad](javascript:document.title='owned')

| GPU | good for |
|----:|----------|
| v100 | training |
"""
TORCH = {
    "name": "pytorch",
    "title": "PyTorch 2.9",
    "kind": "container",
    "description": TEXT,
    "icon": "fire",
    "tags": ["ngc", "pytorch"],
    "source": "docker://nvcr.io/nvidia/pytorch:25.10-py3",
    "digest": DIGEST,
    "image": "/images/pytorch.sif",
    "kernels": [{"name": "python3", "title": "Python 3", "language": "python"}],
    "starters": ["pytorch-first-steps.ipynb"],
    "gpu_types": ["v100", "t4"],
    "order": 5,
}
OTHERS = [
    {
        "name": "plain",
        "title": "Plain Python",
        "kind": "venv",
        "path": "/opt/plain",
        "description": "NumPy and pandas.",
        "tags": ["python"],
        "order": 1,
    },
    {
        "name": "tensorflow",
        "title": "TensorFlow 1",
        "kind": "venv",
        "path": "/opt/tf",
        "tags": ["tensorflow", "python"],
        "state": "deprecated",
        "message": "Take TensorFlow 2 before March.",
        "order": 2,
    },
    {
        "name": "broken",
        "title": "Broken image",
        "kind": "container",
        "image": "/images/broken.sif",
        "order": 3,
    },
    {
        "name": "secret",
        "title": "For others",
        "kind": "venv",
        "path": "/opt/secret",
        "groups": ["others"],
        "order": 4,
    },
]


async def _fill(store: Store) -> None:
    torch = Environment.model_validate(TORCH)
    broken = Environment.model_validate(OTHERS[2])
    packages = ("numpy==2.3.4", "torch==2.9.1", *(f"package-{n:03}==1.{n}" for n in range(80)))
    facts = Facts(
        architecture="x86_64",
        distribution="Ubuntu 24.04.3 LTS",
        versions={"torch": "2.9.1", "python": "3.12.3", "cuda": "13.0", "nccl": "2.27.7"},
        packages=packages,
        added=("ipykernel==7.1.0",),
    )
    failed = "nvidia-smi sees no GPU on this node."
    for gpu_type, passed in (("", True), ("v100", True), ("t4", False)):
        test = await store.tests.add_test(
            fingerprint=torch.fingerprint,
            name="pytorch",
            number=None,
            gpu_type=gpu_type,
            asker="grace",
            nonce="n",
            log="",
            at=1.7e9,
        )
        kernel = KernelResult(kernel=torch.kernels[0], passed=True, seconds=1.4, version="3.12.3")
        result = TestResult(
            server="inside",
            server_seconds=3.0,
            kernels=(kernel,),
            gpu_type=gpu_type,
            gpus=1 if gpu_type else 0,
            simulated=bool(gpu_type),
            facts=facts,
        )
        message = "" if passed else failed
        await store.tests.change(
            test.id,
            state=WorkState.PASSED if passed else WorkState.FAILED,
            message=message,
            ended_at=1.7e9,
            result=result.model_dump(mode="json") if passed else None,
        )
        await store.tests.save_verdict(
            Verdict(
                fingerprint=torch.fingerprint,
                gpu_type=gpu_type,
                passed=passed,
                message=message,
                at=1.7e9,
                facts=facts.model_dump(mode="json") if passed else {},
            )
        )
    await store.tests.save_verdict(
        Verdict(
            fingerprint=broken.fingerprint,
            gpu_type="",
            passed=False,
            message="The server did not start: no module named 'jupyterhub'.",
            at=1.7e9,
        )
    )
    on_cpus = Measurement(
        environment="pytorch", version=None, benchmark="resnet50", gpu_type="", gpus=0,
        precision="fp32", images_per_second=11.5, simulated=False, person=USER, session_id="s",
        at=1.7e9,
    )  # fmt: skip
    await store.measurements.add_measurement(on_cpus)
    on_v100 = {"gpu_type": "v100", "precision": "fp16", "simulated": True}
    for gpus, speed in ((1, 1234.0), (2, 2345.0)):
        changes = on_v100 | {"gpus": gpus, "images_per_second": speed}
        await store.measurements.add_measurement(on_cpus.model_copy(update=changes))
    await store.sessions.save(
        recorded(
            id="past",
            user=USER,
            environment="tensorflow",
            state=SessionState.ENDED,
            submitted_at=1.7e9,
            ended_at=1.7e9 + 60,
        )
    )


async def _fill_own(store: Store, environment: Environment) -> None:
    """A test of a person's own image that did not pass."""
    message = "The image holds no Python that can run a notebook server."
    test = await store.tests.add_test(
        fingerprint=environment.fingerprint,
        name=environment.name,
        number=None,
        gpu_type="",
        asker=environment.owner,
        nonce="n",
        log="",
        at=1.7e9,
    )
    await store.tests.change(test.id, state=WorkState.FAILED, message=message, ended_at=1.7e9 + 60)
    await store.tests.save_verdict(
        Verdict(
            fingerprint=environment.fingerprint,
            gpu_type="",
            passed=False,
            message=message,
            at=1.7e9,
        )
    )


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """A catalog of five, with tests and measurements; nobody may register their own."""
    # asyncio.run() inside: Playwright's own loop must not run in this thread yet.
    settings = (
        "c.EnvironmentCatalog.offer_untested = False\n"
        'c.CatalogRules.own_environments = "groups"\n'
        'c.CatalogRules.own_groups = ["own"]\n'
    )
    with synthetic_service(8, 20, telemetry="simulated", settings=settings) as started:
        with_store(started.database, _fill)
        for one in (TORCH, *OTHERS):
            (started.environments / f"{one['name']}.yaml").write_text(json.dumps(one))
        # Verdicts are asked for every few seconds only.
        headers = {"Authorization": f"token {USER}-token"}
        address = f"{started.url}api/v1/environments"
        wait_until(
            "the tested environment is offered",
            lambda: '"pytorch"' in httpx.get(address, headers=headers, timeout=120).text,
        )
        yield started


@pytest.fixture
def visit(service: Service, page: Any, unharmed: None) -> Callable[..., None]:
    """Opens a page of the service as somebody."""
    page.route("**/hub/static/**", hubs_own)

    def go(path: str, user: str = USER) -> None:
        token = ADMIN_TOKEN if user == "grace" else f"{user}-token"
        page.set_extra_http_headers({"Authorization": f"token {token}"})
        page.goto(f"{service.url}{path}")

    return go


def titles(page: Any) -> list[str]:
    """The tiles that one sees, in their order."""
    return list(page.locator(".tile:visible h3").all_inner_texts())


def test_tiles_say_what_one_gets(visit: Callable[..., None], page: Any) -> None:
    visit("catalog")
    torch = page.locator(".tile[data-name=pytorch]")

    def complete() -> bool:  # the first page may come before the versions are known
        page.reload()
        return "PyTorch 2.9.1" in torch.inner_text()

    wait_until("the versions are known", complete)
    # What was used last stands first; what is for others or broken is not there.
    assert titles(page) == ["TensorFlow 1", "Plain Python", "PyTorch 2.9"]
    expect(torch).to_contain_text("PyTorch 2.9.1 · Python 3.12.3 · CUDA 13.0")
    expect(torch).to_contain_text("With CUDA. See NGC.")
    expect(torch).to_contain_text("tested 14 Nov 2023")
    gpus = torch.locator(".tile-gpus li").all_inner_texts()
    assert gpus == ["v100 2,345 images/s simulated"]  # t4 did not pass its test
    expect(page.locator(".tile[data-name=tensorflow]")).to_contain_text(
        "Deprecated. Take TensorFlow 2 before March."
    )
    launch = torch.get_by_role("link", name="Launch PyTorch 2.9")
    assert launch.get_attribute("href") == "/hub/spawn?opt-environment=pytorch"
    expect(page.get_by_role("link", name="Catalog").first).to_have_attribute("aria-current", "page")
    check(page, "catalog")


def test_search_tags_and_keyboard(visit: Callable[..., None], page: Any) -> None:
    visit("catalog")
    search = page.get_by_label("Search environments")
    count = page.locator("#find-count")
    search.press_sequentially("torch cuda")
    expect(count).to_have_text("1 environment of 3.")
    assert titles(page) == ["PyTorch 2.9"]
    search.press("Enter")
    expect(page.get_by_role("link", name="PyTorch 2.9", exact=True)).to_be_focused()
    search.fill("nothing like this")
    expect(count).to_have_text("No environment matches. Use fewer words or tags.")
    search.fill("")
    page.get_by_role("button", name="python", exact=True).press("Space")
    expect(count).to_have_text("2 environments of 3.")
    page.reload()  # the address keeps it
    expect(count).to_have_text("2 environments of 3.")
    expect(page.get_by_role("button", name="python", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )


def test_historical_environments_do_not_crowd_the_catalog(
    visit: Callable[..., None], page: Any, service: Service
) -> None:
    old = {
        "name": "theano",
        "title": "Theano",
        "kind": "venv",
        "path": "/opt/theano",
        "tags": ["historical", "theano"],
        "order": 0,
    }
    file = service.environments / "theano.yaml"
    file.write_text(json.dumps(old))
    try:
        visit("catalog", "barbara")
        tile = page.locator(".tile[data-name=theano]")

        def listed() -> bool:
            page.reload()
            return bool(tile.count())

        wait_until("the new file is read", listed)
        assert titles(page) == ["Plain Python", "TensorFlow 1", "PyTorch 2.9"]
        page.get_by_role("button", name="Show all 4 environments").click()
        assert titles(page)[0] == "Theano"
        expect(tile.get_by_role("link", name="Theano", exact=True)).to_be_focused()
        expect(page.locator("#find-all")).to_be_hidden()
        check(page, "catalog-historical")
        page.reload()
        expect(tile).to_be_hidden()
        page.get_by_label("Search environments").fill("theano")
        assert titles(page) == ["Theano"]  # a search looks through all
        page.get_by_role("button", name="Favourite: Theano").click()
        expect(page.locator("#board-status")).to_have_text("Theano is added to your favourites.")
        visit("catalog", "barbara")
        assert titles(page)[0] == "Theano"
    finally:
        file.unlink()


def test_favourites_come_first(visit: Callable[..., None], page: Any, service: Service) -> None:
    visit("catalog", "barbara")
    assert titles(page)[-1] == "PyTorch 2.9"
    page.get_by_role("button", name="Favourite: PyTorch 2.9").press("Enter")
    expect(page.locator("#board-status")).to_have_text("PyTorch 2.9 is added to your favourites.")
    page.get_by_role("button", name="favourites", exact=True).click()
    assert titles(page) == ["PyTorch 2.9"]
    visit("catalog", "barbara")
    assert titles(page)[0] == "PyTorch 2.9"
    visit("catalog/pytorch", "barbara")
    star = page.get_by_role("button", name="Favourite: PyTorch 2.9")
    expect(star).to_have_attribute("aria-pressed", "true")
    star.click()
    expect(page.locator("#board-status")).to_have_text(
        "PyTorch 2.9 is removed from your favourites."
    )
    # What the service refuses is put back, and said.
    page.route("**/favourite", lambda route: route.abort())
    star.click()
    expect(page.locator(".note-bad")).to_contain_text("does not answer")
    expect(star).to_have_attribute("aria-pressed", "false")


def test_an_environment_with_all_that_is_inside(visit: Callable[..., None], page: Any) -> None:
    visit("catalog/pytorch")
    assert page.title().startswith("PyTorch 2.9")  # no script of the description ran
    text = page.locator(".markdown")
    expect(text.get_by_role("link", name="NGC")).to_have_attribute(
        "rel", "nofollow noopener noreferrer"
    )
    assert text.get_by_role("link").count() == 1
    expect(text).to_contain_text("<script>")
    rows = page.locator("section:has(#gpus-title) tbody tr").all_inner_texts()
    assert [row.split()[0] for row in rows] == ["CPU", "v100", "t4"]
    assert "passed, 14 Nov 2023" in rows[1] and "simulated GPUs" in rows[1]
    assert "failed" in rows[2] and "nvidia-smi sees no GPU on this node." in rows[2]
    facts = page.locator(".about-facts")
    for words in ("PyTorch\n2.9.1", "NCCL\n2.27.7", "Ubuntu 24.04.3 LTS", DIGEST, "no sessions"):
        assert words in facts.inner_text()
    expect(page.locator("section:has(#kernels-title)")).to_contain_text(
        "Python 3 python 3.12.3, answered in 1.4 s"
    )
    expect(page.locator("#measured-plot canvas")).to_have_attribute(
        "aria-label",
        f"Images per second. Highest: 2,345 on 2 {TIMES} v100 in fp16, simulated. "
        "The table below has all values.",
    )
    page.get_by_text("As a table").click()
    # A narrow table's rows say what each value is.
    row = re.compile(f"resnet50 (Hardware )?2 {TIMES} v100 simulated (Precision )?fp16")
    expect(page.get_by_role("row", name=row)).to_be_visible()
    search = page.get_by_label("Search packages")
    search.fill("torch")
    expect(page.locator("#packages-count")).to_have_text("1 package of 82.")
    assert page.locator("#packages li:visible").all_inner_texts() == ["torch==2.9.1"]
    search.fill("")
    expect(page.get_by_role("link", name="Manage this environment")).to_have_count(0)
    check(page, "catalog-environment")


def test_what_is_not_theirs_is_not_there(visit: Callable[..., None], page: Any) -> None:
    for name in ("secret", "broken", "nothing"):
        visit(f"catalog/{name}")
        expect(page.locator("main")).to_contain_text(
            f"There is no environment '{name}' that you may use."
        )


def test_those_who_curate_see_what_is_not_offered(visit: Callable[..., None], page: Any) -> None:
    visit("catalog", "grace")
    closed = page.locator("section:has(#closed-title)")
    expect(closed).to_contain_text("no module named 'jupyterhub'")
    closed.get_by_role("link", name="Broken image").click()
    expect(page.locator(".tile-state")).to_contain_text("Not offered. The test failed")
    expect(page.get_by_role("link", name="Manage this environment")).to_have_attribute(
        "href", "/services/portal/curate/environments/broken"
    )
    expect(page.get_by_role("link", name="Launch Broken image")).to_have_count(0)


def test_a_request_is_sent_and_its_answer_read(
    visit: Callable[..., None], page: Any, service: Service
) -> None:
    visit("catalog")
    page.get_by_role("link", name="Request an environment").click()
    page.wait_for_url("**/catalog/request")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert")).to_have_text("Describe what you need, or enter an image.")
    source = page.get_by_label("Image (optional)")
    source.fill("docker://nvcr.io/nvidia/jax:25.10-py3")
    text = page.get_by_label("What do you need")
    text.fill("JAX, for <b>the</b> summer school.")
    page.get_by_role("button", name="Send").click()
    mine = page.locator("#requests .entry")
    expect(mine).to_contain_text("JAX, for <b>the</b> summer school.")
    expect(mine).to_contain_text("Waiting for an answer")
    expect(text).to_have_value("")
    check(page, "catalog-request")
    asked = json.loads(service.get("api/v1/environment-requests", f"{USER}-token"))["items"]
    body = json.dumps({"state": "done", "answer": "Here it is.", "environment": "pytorch"})
    answered = page.request.post(
        f"{service.url}api/v1/environment-requests/{asked[0]['id']}/answer",
        headers={"Authorization": f"token {ADMIN_TOKEN}", "Content-Type": "application/json"},
        data=body,
    )
    assert answered.ok, answered.text()
    page.reload()
    expect(mine).to_contain_text("grace: Here it is.")
    mine.get_by_role("link", name="View pytorch").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("PyTorch 2.9")


def test_where_nobody_may_register_the_page_says_so(visit: Callable[..., None], page: Any) -> None:
    visit("catalog")
    expect(page.get_by_role("link", name="Your environments")).to_have_count(0)
    visit("catalog/own")
    expect(page.locator("#refusal")).to_contain_text(
        "does not let you register your own environments"
    )
    expect(page.locator("form.card-form")).to_have_count(0)
    page.get_by_role("link", name="Request an environment").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Request an environment")


def test_ones_own_says_why_it_failed_and_is_removed(
    visit: Callable[..., None], page: Any, service: Service
) -> None:
    own = {
        "name": "ada.mine",
        "title": "My image",
        "kind": "container",
        "image": "/home/ada/mine.sif",
        "private": True,
        "owner": USER,
    }
    file = service.environments.parent / "kept/own/ada.mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(own))
    environment = Environment.model_validate(own)
    with_store(service.database, lambda store: _fill_own(store, environment))
    visit("catalog/own", "barbara")
    expect(page.locator("#own-list")).to_have_count(0)
    visit("catalog/own")
    entry = page.locator("[data-environment='ada.mine']")
    expect(entry).to_contain_text("Cannot be launched")
    expect(entry).to_contain_text("The image holds no Python")
    expect(entry).to_contain_text("Test log")
    check(page, "catalog-own")
    entry.get_by_role("link", name="My image").click()
    expect(page.locator("main")).to_contain_text("Your own environment. Only you see it.")
    visit("catalog/ada.mine", "barbara")
    expect(page.locator("main")).to_contain_text("There is no environment 'ada.mine'")
    visit("catalog/own")
    entry.get_by_role("button", name="Remove… My image").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    expect(page.locator("#own-empty")).to_be_visible()
    assert not file.exists()


def test_many_environments_are_searched_without_waiting(
    visit: Callable[..., None], page: Any, service: Service
) -> None:
    made = []
    for number in range(200):
        one = {**OTHERS[0], "name": f"many-{number:03}", "title": f"Many {number}", "order": 900}
        made.append(service.environments / f"{one['name']}.yaml")
        made[-1].write_text(json.dumps(one))

    def offered() -> bool:
        shown = service.get("catalog", f"{USER}-token").decode()
        return all(path.stem in shown for path in made)

    try:
        wait_until("the page has them all", offered)
        visit("catalog")
        expect(page.locator(".tile")).to_have_count(203)
        search = page.get_by_label("Search environments")
        seconds = search.evaluate(
            """input => {
              const began = performance.now();
              input.value = "many 17";
              input.dispatchEvent(new Event("input", { bubbles: true }));
              document.body.getBoundingClientRect(); // laid out anew
              return (performance.now() - began) / 1000;
            }"""
        )
        expect(page.locator("#find-count")).to_have_text("12 environments of 203.")
        assert seconds < 2
    finally:
        for path in made:
            path.unlink()
