"""From a reference of NGC to a tile, and into a session: as an admin and as people live it.

Grace pastes ``docker://nvcr.io/…``, which a registry on loopback answers, watches the build and
the smoke tests, and publishes to one group. Ada finds the tile and runs every kernel. Somebody else
sees nothing of it, and an image that does not work is refused with its reason. Pictures go to
build/screenshots/."""

from __future__ import annotations

import os
import re
import secrets
import ssl
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ldap3
import pytest
from api_client import Caller
from chromium import SOON
from clicks import Clicks
from hub_client import Person, wait_until
from images import broken
from lab_page import log_in, run_cell
from looks import take_picture
from notebook_kernel import NotebookKernel, Ran
from registry import Registry, registry
from tools_image import tools

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

ROOT = Path(__file__).resolve().parents[3]
CONFIG = ROOT / "deploy/demo/jupyterhub_config.py"
NGC = "docker://nvcr.io/nvidia/pytorch:25.10-py3"
BROKEN = "docker://nvcr.io/nvidia/broken:1.0"
GROUP, MEMBER, OUTSIDER = "vision", "ada", "student09"
MARK = secrets.token_hex(3)  # a name stays for ever, and a demo may see this story twice
NAME, BROKEN_NAME = f"pytorch-{MARK}", f"broken-{MARK}"
BUILD, TESTS = 900_000, 480_000  # milliseconds; the machine may be busy
KERNELS = {  # the launcher's card, what is run, and what it says
    "Python 3": ("import sys; print(sys.version_info[0] + 40, 'done')", "43 done"),
    "Python 2": ("import sys; print sys.version_info[0] + 40, 'done'", "42 done"),
    "R": ("cat(6 * 7, 'done')", "42 done"),
    "Bash": ("echo $((6 * 7)) done", "42 done"),
}


@pytest.fixture(scope="module")
def nvcr() -> Iterator[Registry]:
    """What answers for nvcr.io: one image with all kernels, and one that cannot work."""
    with registry() as one:
        one.push("nvidia/pytorch", "25.10-py3", tools())
        one.push("nvidia/broken", "1.0", broken())
        yield one


@pytest.fixture(scope="module")
def group(demo: Any) -> Iterator[str]:
    """A group of the directory that ada is in, and the outsider is not."""
    words = demo.words["ldap"]
    entry = f"cn={GROUP},{words['groups_dn']}"
    members = [f"uid={name},{words['people_dn']}" for name in (MEMBER, "grace")]
    password = Path(words["admin_password_file"]).read_text().strip()
    tls = ldap3.Tls(validate=ssl.CERT_REQUIRED, ca_certs_file=words["ca_file"])
    server = ldap3.Server(words["ldaps_uri"], use_ssl=True, tls=tls)
    with ldap3.Connection(server, words["admin_dn"], password, auto_bind=True) as directory:
        directory.delete(entry)  # of a run that was killed
        assert directory.add(entry, "groupOfNames", {"cn": GROUP, "member": members})
        yield GROUP
        directory.delete(entry)


@pytest.fixture(scope="module", autouse=True)
def cleared(demo: Any) -> Iterator[None]:
    """Nothing of this story stays in the catalog."""
    yield
    with Caller(demo.url, "grace") as grace:
        for name in (NAME, BROKEN_NAME):
            grace.post(f"environments/{name}/withdraw", json={"message": "The test is over."})
        grace.delete("registries/nvcr.io")


@pytest.fixture
def visitor(demo: Any, browser: Any) -> Iterator[Callable[[str], Any]]:
    """``visitor("ada")``: a page of a browser of their own, logged in."""
    contexts = []

    def visit(name: str) -> Any:
        context = browser.new_context(viewport={"width": 1200, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(SOON)
        log_in(page, demo, name)
        page.wait_for_url(re.compile("/(hub|user)/"))
        return page

    yield visit
    for context in contexts:
        context.close()


def service(demo: Any, path: str) -> str:
    return f"{demo.url}/services/portal/{path}"


def images_command(demo: Any, *words: str) -> Any:
    """``portal images WORDS`` of the demo, as the Hub's account."""
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PORTAL_DEMO_STATE": str(demo.home.run / "state.json"),
    }
    return demo.run(
        [sys.executable, "-m", "portal", "images", *words, f"-f={CONFIG}"],
        user="portal" if demo.people else None,
        env=env,
        check=False,
        timeout=300,
    )


def picture(page: Any, name: str) -> None:
    take_picture(page, f"ngc-{name}")


def paste(page: Any, source: str, name: str) -> None:
    """On the page of a new environment, look ``source`` up, and give it a name of ours."""
    page.get_by_label("Image reference or path").fill(source)
    page.get_by_role("button", name="Look up image").click()
    expect(page.locator("#origin-words")).to_contain_text("sha256:")
    proposed = source.rpartition("/")[2].partition("-")[0].replace(":", "-")
    expect(page.get_by_label("Name", exact=True)).to_have_value(proposed)
    page.get_by_label("Name", exact=True).fill(name)
    expect(page.locator("#editor-status")).to_contain_text("No problems")


def test_from_a_reference_to_a_tile(
    demo: Any, nvcr: Registry, group: str, visitor: Callable[[str], Any]
) -> None:
    grace = visitor("grace")
    grace.goto(service(demo, "curate/registries"))
    grace.get_by_label("Registry", exact=True).fill("nvcr.io")
    grace.get_by_label("User name").fill("$oauthtoken")
    grace.get_by_label("Password or API key").fill("a-key-of-ngc")
    grace.get_by_label("Mirror").fill(nvcr.host)
    grace.get_by_label("Insecure").check()
    picture(grace, "1-registry")
    grace.get_by_role("button", name="Save").click()
    expect(grace.locator("#list")).to_contain_text("nvcr.io")
    assert "a-key-of-ngc" not in grace.content()

    with Clicks(grace).at_most(8, "publish an environment from a reference"):
        grace.get_by_role("link", name="Curate", exact=True).click()
        grace.get_by_role("link", name="New environment").click()
        paste(grace, NGC, NAME)
        expect(grace.get_by_label("Title", exact=True)).to_have_value("PyTorch 25.10")
        grace.get_by_label("Change note").fill("NGC's PyTorch of October")
        picture(grace, "2-paste")
        grace.get_by_role("button", name="Build", exact=True).click()

        grace.wait_for_url(re.compile("/curate/builds/[0-9]+"))
        expect(grace.locator("#log")).to_contain_text(re.compile(r"\w"), timeout=BUILD)
        picture(grace, "3-build")
        expect(grace.get_by_role("heading", name="Smoke tests")).to_be_visible(timeout=BUILD)
        expect(grace.locator("#tests-words")).to_contain_text("tests passed", timeout=TESTS)
        tests = grace.locator("#tests")
        for kernel in KERNELS:
            expect(tests).to_contain_text(kernel)
        grace.get_by_role("heading", name="Smoke tests").scroll_into_view_if_needed()
        picture(grace, "4-tested")

        grace.get_by_role("button", name="Publish", exact=True).click()
        form = grace.get_by_role("form", name="Publish version")
        form.get_by_label("Members of groups").check()
        form.get_by_label("Groups, separated by commas").fill(group)
        picture(grace, "5-publish")
        form.get_by_role("button", name="Publish").click()
        grace.wait_for_url(re.compile(f"/curate/{NAME}"))


def test_the_image_is_unpacked_on_the_nodes(demo: Any) -> None:
    # One after the other: the demo's nodes have one disk, and all of them would unpack at once.
    for options, nodes in ((["--node=cpu01"], ["cpu01"]), ([], ["cpu01", "gpu01"])):
        done = images_command(demo, "cache", *options, NAME)
        assert done.returncode == 0, done.stdout + done.stderr
        for node in nodes:
            assert re.search(rf"(?m)^{node}: passed", done.stdout), done.stdout


def test_a_member_of_the_group_runs_every_kernel(demo: Any, visitor: Callable[[str], Any]) -> None:
    person = Person(demo.url, MEMBER)
    person.stop()
    ada = visitor(MEMBER)
    try:
        ada.goto(service(demo, "catalog"))
        ada.get_by_label("Search environments").fill("25.10")
        tile = ada.locator(f".tile[data-name='{NAME}']", has_text="PyTorch 25.10")
        expect(tile).to_be_visible()
        picture(ada, "6-tile")
        tile.get_by_role("link", name=re.compile("Launch")).click()
        ada.wait_for_url(re.compile("/hub/spawn"))
        expect(ada.locator(f"input[type=radio][value='{NAME}']")).to_be_checked()
        ada.get_by_role("button", name="Start", exact=True).click()  # a course has one of its own
        ada.wait_for_url(re.compile(f"/user/{MEMBER}/lab"), timeout=BUILD)
        for title, (code, answer) in KERNELS.items():
            ada.goto(f"{demo.url}/user/{MEMBER}/lab/workspaces/{title.replace(' ', '')}?reset")
            labels = ada.locator(
                ".jp-LauncherCard[data-category='Notebook'] .jp-LauncherCard-label"
            )
            own = labels.filter(has_not_text="·")  # those in jobs of their own name their GPUs
            own.filter(has_text=re.compile(rf"^\s*{title}\b")).click()
            toolbar = ada.locator(".jp-NotebookPanel-toolbar")
            expect(toolbar).to_contain_text(title)
            assert answer in run_cell(ada, code)
            if title == "Python 2":
                picture(ada, "7-python2")
        # Another last word than that of the output above.
        said = run_cell(ada, "echo image=$APPTAINER_CONTAINER told", "told")
        assert f"image={demo.words['node_cache']}/" in said  # unpacked, not the SIF
        ada.goto("about:blank")
    finally:
        person.stop()


def _ran_in_a_job(person: Person, spec: str, code: str) -> Ran:
    wait_until(  # the session writes it a moment after the portal offers it
        "its kernelspec is there",
        lambda: spec in person.session("GET", "api/kernelspecs").json()["kernelspecs"],
    )
    kernel = NotebookKernel.start(person, spec)
    ran = kernel.run(code)
    kernel.leave()
    kernel.shut_down()
    return ran


def test_each_kernel_runs_in_a_job_of_its_own_too(demo: Any) -> None:
    """From a session in another environment, without GPUs."""
    person = Person(demo.url, MEMBER)
    person.stop()
    try:
        answer = person.launch({"environment": "python-venv", "gpus": 0})
        assert answer.status_code in (201, 202), answer.text
        person.wait_ready()

        def offered() -> list[dict[str, str]]:
            items = person.session("GET", "portal/job-kernels").json().get("items", [])
            return next((item["kernels"] for item in items if item["environment"] == NAME), [])

        kernels = wait_until("its kernels are offered", offered)
        assert len(kernels) == len(KERNELS), kernels
        for kernel in kernels:
            title = next(title for title in KERNELS if kernel["title"].startswith(title))
            code, said = KERNELS[title]
            with ThreadPoolExecutor(1) as thread:  # Playwright has this one's event loop
                spec = f"job-{NAME}-{kernel['name']}-t4".lower()
                ran = thread.submit(_ran_in_a_job, person, spec, code).result()
            assert (ran.status, ran.printed.strip()) == ("ok", said), (kernel, ran)
    finally:
        person.stop()


def test_somebody_else_sees_nothing_of_it(demo: Any, visitor: Callable[[str], Any]) -> None:
    page = visitor(OUTSIDER)
    page.goto(service(demo, "catalog"))
    expect(page.locator(".tile").first).to_be_visible()
    expect(page.locator(f"[data-name='{NAME}']")).to_have_count(0)
    assert NAME not in page.content()
    assert page.goto(service(demo, f"catalog/{NAME}")).status == 404
    with Caller(demo.url, OUTSIDER) as caller:
        assert caller.get(f"environments/{NAME}").status_code == 404
        assert NAME not in caller.get("environments").text
    outsider = Person(demo.url, OUTSIDER)
    refused = outsider.launch({"environment": NAME})
    assert refused.status_code == 403
    assert "environment with this name" in refused.text


def test_an_image_that_does_not_work_is_refused_with_its_reason(
    demo: Any, nvcr: Registry, visitor: Callable[[str], Any]
) -> None:
    grace = visitor("grace")
    grace.goto(service(demo, "curate/new"))
    paste(grace, BROKEN, BROKEN_NAME)
    grace.get_by_role("button", name="Build", exact=True).click()
    grace.wait_for_url(re.compile("/curate/builds/[0-9]+"))
    expect(grace.locator("#build, #tests-words").filter(has_text="libstdc++").first).to_be_visible(
        timeout=BUILD
    )
    picture(grace, "8-broken")
    with Caller(demo.url, "grace") as caller:
        version = caller.get(f"environments/{BROKEN_NAME}/versions/1").json()
        assert version["state"] == "failed"
        assert "libstdc++" in version["message"]
        refused = caller.post(f"environments/{BROKEN_NAME}/versions/1/publish", json={})
        assert refused.status_code == 409
    assert not (Path(demo.words["environments"]) / f"{BROKEN_NAME}.yaml").exists()
