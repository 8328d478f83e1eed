"""The host that a course's room has (spawners/hosts.py)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from jupyterhub.user import User

from spawners import hosts
from spawners.domains import host_of


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


def test_a_room_is_at_nobody_s_host() -> None:
    user = a_user()
    host = hosts.room_host(user, "room-deep")
    assert host.endswith(".hub.example.org")
    assert host != hosts.room_host(user, "room-other")
    assert host not in {
        host_of(name, "hub.example.org", "user") for name in ("barbara", "room-deep")
    }
    url = f"https://{host}:8443/user/barbara/room-deep/"
    assert User.server_url(user, "room-deep") == url
    spawner = a_spawner("room-deep", user)
    hosts.move_away(spawner)
    assert spawner.proxy_spec == f"{host}/user/barbara/room-deep/"
    hosts.tell_logins(spawner)
    assert spawner.orm_spawner.oauth_client.redirect_uri == f"{url}oauth_callback"
    env = hosts.with_callback(spawner, {})
    assert env == {"JUPYTERHUB_OAUTH_CALLBACK_URL": f"{url}oauth_callback"}


def test_everything_else_stays_where_jupyterhub_has_it() -> None:
    user = a_user()
    assert User.server_url(user, "course-deep") == f"{user.url}course-deep/"
    assert User.server_url(user) == user.url
    for name in ("course-deep", ""):
        spawner = a_spawner(name, user)
        before = spawner.proxy_spec, spawner.orm_spawner.oauth_client.redirect_uri
        hosts.move_away(spawner)
        hosts.tell_logins(spawner)
        assert before == (spawner.proxy_spec, spawner.orm_spawner.oauth_client.redirect_uri)
        assert hosts.with_callback(spawner, {}) == {}
    assert User.server_url(a_user(""), "room-deep") == "/user/barbara/room-deep/"
