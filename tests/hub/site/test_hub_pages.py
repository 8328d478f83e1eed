"""The Hub's pages: the ways to the service's, and what admins announce."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hub_client import Person, wait_until
from jobs import no_free_t4
from machine_clock import awake
from other_hub import other_hub
from remembered import announced, lock

from portal.models.announcement import AnnouncementDraft, Level

SERVICE = "/services/portal/"


@pytest.fixture(scope="module", autouse=True)
def service(demo: Any) -> None:
    """It comes up a moment after the Hub, which other tests restart."""
    address = f"{demo.url}{SERVICE}api/v1/environments"
    wait_until("the service answers", lambda: httpx.get(address, timeout=60).status_code == 403)


def ways(html: str) -> dict[str, str]:
    """Return the entries of the side bar, and those of the person's menu: title to address."""
    bar = html[html.index('id="portal-nav"') : html.index('id="dark-theme-toggle"')]
    link = r'<a class="(?:portal-entry|dropdown-item)[^>]*href="([^"]*)"[^>]*>'
    links = re.findall(link + r"(?:<.*?<span[^>]*>)?([^<]*)<", bar)
    return {title.strip(): href for href, title in links}


def side_bar(html: str) -> list[str]:
    """Return the labels of the side bar's entries, in their order, without the person's menu."""
    bar = html[html.index('id="portal-nav"') :].partition("</nav>")[0]
    return re.findall(r'<a class="portal-entry".*?<span[^>]*>([^<]*)</span></a>', bar)


@pytest.mark.parametrize("path", ["/hub/home", "/hub/token", "/hub/spawn", "/services/portal/"])
def test_every_page_has_the_same_navigation(person: Callable[[str], Person], path: str) -> None:
    for_all = {
        "Home": "/hub/home",
        "Models": f"{SERVICE}endpoints",
        "Projects": f"{SERVICE}projects",
        "Runs": f"{SERVICE}runs",
        "Sessions": f"{SERVICE}sessions",
        "Launch": "/hub/spawn",
        "Catalog": f"{SERVICE}catalog",
        "Cluster": SERVICE,
        "Benchmarks": f"{SERVICE}benchmarks",
    }
    for_admins = {
        "Courses": f"{SERVICE}courses",
        "Curate": f"{SERVICE}curate",
        "Users": f"{SERVICE}users",
        "Announcements": f"{SERVICE}announcements",
        "Audit log": f"{SERVICE}audit",
        "All usage": f"{SERVICE}usage?by=user",
    }
    under_the_name = {
        "Usage": f"{SERVICE}usage",
        "Tokens": "/hub/token",
        "Log out": "/hub/logout",
    }
    work = ["Home", "Launch", "Sessions", "Runs", "Models"]
    site = ["Catalog", "Cluster", "Benchmarks"]
    admin = ["Curate", "Users", "Announcements", "Audit log", "All usage"]
    in_order = {
        "ada": [*work, "Projects", *site],
        "grace": [*work, "Courses", "Projects", *site, *admin],
    }
    for name, expected in (("ada", {}), ("grace", for_admins)):
        someone = person(name)
        html = someone.http.get(path).text
        # The service names the Hub's host, where it knows it.
        found = {title: href.removeprefix(someone.url) for title, href in ways(html).items()}
        assert found == for_all | expected | under_the_name
        assert side_bar(html) == in_order[name]


def test_the_page_that_is_open_is_marked(person: Callable[[str], Person]) -> None:
    for path, title in {
        "/hub/home": "Home",
        "/hub/spawn": "Launch",
        SERVICE: "Cluster",
    }.items():
        html = person("ada").http.get(path).text
        marked = r'aria-current="page"><i [^>]*></i><span[^>]*>([^<]*)<'
        assert re.findall(marked, html) == [title]
        assert html.count('aria-current="page"') - html.count('[aria-current="page"]') == 1


def test_the_home_page_knows_where_the_sessions_page_is(person: Callable[[str], Person]) -> None:
    html = person("ada").http.get("/hub/home").text
    assert f'data-service="{SERVICE}"' in html  # its script goes there, where the service answers


def test_without_the_service_there_is_no_way_to_it(demo: Any) -> None:
    with other_hub(demo) as (url, _):
        html = Person(url, "ada").http.get("/hub/home").text
        assert ways(html) == {
            "Home": "/hub/home",
            "Launch": "/hub/spawn",
            "Tokens": "/hub/token",
            "Log out": "/hub/logout",
        }
        assert "data-service" not in html


def test_an_announcement_is_on_every_page_and_only_text(
    demo: Any, person: Callable[[str], Person]
) -> None:
    now = time.time()
    hostile = f"<script>alert(1)</script> & 'quoted' {{{{ 7*7 }}}} {now}"
    escaped = f"&lt;script&gt;alert(1)&lt;/script&gt; &amp; &#39;quoted&#39; {{{{ 7*7 }}}} {now}"
    later = f"not yet {now}"
    draft = AnnouncementDraft(
        text=hostile, level=Level.WARNING, starts_at=now - 1, ends_at=now + 300
    )
    soon = AnnouncementDraft(text=later, starts_at=now + 200, ends_at=now + 300)

    def sign_in() -> str:
        return httpx.get(f"{demo.url}/hub/login", timeout=60).text

    with announced(demo, soon), announced(demo, draft):
        wait_until("it is on the login page", lambda: escaped in sign_in(), timeout=240)
        for html in (sign_in(), person("ada").http.get("/hub/home").text):
            assert escaped in html
            assert "<strong>Warning:</strong>" in html
            assert "<script>alert(1)" not in html
            assert later not in html
    wait_until("it is withdrawn", lambda: escaped not in sign_in(), timeout=240)


def test_a_page_does_not_wait_for_the_database(demo: Any, person: Callable[[str], Person]) -> None:
    """Nothing of it is shown while it cannot be asked, and the pages are as quick as ever."""
    settings = 'c.Store.url = "postgresql://portal@127.0.0.1:9/portal"\n'
    with other_hub(demo, settings) as (url, _):
        someone = Person(url, "ada")
        began = awake()
        for _ in range(5):
            html = someone.http.get("/hub/home").text
            assert 'id="portal-home"' in html
            assert "portal-announcement" not in re.sub(r"(?s)<style.*?</style>", "", html)
        assert awake() - began < 20  # one question may take 10
    connection = lock(demo)
    try:
        assert 'id="portal-home"' in person("ada").http.get("/hub/home").text
    finally:
        connection.close()


def test_the_progress_page_connects_to_the_sessions_host_ahead(demo: Any, ada: Person) -> None:
    with no_free_t4(demo):
        options = {"environment": "python-venv", "gpus": 1, "gpu_type": "t4"}
        assert ada.launch(options).status_code == 202
        page = ada.http.get("/hub/spawn-pending/ada").text
    assert "Your session is starting" in page
    (address,) = re.findall(r'<link rel="preconnect" href="([^"]+)"', page)
    assert address.partition("//")[2] == ada.session_url().partition("//")[2]
