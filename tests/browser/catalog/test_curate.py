"""The pages that curate the catalog, in a real browser on the real demo: what they say at which
place, that nothing typed is lost, and that nothing that images and people write becomes markup."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from chromium import late
from hub_client import Person, wait_until
from looks import check
from menus import choose_action
from remembered import stored
from sign_in import sign_in

from portal.courses.definition.limits import ELSEWHERE
from portal.launch.fields import FIELDS
from portal.models.catalog.image_job import BuildResult, Facts, Server, TestResult, WorkState
from portal.models.scope import ENVIRONMENTS_MANAGE, right
from portal.store import Store

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python.sync_playwright")
expect = playwright.expect
pytestmark = pytest.mark.usefixtures("unharmed")

PORTAL = "/services/portal/"
API = f"{PORTAL}api/v1/"
HOSTILE = "<img src=x onerror=window.hacked=1>"
DIGEST = "sha256:" + "a" * 64
NONCE = "0123456789abcdef" * 2  # what a log says with it is not shown


def tab(page: Any, name: str) -> None:
    """Open this tab of an environment."""
    page.get_by_role("navigation", name="Environment").get_by_role("link", name=name).click()


@pytest.fixture
def grace(demo: Any, page: Any) -> Any:
    """The page, as grace, an admin."""
    sign_in(page, demo.url, "grace")
    return page


@pytest.fixture(scope="module")
def admin(demo: Any) -> Person:
    """Grace's API client."""
    return Person(demo.url, "grace")


def visit(page: Any, demo: Any, path: str = "") -> None:
    page.goto(f"{demo.url}{PORTAL}curate{path}")


def ask(person: Person, method: str, path: str, body: Any = None) -> Any:
    """A call of the portal's API with a token; the answer's JSON."""
    person.api("GET", "/user")  # makes the token
    headers = {"Authorization": f"token {person.token}"}
    answer = person.http.request(method, f"{API}{path}", json=body, headers=headers)
    assert answer.status_code < 400, answer.text
    return answer.json() if answer.content else None


def venv(demo: Any) -> str:
    """The demo's virtual environment, which every person can read."""
    return str(yaml.safe_load((demo.environments / "python-venv.yaml").read_text())["path"])


def draft(demo: Any, admin: Person, name: str, **more: Any) -> dict[str, Any]:
    """A new environment through the API, which need not be built."""
    definition = {"name": name, "title": f"Title of {name}", "kind": "venv", "path": venv(demo)}
    body = {"definition": definition | more, "comment": "made by a test"}
    made: dict[str, Any] = ask(admin, "POST", "environments", body)
    return made


@pytest.fixture
def named(demo: Any) -> Iterator[str]:
    """A name that no environment has; its file is gone at the end."""
    name = f"curated-{time.monotonic_ns():x}"
    yield name
    (demo.environments / f"{name}.yaml").unlink(missing_ok=True)


def log_file(demo: Any, text: str) -> Path:
    """A log of a job, the service's own as it must be."""
    folder = Path(demo.words["image_logs"])
    log = folder / f"curate-{time.monotonic_ns():x}.log"
    log.write_text(text)
    if os.geteuid() == 0:
        os.chown(log, folder.stat().st_uid, folder.stat().st_gid)
    return log


def confirm(page: Any, button: str, text: str | None = None) -> None:
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    if text is not None:
        dialog.get_by_role("textbox").fill(text)
    dialog.get_by_role("button", name=button, exact=True).click()
    expect(dialog).to_have_count(0)


def problem_of(page: Any, label: str) -> Any:
    """What is said at a field: the element that its aria-describedby names."""
    field = page.get_by_label(label, exact=True)
    ids = str(field.get_attribute("aria-describedby")).split()
    return page.locator(f"#{next(id for id in ids if id.endswith('-problem'))}")


def test_who_may_not_curate_sees_no_such_page(demo: Any, page: Any) -> None:
    sign_in(page, demo.url, "ada")
    page.goto(f"{demo.url}{PORTAL}")
    expect(page.get_by_role("link", name="Curate", exact=True)).to_have_count(0)
    for path in ("", "/new", "/python-venv", "/builds/1", "/registries"):
        visit(page, demo, path)
        expect(page.locator("#error-message")).to_contain_text(right(ENVIRONMENTS_MANAGE))


def test_a_pasted_reference_becomes_a_proposal(demo: Any, grace: Any) -> None:
    visit(grace, demo)
    grace.get_by_role("link", name="New environment").click()
    grace.wait_for_url("**/curate/new")
    expect(grace.get_by_role("heading", name="New environment")).to_be_visible()
    source = grace.get_by_label("Image reference or path")
    source.fill("pytorch:25.10")
    grace.get_by_role("button", name="Look up image").click()
    expect(grace.locator("#origin-problem")).to_contain_text("docker://REGISTRY/REPOSITORY:TAG")
    source.fill("docker://127.0.0.1:9/nvidia/pytorch:25.10-py3")
    grace.get_by_role("button", name="Look up image").click()
    expect(grace.get_by_label("Name", exact=True)).to_have_value("pytorch-25.10")
    expect(grace.get_by_label("Title", exact=True)).to_have_value("PyTorch 25.10")
    expect(grace.get_by_label("Tags", exact=True)).to_have_value("pytorch, python 3")
    # Nothing answers there, which the registry's part says in its own words, at the reference.
    expect(grace.locator("#origin-problem")).to_contain_text("127.0.0.1:9")
    # A title that somebody typed stays when another reference is looked up.
    grace.get_by_label("Title", exact=True).fill("Ours")
    source.fill("/images/tensorflow-2.sif")
    grace.get_by_role("button", name="Look up image").click()
    expect(grace.get_by_label("Name", exact=True)).to_have_value("tensorflow-2")
    expect(grace.get_by_label("Title", exact=True)).to_have_value("Ours")
    expect(grace.locator("#editor-status")).to_have_text("No problems.")
    expect(grace.get_by_role("button", name="Build", exact=True)).to_be_enabled()


TOY = {
    "name": "licenses",
    "label": "Licenses",
    "number": False,
    "usual": None,
    "help": "Licenses such as matlab:2.",
    "values": ["matlab:1"],
}


@pytest.mark.parametrize(
    ("path", "fields", "key", "parts", "left_out"),
    [
        ("curate/new", 'id="resource-fields">[', "definition", ["default"], {}),
        ("courses/new", '"fields": [', "course", ["default", "largest"], ELSEWHERE),
    ],
    ids=["environment", "course"],
)
def test_the_resources_in_a_form_are_those_of_the_portal_s_table(
    demo: Any, grace: Any, path: str, fields: str, key: str, parts: list[str], left_out: Any
) -> None:
    def with_toy(route: Any) -> None:
        """The page, as it is when the table has one more row."""
        answer = route.fetch()
        assert answer.text().count(fields) == 1
        body = answer.text().replace(fields, f"{fields}{json.dumps(TOY)}, ")
        route.fulfill(response=answer, body=body)

    grace.route(f"**/{path}", with_toy)
    grace.goto(f"{demo.url}{PORTAL}{path}")
    labels = ["Licenses", *(field.label for field in FIELDS if field.name not in left_out)]
    for part in parts:
        field = grace.locator(f"#field-{part}-licenses")
        group = grace.locator("details", has=field)
        shown = group.locator("label.form-label")
        assert shown.all_text_contents() == labels
        assert field.get_attribute("list") == "values-of-licenses"
        group.locator("summary").click()
        with grace.expect_request("**/validate") as asked:
            field.fill("matlab:2")
        assert asked.value.post_data_json[key][part]["licenses"] == "matlab:2"
    assert grace.locator("#values-of-licenses option").count() == 1
    values = grace.locator("#values-of-gpu_type option")
    assert "v100" in [option.get_attribute("value") for option in values.all()]
    check(grace, f"resources-{parts[-1]}")


def test_each_field_says_what_is_wrong_with_it_while_one_types(demo: Any, grace: Any) -> None:
    visit(grace, demo, "/new")
    grace.get_by_label("Image reference or path").fill("/images/a.sif")
    grace.get_by_role("button", name="Look up image").click()
    expect(grace.locator("#editor-status")).to_have_text("No problems.")
    grace.get_by_label("Name", exact=True).fill("Not A Name")
    expect(problem_of(grace, "Name")).to_contain_text("Must be lowercase letters, digits")
    expect(grace.get_by_label("Name", exact=True)).to_have_attribute("aria-invalid", "true")
    grace.get_by_label("Name", exact=True).fill("a-name")
    expect(problem_of(grace, "Name")).to_be_empty()
    # What is folded opens where something is wrong in it.
    grace.get_by_text("Bind mounts and environment variables").click()
    grace.get_by_role("button", name="Add a bind mount").click()
    grace.get_by_label("Path on the node").fill("/etc/shadow")
    expect(grace.locator("#field-binds-problem")).to_contain_text("No. 1")
    grace.get_by_text("Bind mounts and environment variables").click()
    grace.get_by_text("Default resources").click()
    grace.get_by_label("Memory", exact=True).fill("lots")
    expect(problem_of(grace, "Memory")).to_have_text("Must be a size such as 32G or 512M.")
    expect(grace.get_by_role("button", name="Build", exact=True)).to_be_disabled()
    grace.get_by_label("Memory", exact=True).fill("4G")
    expect(problem_of(grace, "Memory")).to_be_empty()
    expect(grace.locator("#field-binds-problem")).to_contain_text("No. 1")
    expect(grace.locator("#field-binds-problem")).to_be_visible()
    check(grace, "curate-new")
    # The same, as text: with the line, which one can go to.
    grace.get_by_role("tab", name="YAML").click()
    text = grace.get_by_label("Definition (YAML)")
    expect(text).to_have_value(re.compile("memory: 4G"))
    text.fill("name: a-name\ntitle: A\nkind: container\nimage: /a.sif\ntitel: B\n")
    expect(grace.locator("#yaml-problems")).to_contain_text("did you mean 'title'?")
    grace.get_by_role("button", name="Line 5").click()
    assert text.evaluate("t => t.value.slice(t.selectionStart, t.selectionEnd)") == "titel: B"
    check(grace, "curate-text")
    # A text that cannot be read stays where it is; one that can fills the form.
    text.fill("name: [")
    grace.get_by_role("tab", name="Form").click()
    expect(text).to_have_value("name: [")
    text.fill("name: from-text\ntitle: From text\nkind: container\nimage: /a.sif\ntags: [x, y]\n")
    grace.get_by_role("tab", name="Form").click()
    expect(grace.get_by_label("Title", exact=True)).to_have_value("From text")
    expect(grace.get_by_label("Tags", exact=True)).to_have_value("x, y")


def test_what_was_typed_outlives_a_reload(demo: Any, grace: Any) -> None:
    visit(grace, demo, "/new")
    grace.get_by_label("Image reference or path").fill("/images/kept.sif")
    grace.get_by_role("button", name="Look up image").click()
    grace.get_by_label("Title", exact=True).fill(HOSTILE)
    expect(grace.locator("#editor-status")).to_have_text("No problems.")
    grace.once("dialog", lambda dialog: dialog.accept())
    grace.reload()
    note = grace.get_by_role("group", name="Unsaved changes")
    note.get_by_role("button", name="Restore").click()
    expect(grace.get_by_label("Title", exact=True)).to_have_value(HOSTILE)
    expect(note).to_have_count(0)


def test_from_a_draft_to_everyone_and_back(
    demo: Any, grace: Any, admin: Person, named: str
) -> None:
    """Publish, edit, compare, roll back, deprecate, withdraw."""
    visit(grace, demo, "/new")
    save = grace.get_by_role("button", name="Save draft")
    expect(save).to_be_disabled()  # once it is known that nothing is filled in yet
    grace.get_by_label("Kind", exact=True).select_option("Virtual environment")
    expect(grace.get_by_label("Source", exact=True)).to_be_hidden()
    grace.get_by_label("Title", exact=True).fill(f"First {HOSTILE}")
    grace.get_by_label("Name", exact=True).fill(named)
    grace.get_by_label("Virtual environment", exact=True).fill(venv(demo))
    grace.get_by_label("Change note").fill(f"the first {HOSTILE}")
    save.click()
    expect(grace.get_by_role("heading", name=f"First {HOSTILE}")).to_be_visible()
    expect(grace.locator("#environment")).to_contain_text("not published yet")
    expect(grace.locator("#versions")).to_contain_text(f"the first {HOSTILE}")
    assert not (demo.environments / f"{named}.yaml").exists()

    expect(grace.locator(".stepper > li")).to_have_text(["Test: next", "Publish: later"])
    choose_action(grace, "version 1", "Publish (version 1)")
    form = grace.get_by_role("form", name="Publish version 1")
    form.get_by_label("Members of groups").check()
    form.get_by_role("button", name="Publish", exact=True).click()
    expect(form.get_by_role("alert")).to_contain_text("Enter at least one group")
    form.get_by_label("Groups, separated by commas").fill("nobody-is-in-this")
    form.get_by_role("button", name="Publish", exact=True).click()
    expect(grace.locator("#versions")).to_contain_text("published")
    expect(grace.locator(".stepper > li")).to_have_text(["Test: done", "Publish: done"])
    written = yaml.safe_load((demo.environments / f"{named}.yaml").read_text())
    assert written["groups"] == ["nobody-is-in-this"]

    check(grace, "curate-environment")
    tab(grace, "Edit")
    grace.get_by_label("Title", exact=True).fill("Second")
    expect(grace.get_by_role("button", name="Save as a new version")).to_be_enabled()
    grace.get_by_label("Change note").fill("better words")
    grace.get_by_role("button", name="Save as a new version").click()
    expect(grace.locator("#edit-words")).to_have_text("Based on version 2.")
    check(grace, "curate-edit")
    tab(grace, "Versions")
    expect(grace.locator("#versions")).to_contain_text("better words")
    grace.get_by_role("button", name="Compare", exact=True).click()
    differs = grace.get_by_role("region", name="The definitions")
    expect(differs).to_contain_text(f"removed: title: First {HOSTILE}")
    expect(differs).to_contain_text("added: title: Second")
    check(grace, "curate-versions")

    choose_action(grace, "version 2", "Publish (version 2)")
    form = grace.get_by_role("form", name="Publish version 2")
    form.get_by_label("Everyone").check()
    form.get_by_role("button", name="Publish", exact=True).click()
    expect(grace.get_by_role("heading", name="Second")).to_be_visible()
    grace.get_by_role("button", name="Roll back… (version 1)").click()
    confirm(grace, "Roll back")
    expect(grace.get_by_role("heading", name=f"First {HOSTILE}")).to_be_visible()
    expect(grace.locator("#versions")).to_contain_text("Rolled back to version 1")

    choose_action(grace, f"First {HOSTILE}", "Deprecate…")
    confirm(grace, "Deprecate", f"Use the other one {HOSTILE}")
    expect(grace.locator("#environment")).to_contain_text(f"Use the other one {HOSTILE}")
    choose_action(grace, f"First {HOSTILE}", "Withdraw…")
    confirm(grace, "Withdraw", "It is broken.")
    expect(grace.locator("#environment")).to_contain_text("withdrawn")
    visit(grace, demo)
    row = grace.get_by_role("row").filter(has_text=named)
    expect(row).to_contain_text("not offered")
    expect(row).to_contain_text("It is broken.")
    visit(grace, demo, f"/{named}")
    choose_action(grace, f"First {HOSTILE}", "Offer again…")
    confirm(grace, "Offer again")

    def can_be_deprecated() -> bool:
        grace.keyboard.press("Escape")  # the page may have changed below an open menu
        grace.get_by_role("button", name=f"More actions for First {HOSTILE}").click()
        return bool(grace.get_by_role("button", name="Deprecate…").is_visible())

    wait_until("it is offered again", can_be_deprecated, 60)


def test_a_check_that_takes_its_time_keeps_nobody_from_saving(
    demo: Any, grace: Any, admin: Person, named: str
) -> None:
    draft(demo, admin, named)
    visit(grace, demo, f"/environments/{named}/edit")
    save = grace.get_by_role("button", name="Save as a new version")
    title = grace.get_by_label("Title", exact=True)
    expect(title).to_have_value(f"Title of {named}")
    grace.get_by_label("Change note").fill("checked slowly")
    title.press_sequentially(" of mine")
    expect(save).to_be_enabled()
    with late(grace, "**/environments/validate"):
        save.click()
    expect(grace.locator("#edit-words")).to_have_text("Based on version 2.")
    tab(grace, "Overview")
    expect(grace.locator("#versions")).to_contain_text("checked slowly")
    # An older version is what one begins with, and the newest is what it is saved after.
    tab(grace, "Versions")
    choose_action(grace, "version 1", "Edit this version (version 1)")
    expect(grace.locator("#edit-words")).to_have_text(
        "Content of version 1. It is saved as the version after 2."
    )
    expect(title).to_have_value(f"Title of {named}")
    expect(save).to_be_enabled()
    grace.get_by_role("button", name="Discard changes").click()
    expect(title).to_have_value(re.compile("of mine"))


def test_two_admins_edit_the_same_and_nothing_is_lost(
    demo: Any, grace: Any, admin: Person, named: str
) -> None:
    made = draft(demo, admin, named)
    visit(grace, demo, f"/environments/{named}/edit")
    title = grace.get_by_label("Title", exact=True)
    expect(title).to_have_value(f"Title of {named}")

    def another(base: int, words: str) -> None:
        definition = made["environment"] | {"title": words}
        body = {"definition": definition, "base": base, "comment": f"theirs {HOSTILE}"}
        ask(admin, "PUT", f"environments/{named}", body)

    another(1, f"Theirs {HOSTILE}")
    title.fill("Mine")
    save = grace.get_by_role("button", name="Save as a new version")
    save.click()
    conflict = grace.locator("#conflict")
    expect(conflict).to_contain_text("Version 2 is newer than the version that you edited")
    expect(conflict).to_contain_text(f"theirs {HOSTILE}")
    expect(conflict.get_by_label("Text: Your version")).to_contain_text("title: Mine")
    expect(conflict.get_by_label("Text: Version 2")).to_contain_text(f"Theirs {HOSTILE}")
    expect(conflict.locator(".diff-added")).to_contain_text("title: Mine")
    check(grace, "curate-conflict")
    # Theirs is taken; what was typed is still there to be put back.
    conflict.get_by_role("button", name="Use version 2").click()
    expect(title).to_have_value(f"Theirs {HOSTILE}")
    grace.get_by_role("button", name="Restore").click()
    expect(title).to_have_value("Mine")
    another(2, "Theirs again")
    save.click()
    conflict.get_by_role("button", name="Save mine as the newest version").click()
    expect(grace.locator("#edit-words")).to_have_text("Based on version 4.")
    newest = ask(admin, "GET", f"environments/{named}/versions?limit=1")["items"][0]
    assert newest["environment"]["title"] == "Mine"


def test_a_build_with_a_huge_and_hostile_log(
    demo: Any, grace: Any, admin: Person, named: str
) -> None:
    """What a build says is text, of which the page keeps the end; the whole can be saved."""
    made = draft(demo, admin, named)
    lines = [f"line {n} <b>bold</b> \x1b[31mred\x1b[0m" for n in range(40_000)]
    log = log_file(demo, "\n".join([*lines, HOSTILE, "progress 1 %\rprogress 100 %", ""]))

    async def work(store: Store) -> int:
        build = await store.builds.add_build(
            key=named,
            source=f"docker://nvcr.io/x/{named}:1",
            digest=DIGEST,
            asker="grace",
            nonce=NONCE,
            log=log.name,
            at=time.time(),
        )
        await store.builds.change(
            build.id,
            state=WorkState.FAILED,
            step="pull",
            message=f"There is no room left {HOSTILE}",
            ended_at=time.time(),
        )
        await store.versions.change(made["name"], 1, build_id=build.id)
        return build.id

    number = stored(demo, work)
    visit(grace, demo, f"/builds/{number}")
    expect(grace.locator("#build")).to_contain_text(f"There is no room left {HOSTILE}")
    expect(grace.locator("#build")).to_contain_text(f"Title of {named}, version 1")
    expect(grace.locator("#steps .step-ended")).to_have_text("Pull failed")
    expect(grace.locator("#steps .step-done").last).to_have_text("Prepare done")
    expect(grace.locator("#steps .step-now")).to_have_count(0)
    expect(grace.locator("#log")).to_contain_text("progress 100 %")
    shown = grace.locator("#log").evaluate("pre => pre.textContent")
    assert len(shown) < 600_000
    assert HOSTILE in shown and "\x1b" not in shown
    assert "line 39999 <b>bold</b> red" in shown
    expect(grace.locator("#log-words")).to_contain_text("are not shown")
    with grace.expect_download() as download:
        grace.get_by_role("button", name="Save log").click()
    whole = Path(download.value.path()).read_text()
    assert whole.count("\n") >= 40_000 and whole.startswith("line 0 ")
    expect(grace.get_by_role("button", name="Build again")).to_be_visible()
    check(grace, "curate-build-failed")
    visit(grace, demo)
    row = grace.get_by_role("row").filter(has_text=named).filter(has_text="Build")
    expect(row).to_contain_text(HOSTILE)
    check(grace, "curate")


def test_a_log_stops_following_where_one_reads(demo: Any, grace: Any, admin: Person) -> None:
    log = log_file(demo, "".join(f"line {n}\n" for n in range(2000)))

    async def work(store: Store) -> int:
        build = await store.builds.add_build(
            key=log.name,
            source="docker://nvcr.io/x/y:1",
            digest=DIGEST,
            asker="grace",
            nonce=NONCE,
            log=log.name,
            at=time.time(),
        )
        state = {"state": WorkState.CANCELLED, "ended_at": time.time()}
        await store.builds.change(build.id, **state)
        return build.id

    visit(grace, demo, f"/builds/{stored(demo, work)}")
    box = grace.locator("#log")
    expect(box).to_contain_text("line 1999")
    follow = grace.get_by_role("button", name="Follow")
    expect(follow).to_have_attribute("aria-pressed", "true")
    box.evaluate("pre => { pre.scrollTop = 0; }")
    expect(follow).to_have_attribute("aria-pressed", "false")
    follow.click()
    end = "pre => pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 24"
    wait_until("it shows the end again", lambda: box.evaluate(end))


def test_a_finished_build_with_its_tests_is_tried_and_published(
    demo: Any, grace: Any, admin: Person, named: str
) -> None:
    """The page after a build: results by GPU type and kernel, then Launch preview and Publish."""
    draft(demo, admin, named)
    kernel = {"name": "python3", "title": f"Python {HOSTILE}", "language": "python"}
    facts = Facts(versions={"torch": "2.9.0"}, packages=("torch==2.9.0",))
    result = BuildResult(
        image="/nowhere/x.sif",
        digest=DIGEST,
        size=3_400_000_000,
        sha256="0" * 64,
        server=Server.INSIDE,
        python=None,
        kernels=(),
        facts=facts,
    )

    async def work(store: Store) -> int:
        now = time.time()
        build = await store.builds.add_build(
            key=named, source="docker://a.io/b:1", digest=DIGEST, asker="grace", nonce=NONCE,
            log="none", at=now,
        )  # fmt: skip
        await store.builds.change(
            build.id, state=WorkState.PASSED, result=result.model_dump(mode="json"), ended_at=now
        )
        version = await store.versions.change(named, 1, build_id=build.id, state="ready")
        for gpu_type, passed in (("", True), ("v100", False)):
            test = await store.tests.add_test(
                fingerprint=version.environment.fingerprint, name=named, number=1,
                gpu_type=gpu_type, asker="grace", nonce=NONCE, log="none", at=now,
            )  # fmt: skip
            found = TestResult(
                server=Server.INSIDE,
                server_seconds=3.2,
                kernels=[{"kernel": kernel, "passed": passed, "seconds": 1.0, "reason": HOSTILE}],
                gpu_type=gpu_type,
                simulated=bool(gpu_type),
                facts=facts,
            )
            state = WorkState.PASSED if passed else WorkState.FAILED
            message = "" if passed else f"No GPU was seen {HOSTILE}"
            await store.tests.change(
                test.id, state=state, message=message, result=found.model_dump(mode="json"),
                ended_at=now,
            )  # fmt: skip
        return build.id

    number = stored(demo, work)
    visit(grace, demo, f"/builds/{number}")
    tests = grace.locator("#tests")
    expect(tests).to_contain_text("without GPUs")
    expect(tests).to_contain_text(f"No GPU was seen {HOSTILE}")
    expect(tests).to_contain_text(f"Python {HOSTILE} answers")
    expect(tests).to_contain_text("torch 2.9.0")
    expect(grace.locator("#tests-words")).to_contain_text("except on v100")
    expect(grace.locator(".stepper > li")).to_have_text(
        ["Build: done", "Test: done", "Publish: next"]
    )
    grace.get_by_role("button", name="Publish", exact=True).click()
    form = grace.get_by_role("form", name="Publish version 1")
    expect(form.get_by_label("Everyone")).to_be_focused()
    check(grace, "curate-build-passed")
    grace.get_by_role("button", name="Launch preview").click()
    grace.wait_for_url(re.compile(rf"/hub/spawn#environment={named}\.preview"))
    chosen = grace.get_by_role("radio", name=f"Title of {named}")
    expect(chosen).to_be_checked()
    visit(grace, demo, f"/builds/{number}")
    grace.get_by_role("button", name="Publish", exact=True).click()
    form = grace.get_by_role("form", name="Publish version 1")
    form.get_by_role("button", name="Publish", exact=True).click()
    grace.wait_for_url(f"**/curate/{named}")
    expect(grace.locator("#versions")).to_contain_text("published")


def test_requests_are_answered_and_become_environments(demo: Any, grace: Any) -> None:
    ada = Person(demo.url, "ada")
    source = "docker://nvcr.io/nvidia/tensorflow:24.01-tf2-py3"
    body = {"source": source, "text": f"For my course {HOSTILE}"}
    first, second = [ask(ada, "POST", "environment-requests", body)["id"] for _ in range(2)]
    visit(grace, demo)
    entry = grace.locator(f"[data-request='{first}']")
    expect(entry).to_contain_text(f"For my course {HOSTILE}")
    entry.get_by_text("Answer", exact=True).click()
    # To decline without a word is refused, in place.
    entry.get_by_role("button", name="Decline").click()
    expect(entry.get_by_role("alert")).to_contain_text("give a reason")
    entry.get_by_label("Answer to ada").fill(f"No {HOSTILE}")
    entry.get_by_role("button", name="Decline").click()
    expect(entry).to_have_count(0)
    entry = grace.locator(f"[data-request='{second}']")
    entry.get_by_role("link", name="Create environment").click()
    expect(grace.get_by_label("Image reference or path")).to_have_value(source)
    expect(grace.get_by_label("Name", exact=True)).to_have_value("tensorflow-24.01")
    visit(grace, demo)
    entry.get_by_text("Answer", exact=True).click()
    entry.get_by_label("Name of the environment").fill("python-venv")
    entry.get_by_role("button", name="Mark as done").click()
    expect(entry).to_have_count(0)
    mine = ask(ada, "GET", "environment-requests?mine=true")["items"]
    states = {one["id"]: (one["state"], one["environment"]) for one in mine}
    assert states[first] == ("declined", "") and states[second] == ("done", "python-venv")


def test_a_file_that_is_wrong_is_named_with_its_line(demo: Any, grace: Any) -> None:
    file = demo.environments / "wrong.yaml"
    file.write_text(f"name: wrong\ntitel: '{HOSTILE}'\n")
    try:
        visit(grace, demo)
        files = grace.locator("#files")
        expect(files).to_contain_text("wrong.yaml, line 2")
        expect(files).to_contain_text("did you mean 'title'?")
    finally:
        file.unlink()


def test_a_registry_takes_a_password_and_never_shows_it(
    demo: Any, grace: Any, admin: Person
) -> None:
    secret = f"nvapi-{time.monotonic_ns():x}"
    answers: list[Any] = []
    grace.on("response", lambda answer: answers.append(answer) if API in answer.url else None)
    visit(grace, demo, "/registries")
    grace.get_by_label("Registry", exact=True).fill("nvcr.io")
    expect(grace.get_by_label("User name")).to_have_value("$oauthtoken")
    password = grace.get_by_label("Password or API key")
    assert password.get_attribute("type") == "password"
    password.fill(secret)
    grace.get_by_label("Password file").fill("/etc/both")
    save = grace.get_by_role("button", name="Save registry", exact=True)
    save.click()
    expect(grace.locator("#registry-problem")).to_contain_text("/etc/both is not in")
    grace.get_by_label("Password file").fill("")
    grace.get_by_label("Mirror").fill("127.0.0.1:9")
    grace.get_by_label("Insecure").check()
    save.click()
    entry = grace.locator("[data-host='nvcr.io']")
    expect(entry).to_contain_text("password is stored")
    expect(password).to_have_value("")
    try:
        entry.get_by_role("button", name="Check").click()
        expect(entry.locator(".form-problem")).to_contain_text("127.0.0.1:9")
        check(grace, "curate-registries")
        # Changed without a new password, it keeps the one that it has, but does not send it to
        # another place.
        entry.get_by_role("button", name="Change").click()
        expect(password).to_have_value("")
        grace.get_by_label("Mirror").fill("127.0.0.1:10")
        save.click()
        expect(grace.locator("#registry-problem")).to_contain_text("Enter the password")
        grace.get_by_label("Mirror").fill("127.0.0.1:9")
        grace.get_by_label("User name").fill("another")
        save.click()
        expect(entry).to_contain_text("another")
        expect(entry).to_contain_text("password is stored")
        assert secret not in grace.content()
        assert answers and all(secret not in one.text() for one in answers if one.status != 204)
    finally:
        ask(admin, "DELETE", "registries/nvcr.io")
    visit(grace, demo, "/registries")
    expect(entry).to_have_count(0)
