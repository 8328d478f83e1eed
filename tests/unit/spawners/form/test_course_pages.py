"""The home page and the launch page ask for a person's courses while the Hub renders them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub.app import JupyterHub
from jupyterhub.auth import Authenticator
from traitlets.config.loader import PyFileConfigLoader

from portal.courses.roster.my_courses import MyCourse
from portal.paths import data_path
from spawners.form import my_courses

ALGEBRA = MyCourse(name="algebra", title="Linear algebra", server="course-algebra")


class Server:
    """A server of a person's, as the pages show it."""

    ready = active = True
    pending, user_options = None, {}

    def __init__(self, name: str) -> None:
        self.name = self.display_name = name


def user(name: str, *servers: str) -> Any:
    return SimpleNamespace(
        name=name,
        escaped_name=name,
        active=False,
        spawner=Server(""),
        groups=[],
        server_url=lambda server="": f"/user/{name}/{server}",
        all_spawners=lambda include_default=True: [Server(one) for one in servers],
    )


async def page(name: str, **variables: Any) -> str:
    """A page of the Hub, made by its own environment of templates."""
    hub = JupyterHub(template_paths=[str(data_path("templates"))], db_url="sqlite://", log_level=50)
    hub.authenticator = Authenticator()
    for step in (hub.init_eventlog, hub.init_db, hub.init_hub, hub.init_proxy, hub.init_oauth):
        step()
    hub.init_tornado_settings()
    template = hub.tornado_settings["jinja2_env"].get_template(name)
    given = {
        "base_url": "/hub/", "prefix": "/", "services": [], "parsed_scopes": {}, "xsrf_token": "x",
        "allow_named_servers": True, "named_server_limit_per_user": 5, "logo_url": "/logo",
        "static_url": lambda path, **_: path, "spawner_options_form": "",
        "default_server": Server(""),
    }  # fmt: skip
    return await template.render_async(**given, **variables)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the people whose courses were asked for; everyone is in one."""
    names: list[str] = []

    async def courses_of(memberships: Any, name: str) -> tuple[MyCourse, ...]:
        names.append(name)
        return (ALGEBRA,)

    monkeypatch.setattr(my_courses, "courses_of", courses_of)
    shared = SimpleNamespace(instance=lambda config: SimpleNamespace(memberships=None))
    monkeypatch.setattr(my_courses, "HubContext", shared)
    monkeypatch.setattr(
        my_courses, "JupyterHub", SimpleNamespace(instance=lambda: SimpleNamespace(config=None))
    )
    return names


async def test_the_home_page_has_them(asked: list[str]) -> None:
    ada = user("ada", "course-algebra", "mine", "course-other")
    html = await page("home.html", user=ada, portal_courses=my_courses.FOR_PAGES)
    assert asked == ["ada"]
    assert html.count('data-course="algebra"') == 1 and "Linear algebra" in html
    assert 'data-server-name="mine"' in html


async def test_a_kernel_can_be_stopped_on_the_home_page_and_not_opened(asked: list[str]) -> None:
    ada = user("ada")
    runs, over = Server("kernel-00000001"), Server("kernel-00000002")
    runs.serves = over.serves = False  # type: ignore[attr-defined]
    over.active = over.ready = False
    ada.all_spawners = lambda include_default=True: [runs, over]
    html = await page("home.html", user=ada, portal_courses=my_courses.FOR_PAGES)
    (row,) = [part for part in html.split("<li") if 'data-server-name="kernel-' in part]
    assert 'data-server-name="kernel-00000001"' in row
    assert "stop-server" in row and "href=" not in row


async def test_the_launch_page_has_those_of_whom_it_is_for(asked: list[str]) -> None:
    for variables in ({"user": user("ada")}, {"user": user("grace"), "for_user": user("ada")}):
        html = await page("spawn.html", portal_courses=my_courses.FOR_PAGES, **variables)
        assert html.count('data-course="algebra"') == 1
    assert asked == ["ada", "ada"]


@pytest.mark.parametrize("name", ["home.html", "spawn.html"])
async def test_a_hub_without_courses_has_none(name: str) -> None:
    assert "data-course" not in await page(name, user=user("ada", "course-algebra"))


def test_the_shipped_configuration_gives_them_to_the_pages(tmp_path: Path) -> None:
    file = data_path("deploy") / "jupyterhub_config.py"
    config = PyFileConfigLoader(file.name, str(file.parent)).load_config()
    hub = JupyterHub(config=config)
    assert hub.template_vars["portal_courses"].has("course-algebra")
    assert not hub.template_vars["portal_courses"].has("mine")
