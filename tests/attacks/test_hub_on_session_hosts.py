"""Opening the Hub on the host of somebody's session, where their page would get its cookies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from served import Served, served
from tornado.web import RequestHandler
from traitlets.config import Config

from portal.web.hosts import HubHosts
from spawners.web.hub_application import HubApplication, hosts_of

HOME = "https://portal.example.org:8443"
HUB = HubHosts(HOME, frozenset({"10.0.0.5", "hub.cluster"}))
OWN = ["portal.example.org", "PORTAL.example.org", "Portal.Example.Org"]
CONNECT = ["10.0.0.5", "hub.cluster", "HUB.cluster", "127.0.0.1", "[::1]", "localhost"]
FOREIGN = [
    "ada.portal.example.org", "ADA.portal.example.org", "portal.portal.example.org",
    "s-course-deep--aaaa.portal.example.org", "portal.example.org.", ".portal.example.org",
    "portal.example.org.evil.test", "xportal.example.org", "example.org", "evil.test",
    "127.0.0.1.evil.test", "localhost.evil.test", "ada.localhost", "10.0.0.6", "[::2]",
    "hub.cluster.evil.test", "portal.example.orgx", "0x7f000001", "127.1",
]  # fmt: skip
PATHS = [
    "/hub/login", "/hub/login?next=/hub/home", "/hub/", "/hub", "/hub/home", "/hub/token",
    "/hub/admin", "/hub/spawn", "/hub/spawn/ada", "/hub/logout", "/hub/signup",
    "/hub/api/oauth2/authorize?client_id=x", "/hub/api/user", "/hub/api/users/ada/tokens",
    "/hub//login", "/hub/health/../login", "/hub/healthx", "/hub/metrics", "/hub/error/404",
    "/services/portal/", "/services/portal/sessions", "/user/ada/lab", "/", "//evil.test/hub/login",
]  # fmt: skip
_MACHINE = ("/hub/api/", "/hub/metrics", "/hub/error/")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("host", FOREIGN)
def test_the_hub_does_not_answer_there(host: str, path: str) -> None:
    assert not HUB.answers(host, path.partition("?")[0])
    assert HUB.at_home(path).startswith(f"{HOME}/")


@pytest.mark.parametrize("path", PATHS)
def test_it_answers_at_its_own_host_and_to_programs(path: str) -> None:
    bare = path.partition("?")[0]
    assert all(HUB.answers(host, bare) for host in OWN)
    for host in CONNECT:
        assert HUB.answers(host, bare) == bare.startswith(_MACHINE), host


@pytest.mark.parametrize("host", [*FOREIGN, *CONNECT])
def test_health_and_what_pages_are_made_of_answer_everywhere(host: str) -> None:
    for path in ("/hub/health", "/hub/static/css/style.min.css", "/hub/logo"):
        assert HUB.answers(host, path)


@pytest.mark.parametrize(
    ("uri", "there"),
    [
        ("/hub/login?next=%2Fhub%2Fhome", "/hub/login?next=%2Fhub%2Fhome"),
        ("/services/portal/sessions", "/services/portal/sessions"),
        ("/user/ada/lab?x=1", "/hub/user/ada/lab?x=1"),
        ("/", "/hub/"),
        ("/hub", "/hub"),
        ("//evil.test/x", "/hub/evil.test/x"),
        ("http://evil.test/x", "/hub/"),
        ("*", "/hub/"),
    ],
)
def test_a_page_is_found_at_home(uri: str, there: str) -> None:
    assert HUB.at_home(uri) == HOME + there
    below = HubHosts(HOME, prefix="/portal/hub/")
    assert below.at_home("/portal/user/ada/lab") == f"{HOME}/portal/hub/user/ada/lab"


@pytest.mark.parametrize("host", [*FOREIGN, *CONNECT, *OWN])
def test_without_hosts_of_their_own_sessions_share_the_hub_s(host: str) -> None:
    assert all(HubHosts("").answers(host, path) for path in PATHS)


class _Login(RequestHandler):
    """Everything sets a login's cookie."""

    def get(self) -> None:
        self.set_cookie("jupyterhub-hub-login", "secret")
        self.finish("signed in")

    post = delete = put = patch = get


@pytest.fixture
async def hub() -> AsyncIterator[Served]:
    application = HubApplication([(".*", _Login)], hub_hosts=HUB, max_body=1024)
    async with served(application) as running:
        yield running


@pytest.mark.parametrize("host", ["ada.portal.example.org", "ada.portal.example.org:8443", "x"])
async def test_a_page_leads_home_and_sets_no_cookie(hub: Served, host: str) -> None:
    answer = await hub.ask("GET", "/hub/login?a=b", host)
    assert answer.status == 302 and "set-cookie" not in answer.headers
    assert answer.headers["location"] == [f"{HOME}/hub/login?a=b"]
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        answer = await hub.ask(method, "/hub/login", host, body=b"username=ada&password=x")
        assert answer.status == 403 and "set-cookie" not in answer.headers
        assert f"is only available at {HOME}" in answer.text


async def test_a_header_names_no_other_host(hub: Served) -> None:
    for name in ("X-Forwarded-Host", "X-Host", "Forwarded", "X-Original-Host"):
        more = [(name, "portal.example.org")]
        assert (await hub.ask("GET", "/hub/login", "ada.portal.example.org", more)).status == 302
    twice = await hub.ask("GET", "/hub/login", "x", [("Host", "portal.example.org")])
    assert twice.status in (302, 400) and "set-cookie" not in twice.headers


@pytest.mark.parametrize("host", ["portal.example.org", "portal.example.org:8443"])
async def test_the_hub_signs_in_at_home(hub: Served, host: str) -> None:
    assert (await hub.ask("POST", "/hub/login", host, body=b"x")).text == "signed in"


@pytest.mark.parametrize("host", ["10.0.0.5:8081", "127.0.0.1:8000"])
async def test_programs_ask_at_the_connect_address(hub: Served, host: str) -> None:
    assert (await hub.ask("POST", "/hub/api/users", host, body=b"{}")).status == 200
    assert (await hub.ask("GET", "/hub/login", host)).status == 302


def _a_hub(**traits: Any) -> Any:
    inner = SimpleNamespace(
        url="http://10.0.0.5:8081/hub/", bind_url="http://0.0.0.0:8081/hub/", base_url="/hub/"
    )
    settings = {"public_url": "", "subdomain_host": HOME, "bind_url": "http://127.0.0.1:8000"}
    config = Config({"Base": {"hub_connect_url": "http://hub.internal:8081"}})
    kind = type("Kind", (type("Base", (), {}),), {})
    return SimpleNamespace(**(settings | traits), hub=inner, spawner_class=kind, config=config)


def test_the_hubs_addresses_are_those_of_its_settings() -> None:
    hosts = hosts_of(_a_hub(), ["Other.internal"])
    assert hosts.home == HOME
    known = {"10.0.0.5", "0.0.0.0", "127.0.0.1", "hub.internal", "other.internal"}
    assert hosts.connect == known
    public = hosts_of(_a_hub(public_url="https://www.example.org/portal/"), [])
    assert public.home == "https://www.example.org"
    assert hosts_of(_a_hub(subdomain_host=""), []).home == ""
