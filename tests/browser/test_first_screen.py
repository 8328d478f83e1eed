"""First screen of each page at 1280 x 850: what most people come for is in sight at once.

A page that outgrows this gets another order or folds what is advanced; the expectation stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from chromium import SOON
from hub_client import Person, with_session
from in_sight import SCREEN, look
from menu_items import menu_item
from sign_in import sign_in

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

RESEARCHER, TEACHER, STUDENT, ADMIN = "ada", "barbara", "student01", "grace"
SERVICE = "/services/portal/"
COURSE, ENVIRONMENT = f"{SERVICE}courses/dl101", f"{SERVICE}curate/environments/jupyterlab"
COURSE_HEAD = ("h1", "#state", "text=/^next meeting/", ".tabs")
CURATED_HEAD = ("h1", "#environment .state", ".tabs")

# Name of the page: who opens it, its address, and selectors of what must be in sight.
PAGES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "launch": (
        ADMIN,
        "/hub/spawn",
        (
            "#launch-cards > .portal-card:visible",
            "label[for=launch-gpus-0]",
            "label[for=launch-gpus-1]",
            "#launch-gpu-type",
            "#launch-time",
            "#launch-summary",
            "#start",
        ),
    ),
    "launch-student": (
        STUDENT,
        "/hub/spawn",
        ("#launch-courses .course-start", "#launch-cards > .portal-card >> nth=0", "#start"),
    ),
    "sessions": (
        RESEARCHER,
        f"{SERVICE}sessions",
        (
            "#living .entry h3",
            "#living .portal-facts",
            "#living >> role=link[name=/^Open/]",
            "#living >> role=button[name=/^Extend/]",
            "#living >> role=button[name=/^More actions/]",
        ),
    ),
    "sessions-student": (
        STUDENT,
        f"{SERVICE}sessions",
        ("#courses .course-start", "#sessions-start", "#living"),
    ),
    "catalog": (
        RESEARCHER,
        f"{SERVICE}catalog",
        (
            "#find-text",
            "#find .portal-filters",
            ".tile h3 >> nth=2",
            ".tile .launch >> nth=2",
            "role=link[name='Request an environment']",
        ),
    ),
    "environment": (
        RESEARCHER,
        f"{SERVICE}catalog/jupyterlab",
        (
            "h1",
            "role=link[name=/^Launch /]",
            "[aria-labelledby=gpus-title]",
            ".about-facts dt >> nth=0",
        ),
    ),
    "catalog-request": (
        RESEARCHER,
        f"{SERVICE}catalog/request",
        ("h1", "#request-text", "#request-source", "#request button >> nth=0"),
    ),
    "catalog-own": (
        RESEARCHER,
        f"{SERVICE}catalog/own",
        (
            "h1",
            "#own-title",
            "#own-kind",
            "#own-path",
            "#own-description",
            "#own-form button >> nth=0",
        ),
    ),
    "cluster": (
        RESEARCHER,
        SERVICE,
        ("#summary-words", "#legend", "#types", "#filter-text", "#grid .node >> nth=0", "#panel"),
    ),
    "courses": (
        TEACHER,
        f"{SERVICE}courses",
        (
            "role=link[name='New course']",
            "role=link[name=/^Live board of /] >> nth=0",
            "role=link[name=/^Manage /] >> nth=0",
        ),
    ),
    "course": (
        TEACHER,
        COURSE,
        (*COURSE_HEAD, "role=button[name='Start all sessions']", "#ready-words", "#readiness"),
    ),
    "course-roster": (
        TEACHER,
        f"{COURSE}/roster",
        (*COURSE_HEAD, "#people-count", "#roster-more summary", "#people-list tr >> nth=9"),
    ),
    "course-schedule": (
        TEACHER,
        f"{COURSE}/schedule",
        (*COURSE_HEAD, "#meetings-list li >> nth=0", "#term .term-meets >> nth=0"),
    ),
    "course-files": (
        TEACHER,
        f"{COURSE}/files",
        (*COURSE_HEAD, "role=button[name=/^Hand out a file/]", "#files-list code >> nth=0"),
    ),
    "course-board": (
        TEACHER,
        f"{COURSE}/board",
        (
            "role=button[name='Start all']",
            "role=button[name=/^Stop all/]",
            "#which",
            "#find",
            "#tiles > li >> nth=0",
        ),
    ),
    "course-settings": (
        TEACHER,
        f"{COURSE}/settings",
        (
            *COURSE_HEAD,
            "#field-title",
            "#field-environment",
            "#field-roster_group",
            "#field-begins",
            "#field-ends",
            "#field-weekly-rows > li",
            "#save-go",
        ),
    ),
    "course-new": (
        TEACHER,
        f"{SERVICE}courses/new",
        (
            "#field-title",
            "#field-name",
            "#field-environment",
            "#field-roster_group",
            "#field-begins",
            "#field-ends",
            "role=button[name='Add a weekly time']",
            "role=button[name='Create course']",
        ),
    ),
    "course-student": (STUDENT, COURSE, ("h1", "#open", "#meetings-title", ".meetings")),
    "curate": (
        ADMIN,
        f"{SERVICE}curate",
        (
            "role=link[name='New environment']",
            "#requests",
            "#environments-text",
            "#environments tbody tr >> nth=0",
        ),
    ),
    "curate-environment": (
        ADMIN,
        ENVIRONMENT,
        (*CURATED_HEAD, "#environment .entry-actions", "#versions tbody tr >> nth=0"),
    ),
    "curate-environment-tests": (
        ADMIN,
        f"{ENVIRONMENT}/tests",
        (*CURATED_HEAD, "#tests .entry >> nth=0"),
    ),
    "curate-environment-versions": (
        ADMIN,
        f"{ENVIRONMENT}/versions",
        (*CURATED_HEAD, "#versions tbody tr >> nth=0"),
    ),
    "curate-environment-edit": (
        ADMIN,
        f"{ENVIRONMENT}/edit",
        (
            "#editor-as-text",
            "#field-title",
            "#field-tags",
            "#field-description",
            "#comment",
            "#save button >> nth=0",
        ),
    ),
    "curate-new": (ADMIN, f"{SERVICE}curate/new", ("h1", "#origin input", "#origin button")),
    "curate-registries": (
        ADMIN,
        f"{SERVICE}curate/registries",
        (
            "h1",
            "#list",
            "#registry-host",
            "#registry-username",
            "#registry-password",
            "#registry-save",
        ),
    ),
    "usage": (RESEARCHER, f"{SERVICE}usage", ("#filters", "#list-title", "#list")),
    "usage-all": (ADMIN, f"{SERVICE}usage?by=user", ("#filters", "#list-title")),
    "tokens": (
        RESEARCHER,
        "/hub/token",
        ("#token-note", "role=button[name=/Request new API token/]"),
    ),
    "users": (ADMIN, f"{SERVICE}users", ("#filters", "#list-csv", "#list tbody tr >> nth=0")),
    "users-stock": (
        ADMIN,
        "/hub/admin?stock=1",
        ("role=link[name='Add Users']", "tbody tr >> nth=0"),
    ),
    "announcements": (
        ADMIN,
        f"{SERVICE}announcements",
        ("#announce-text", "role=button[name='Publish announcement']", "#list-title"),
    ),
    "audit": (ADMIN, f"{SERVICE}audit", ("#filters", "#list-csv", "#list tbody tr >> nth=0")),
}


@pytest.fixture(scope="module")
def visit(demo: Any, browser: Any) -> Iterator[Callable[[str], Any]]:
    """Yield a function that gives the page of a user's own browser."""
    pages: dict[str, Any] = {}

    def page_of(name: str) -> Any:
        if name not in pages:
            context = browser.new_context(viewport=SCREEN)
            context.set_default_timeout(SOON)
            pages[name] = context.new_page()
            sign_in(pages[name], demo.url, name)
        return pages[name]

    yield page_of
    for page in pages.values():
        page.context.close()


@pytest.fixture(scope="module")
def running_session(demo: Any) -> Iterator[Person]:
    """Keep a session of the researcher running, on the cluster's pages too."""
    wanted = {"environment": "python-venv", "cpus": 1, "memory": "2G", "time": "0:30:00"}
    yield from with_session(Person(demo.url, RESEARCHER), wanted)


@pytest.mark.usefixtures("running_session")
@pytest.mark.parametrize("name", PAGES)
def test_what_most_people_come_for_is_in_sight(demo: Any, visit: Any, name: str) -> None:
    user, address, selectors = PAGES[name]
    page = visit(user)
    answer = page.goto(f"{demo.url}{address}")
    assert answer.ok, answer.status
    look(page, name, selectors)


@pytest.mark.usefixtures("running_session")
def test_a_session_is_in_sight(demo: Any, visit: Any) -> None:
    page = visit(RESEARCHER)
    page.goto(f"{demo.url}{SERVICE}sessions")
    menu_item(page.locator("#living"), "Details and log", "link").click()
    page.wait_for_url("**/sessions/*")
    look(
        page,
        "session",
        (
            "h1",
            "#session .session-state",
            "#session >> role=button[name=/^Extend/]",
            "#session >> role=button[name=/^More actions/]",
            "#session section[aria-label=Details] dd >> nth=0",
            "#session section[aria-label='Resource usage'] h2",
            "#session section[aria-label=Timeline] h2",
        ),
    )
