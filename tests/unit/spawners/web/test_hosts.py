"""The hosts that a course's sessions have (spawners/web/hosts.py)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.handlers.base import UserUrlHandler
from jupyterhub.user import User

from spawners.config.proxy import SessionProxy
from spawners.hub_patches import course_hosts
from spawners.web import hosts
from spawners.web.domains import host_of


@pytest.fixture(autouse=True)
def patched(monkeypatch: pytest.MonkeyPatch) -> None:
    """JupyterHub says where courses' servers are."""
    monkeypatch.setattr(User, "server_url", User.server_url)
    redirect = UserUrlHandler._redirect_to_user_server
    monkeypatch.setattr(UserUrlHandler, "_redirect_to_user_server", redirect)
    course_hosts.apply()


def a_user(subdomains: str = "https://hub.example.org:8443") -> Any:
    settings = {
        "subdomain_host": subdomains,
        "subdomain_hook": host_of,
        "domain": "hub.example.org",
    }
    return SimpleNamespace(
        name="barbara",
        settings=settings,
        base_url="/user/barbara/",
        url="https://barbara.hub.example.org:8443/user/barbara/"
        if subdomains
        else "/user/barbara/",
        db=SimpleNamespace(commit=lambda: None),
    )


def a_spawner(name: str, user: Any) -> Any:
    client = SimpleNamespace(redirect_uri=f"{user.url}{name}/oauth_callback")
    return SimpleNamespace(
        name=name,
        user=user,
        proxy_spec=f"barbara.hub.example.org/user/barbara/{name}/",
        orm_spawner=SimpleNamespace(oauth_client=client),
    )


@pytest.mark.parametrize("server", ["course-deep", "room-deep", "preview-deep"])
def test_a_course_s_session_is_at_nobody_s_host(server: str) -> None:
    user = a_user()
    host = hosts.host_name(user, server)
    assert host.endswith(".hub.example.org")
    assert host != hosts.host_name(user, f"{server}er")
    assert host not in {host_of(name, "hub.example.org", "user") for name in ("barbara", server)}
    url = f"https://{host}:8443/user/barbara/{server}/"
    assert User.server_url(user, server) == url
    spawner = a_spawner(server, user)
    hosts.move_away(spawner)
    assert spawner.proxy_spec == f"{host}/user/barbara/{server}/"
    hosts.tell_logins(spawner)
    assert spawner.orm_spawner.oauth_client.redirect_uri == f"{url}oauth_callback"
    env = hosts.with_callback(spawner, {})
    assert env == {"JUPYTERHUB_OAUTH_CALLBACK_URL": f"{url}oauth_callback"}


def test_everything_else_stays_where_jupyterhub_has_it() -> None:
    user = a_user()
    assert User.server_url(user) == user.url
    assert User.server_url(user, "mine") == f"{user.url}mine/"
    for name in ("mine", ""):
        spawner = a_spawner(name, user)
        before = spawner.proxy_spec, spawner.orm_spawner.oauth_client.redirect_uri
        hosts.move_away(spawner)
        hosts.tell_logins(spawner)
        assert before == (spawner.proxy_spec, spawner.orm_spawner.oauth_client.redirect_uri)
        assert hosts.with_callback(spawner, {}) == {}
    assert User.server_url(a_user(""), "course-deep") == "/user/barbara/course-deep/"


@pytest.mark.parametrize("server", ["course-deep", "mine", ""])
async def test_a_server_that_ends_takes_its_route_along(server: str) -> None:
    user = a_user()
    user.proxy_spec = "barbara.hub.example.org/user/barbara/"
    spawner = a_spawner(server, user)
    if not server:
        spawner.proxy_spec = user.proxy_spec
    hosts.move_away(spawner)
    gone = []

    class Proxy(SessionProxy):
        async def delete_route(self, routespec: str) -> None:
            gone.append(routespec)

    await Proxy().delete_user(user, server)
    assert gone == [spawner.proxy_spec]


class Handler(UserUrlHandler):
    """A request for /hub/user/… that notes where it is sent."""

    def __init__(self, uri: str) -> None:
        self.request = SimpleNamespace(uri=uri)
        self.sent = ""

    settings = {"user_redirect_limit": 4}
    hub = SimpleNamespace(base_url="/hub/")
    base_url = "/"
    subdomain_host = "https://hub.example.org:8443"

    def get_argument(self, name: str, default: Any = None) -> Any:
        return default

    def redirect(self, url: str) -> None:
        self.sent = url


@pytest.mark.parametrize("server", ["course-deep", "mine"])
async def test_a_bookmark_leads_to_the_server(server: str) -> None:
    user = a_user()
    user.host = "https://barbara.hub.example.org:8443"
    handler = Handler(f"/hub/user/barbara/{server}/lab")
    await handler._redirect_to_user_server(user, SimpleNamespace(name=server))
    assert handler.sent.startswith(f"{User.server_url(user, server)}lab?")
