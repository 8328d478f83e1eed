"""Entries of the side bar: the core's and the features', in both processes."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import jinja2
import pytest

import portal.work  # noqa: F401  adds the portal's own features
from portal.assembly import Services
from portal.features import FEATURES, add_features
from portal.handlers.destinations.site import site_destinations
from portal.handlers.pages.rendering import Pages
from portal.launch.kinds import KINDS
from portal.models.person import Person
from portal.models.scope import COURSES_CREATE, ENVIRONMENTS_MANAGE, USERS_MANAGE
from portal.navigation import ENTRIES, FOR_PAGES, Group, groups_for
from portal.paths import data_path
from spawners import hub_setup
from tests.support.works import portal_workers

HUB, SERVICE = "/hub/", "/services/portal/"
FOR_ALL = {
    "work": ["Home", "Launch", "Sessions", "Runs", "Models"],
    "spaces": ["Projects"],
    "site": ["Catalog", "Cluster", "Benchmarks"],
}
ADMIN_ENTRIES = ["Curate", "Users", "Announcements", "Audit log", "All usage"]
LINK = re.compile(r'<a class="portal-entry" href="([^"]*)"[^>]*>.*?<span[^>]*>([^<]*)</span>')


@pytest.fixture(autouse=True)
def _registries() -> Iterator[None]:
    registries: list[list[Any]] = [KINDS, FEATURES, ENTRIES]
    before = [list(registry) for registry in registries]
    yield
    for registry, items in zip(registries, before, strict=True):
        registry[:] = items


def user(*groups: str, admin: bool = False) -> Any:
    """A user as the Hub's pages have it: the groups are objects."""
    return SimpleNamespace(
        name="ada", admin=admin, groups=[SimpleNamespace(name=name) for name in groups]
    )


def labels(viewer: Any, *scopes: str, service: str = SERVICE) -> dict[str, list[str]]:
    groups = groups_for(viewer, scopes, hub=HUB, service=service)
    return {str(group): [link.label for link in links] for group, links in groups}


def test_everyone_has_the_core_and_the_runs() -> None:
    assert labels(user()) == FOR_ALL


@pytest.mark.parametrize(
    ("viewer", "scopes"), [(user("course-dl101"), ()), (user(), (COURSES_CREATE,))]
)
def test_courses_are_for_members_and_instructors(viewer: Any, scopes: tuple[str, ...]) -> None:
    assert labels(viewer, *scopes)["spaces"] == ["Courses", "Projects"]


def test_another_group_shows_no_courses() -> None:
    assert labels(user("courses", "research"))["spaces"] == ["Projects"]


def test_each_entry_of_admins_needs_its_scope() -> None:
    assert labels(user(), ENVIRONMENTS_MANAGE)["admin"] == ["Curate"]
    assert labels(user(), "admin-ui")["admin"] == ["Users"]
    assert labels(user(admin=True))["admin"] == ["Users"]
    every = frozenset().union(*(entry.scopes for entry in ENTRIES))
    assert labels(user(), *every)["admin"] == ADMIN_ENTRIES


def test_without_the_service_only_the_hubs_entries_are_left() -> None:
    assert labels(user(admin=True), service="") == {"work": ["Home", "Launch"], "admin": ["Users"]}


@pytest.mark.parametrize(
    ("admin", "scopes", "service", "page"),
    [
        (False, (USERS_MANAGE,), SERVICE, f"{SERVICE}users"),
        (True, (USERS_MANAGE, "admin-ui"), SERVICE, f"{SERVICE}users"),
        (True, (), SERVICE, f"{HUB}admin"),  # an admin made by hand
        (True, (USERS_MANAGE,), "", f"{HUB}admin"),
    ],
)
def test_users_leads_to_one_page(
    admin: bool, scopes: tuple[str, ...], service: str, page: str
) -> None:
    groups = dict(groups_for(user(admin=admin), scopes, hub=HUB, service=service))
    assert [(link.label, link.href) for link in groups[Group.ADMIN]] == [("Users", page)]


def on_the_services_page(**person: Any) -> str:
    pages = Pages(prefix=SERVICE, hub_prefix=HUB)
    more = {"nonce": "n", "message": "x", "status_code": 404}
    return pages.render("problem.html", Person(name="ada", **person), **more)


def on_the_hubs_page(viewer: Any) -> str:
    """The navigation as the Hub's templates include it, with the variable that its setup adds."""
    hub = SimpleNamespace(config={}, template_vars={}, log=logging.getLogger("hub"))
    hub_setup._configured(SimpleNamespace(owner=hub))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_path("templates")), autoescape=True
    )
    services = [SimpleNamespace(name="dask", host="", prefix="/services/dask/")]
    return environment.get_template("nav.html").render(
        base_url=HUB, portal_service=SERVICE, user=viewer, services=services, **hub.template_vars
    )


def test_a_sites_own_work_has_its_entry_in_both_processes() -> None:
    assert "Workers" not in on_the_services_page()
    add_features(portal_workers.FEATURE)
    add_features(portal_workers.FEATURE)  # once
    for html in (on_the_services_page(), on_the_hubs_page(user())):
        ways = [(label, href) for href, label in LINK.findall(html)]
        assert ways.count(("Workers", f"{SERVICE}api/v1/workers")) == 1
        assert [label for label, _ in ways][:6] == [*FOR_ALL["work"], "Workers"]
    found = site_destinations(Person(name="ada"), (), "/", SERVICE)
    urls = [destination.url for destination in found if destination.title == "Workers"]
    assert urls == [f"{SERVICE}api/v1/workers"]


def test_go_to_is_in_the_head_of_the_side_bar() -> None:
    html = on_the_services_page()
    head = html[html.index('<div class="portal-side-head">') : html.index('id="portal-nav"')]
    assert html.count('id="portal-find"') == head.count('id="portal-find"') == 1


def test_other_services_of_the_hub_stand_below_a_heading() -> None:
    html = on_the_hubs_page(user())
    assert html.index("Services</p>") < html.index('href="/services/dask/"')


def test_a_new_member_of_a_course_sees_it_before_the_next_login() -> None:
    pages = Pages(prefix=SERVICE, hub_prefix=HUB)
    person = Person(name="ada")
    more: dict[str, Any] = {"groups": ("course-dl101",), "status_code": 404}
    html = pages.render("problem.html", person, nonce="n", message="", **more)
    assert ("/services/portal/courses", "Courses") in LINK.findall(html)
    # What features know comes from their part of the service.
    known = (SimpleNamespace(groups_of=lambda _: iter(["course-dl101"])), SimpleNamespace())
    services: Any = SimpleNamespace(of_features=dict(enumerate(known)))
    ada = Person(name="ada", groups=("research",))
    assert Services.groups_of(services, ada) == ("research", "course-dl101")


def test_the_template_names_no_work() -> None:
    text = (data_path("templates") / "nav.html").read_text().lower()
    for feature in FEATURES:
        for entry in feature.navigation:
            assert entry.label.lower() not in text
    assert FOR_PAGES.groups_for is groups_for
