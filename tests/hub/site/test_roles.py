"""Who holds which of the portal's scopes: people, their tokens, sessions and the service."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from hub_client import Person
from other_hub import other_hub
from processes import variables_of

from portal.models import scope

OF_ADMINS = set(scope.MEANINGS) - scope.OF_SESSIONS
OF_ALL = {scope.MODELS_USE}  # each endpoint says who may use it


def own(narrowed: str) -> set[str]:
    """The scopes of sessions, narrowed to a person or a server."""
    return {f"{name}!{narrowed}" for name in scope.OF_SESSIONS}


def held(url: str, token: str) -> set[str]:
    """What the Hub says that a token may do."""
    headers = {"Authorization": f"token {token}"}
    answer = httpx.get(f"{url}/hub/api/user", headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    return set(answer.json()["scopes"])


def custom(scopes: set[str]) -> set[str]:
    return {one for one in scopes if one.startswith("custom:")}


def test_an_admins_token_holds_every_scope_of_the_portal(person: Callable[[str], Person]) -> None:
    grace = person("grace")
    grace.api("GET", "/user")  # makes a token, as the page /hub/token does
    assert custom(held(grace.url, grace.token)) == OF_ADMINS | own("user=grace")


@pytest.mark.parametrize(("name", "more"), [("ada", set()), ("barbara", {scope.COURSES_CREATE})])
def test_other_people_hold_little(
    person: Callable[[str], Person], name: str, more: set[str]
) -> None:
    """Barbara is an instructor."""
    someone = person(name)
    someone.api("GET", "/user")
    assert custom(held(someone.url, someone.token)) == own(f"user={name}") | OF_ALL | more


@pytest.mark.parametrize(("name", "scopes"), [("grace", OF_ADMINS), ("ada", OF_ALL)])
def test_a_login_at_the_service_carries_the_persons_scopes(
    demo: Any, person: Callable[[str], Person], name: str, scopes: set[str]
) -> None:
    """The token that OAuth makes for the service: the Hub lists it with the person's tokens."""
    someone = person(name)
    someone.http.get("/services/portal/")
    tokens = someone.api("GET", f"/users/{name}/tokens").json()["api_tokens"]
    (token, *_) = [one for one in tokens if one["oauth_client"] == "JupyterHub service portal"]
    assert custom(set(token["scopes"])) == scopes
    assert "access:services!service=portal" in token["scopes"]
    # The service hears of them: this page takes one.
    answer = someone.http.get("/services/portal/audit")
    assert answer.status_code == (200 if scope.AUDIT_READ in scopes else 403)


@pytest.fixture
def sessions(ada: Person) -> Iterator[Person]:
    """Ada with two sessions."""
    for server in ("", "second"):
        assert ada.launch({"environment": "python-venv"}, server).status_code in (201, 202)
    for server in ("", "second"):
        ada.wait_ready(server)
    yield ada
    ada.stop("second")
    ada.api("DELETE", ada.server_path("second"), {"remove": True})


def test_a_sessions_token_concerns_its_own_server_alone(demo: Any, sessions: Person) -> None:
    found = variables_of(demo, "ada", "JUPYTERHUB_API_TOKEN", "JUPYTERHUB_SERVER_NAME")
    tokens = {server: token for token, server in found}
    assert set(tokens) == {"", "second"}
    for server, token in tokens.items():
        scopes = held(demo.url, token)
        assert custom(scopes) == own(f"server=ada/{server}")
        assert not any(one.startswith("access:services") for one in scopes)
        assert f"access:servers!server=ada/{server}" in scopes
        assert "users:activity!user=ada" in scopes
        answer = httpx.get(
            f"{demo.url}/services/portal/api/v1/environments",
            headers={"Authorization": f"token {token}"},
            timeout=60,
        )
        assert answer.status_code == 403


@pytest.mark.parametrize("environment", ["python-venv", "modules", "jupyterlab"])
def test_sessions_of_every_kind_know_where_to_report(
    demo: Any, ada: Person, environment: str
) -> None:
    assert ada.launch({"environment": environment}).status_code in (201, 202)
    ada.wait_ready()
    found = variables_of(demo, "ada", "PORTAL_SERVICE_URL", "PORTAL_TELEMETRY_INTERVAL")
    assert found == {(f"{demo.url}/services/portal/", "10")}


def test_a_process_of_another_demo_is_not_seen(demo: Any) -> None:
    """All demos of a machine have the same accounts."""
    uid, gid = (int(demo.run(["id", kind], user=demo.user("ada")).stdout) for kind in ("-u", "-g"))
    env = {"JUPYTERHUB_API_URL": "http://127.0.0.1:1/hub/api", "HOME": "/var/tmp/pt-other/home/ada"}
    with subprocess.Popen(["/bin/sleep", "60"], user=uid, group=gid, env=env) as other:
        try:
            seen = variables_of(demo, "ada", "HOME", hub="")
        finally:
            other.kill()
    assert (env["HOME"],) not in seen


def test_without_an_address_a_session_neither_reports_nor_may(demo: Any) -> None:
    settings = 'c.PortalSpawner.service_url = ""\n'
    with other_hub(demo, settings) as (url, _):
        # Nobody of another test: both Hubs of the demo are looked at.
        student = Person(url, "student23")
        assert student.launch({"environment": "python-venv"}).status_code in (201, 202)
        try:
            student.wait_ready()
            names = ("PORTAL_SERVICE_URL", "JUPYTERHUB_API_TOKEN")
            ((address, token),) = variables_of(demo, "student23", *names, hub="")
            assert address == ""
            assert custom(held(url, token)) == set()
        finally:
            student.stop()


def test_the_service_may_start_and_stop_servers_and_little_else(demo: Any) -> None:
    found = variables_of(demo, "portal", "JUPYTERHUB_API_TOKEN", "JUPYTERHUB_SERVICE_NAME")
    (token,) = {token for token, name in found if name == "portal"}
    servers = {f"{what}:servers" for what in ("delete", "read", "start")}
    assert held(demo.url, token) == servers | {"read:users:name"}
    headers = {"Authorization": f"token {token}"}
    answer = httpx.get(f"{demo.url}/hub/api/users", headers=headers, timeout=60)
    assert answer.status_code == 403


def test_more_admins_by_name_and_group(demo: Any) -> None:
    """A site's word comes after the role was written, and its own additions stay."""
    settings = """
from portal.models.scope import JOBS_READ
from spawners.config.roles import Members
c.PortalAdmins.hub_admins = False
c.PortalAdmins.users = {"barbara"}
c.PortalAdmins.groups = {"course-dl101"}
c.JupyterHub.load_roles = [
    {"name": "portal-admin", "scopes": [JOBS_READ],
     "groups": Members("groups"), "users": Members("users")},
]
c.JupyterHub.extra_user_scopes.update({"read:hub"})
"""
    with other_hub(demo, settings) as (url, _):
        for name, may in {"barbara": True, "student04": True, "grace": False, "ada": False}.items():
            someone = Person(url, name)
            scopes = {
                one for one in held(url, token_of(someone)) if one in (scope.JOBS_READ, "read:hub")
            }
            assert scopes == ({scope.JOBS_READ, "read:hub"} if may else {"read:hub"}), name


def token_of(someone: Person) -> str:
    someone.api("GET", "/user")
    return someone.token
