"""Shared notebooks (portal_session.course.together), in a real server, which serves no Hub."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_client import wait_until
from portal_session.course import together
from portal_session.page import needed
from session_server import KERNELS, TOKEN, SessionServer, a_server, make_python
from shared_notebook import FILE, NOTEBOOK, opened_by_two

EXTENSIONS = "share/jupyter/labextensions/@jupyter"
ROOM = {"PORTAL_COURSE_KIND": "room"}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with jupyter-collaboration, which switches itself on in all of its files."""
    root = tmp_path_factory.mktemp("together")
    made = make_python(root)
    shutil.copytree(f"{sys.prefix}/{EXTENSIONS}", root / EXTENSIONS)
    config = root / "etc/jupyter/jupyter_server_config.d"
    for name in ("jupyter_collaboration", "jupyter_server_fileid", "jupyter_server_terminals"):
        shutil.copy(f"{sys.prefix}/etc/jupyter/jupyter_server_config.d/{name}.json", config)
    page = root / "etc/jupyter/labconfig/page_config.d/portal_session.json"
    page.parent.mkdir(parents=True)
    shutil.copy(KERNELS / "config/page_config.json", page)
    return made


def the_room(environ: dict[str, str]) -> dict[str, str]:
    found = dict(environ)
    together.set_settings(found)
    return found


@pytest.fixture(scope="module")
def room(python: Path) -> Iterator[SessionServer]:
    environ = the_room(ROOM)
    with a_server(python, *together.arguments(environ), **environ) as server:
        yield server


@pytest.fixture(scope="module")
def alone(python: Path) -> Iterator[SessionServer]:
    environ = the_room({"PORTAL_COURSE_KIND": "course"})
    with a_server(python, *together.arguments(environ), **environ) as server:
        yield server


def page_config(server: SessionServer) -> dict[str, object]:
    html = server.client.get("lab").text
    text = html.partition('<script id="jupyter-config-data" type="application/json">')[2]
    return dict(json.loads(text.partition("</script>")[0]))


async def test_what_one_types_the_other_sees_and_the_server_saves(room: SessionServer) -> None:
    file = room.home / FILE
    file.write_text(json.dumps(NOTEBOOK))
    headers = {"Authorization": f"token {TOKEN}"}
    server = room.url + "/user/ada/"
    async with opened_by_two(server, headers, headers) as (first, second):
        first.type("\ny = 2")
        await second.until("x = 1\ny = 2")
        second.type("\nz = 3")
        await first.until("y = 2\nz = 3")
        await asyncio.to_thread(wait_until, "saved", lambda: "z = 3" in file.read_text())


def loaded(server: SessionServer) -> set[str]:
    """The extensions that a browser loads."""
    return {one["name"] for one in page_config(server)["federated_extensions"]}


def test_a_room_has_the_page_s_part_and_no_terminals(room: SessionServer) -> None:
    disabled = page_config(room)["disabledExtensions"]
    assert not [one for one in disabled if "ollaboration" in one or "docprovider" in one]
    assert "@jupyterlab/filebrowser-extension:defaultFileBrowser" in disabled
    assert room.client.post("api/terminals").status_code == 404
    assert "@jupyter/collaboration-extension" in loaded(room)
    # What only this session needs is not in the folder that the course shares.
    names = {path.name for path in room.home.rglob("*.db")}
    assert not names & {".jupyter_ystore.db", "file_id_manager.db"}


def test_every_other_session_is_one_person_s(alone: SessionServer) -> None:
    disabled = page_config(alone)["disabledExtensions"]
    assert "@jupyter/collaboration-extension" in disabled
    assert "@jupyter/docprovider-extension" in disabled
    assert "@jupyterlab/filebrowser-extension:defaultFileBrowser" not in disabled
    # Nor does the browser load what is switched off.
    assert not loaded(alone) & {
        "@jupyter/collaboration-extension",
        "@jupyter/docprovider-extension",
    }
    answer = alone.client.put("api/collaboration/session/shared.ipynb", json={})
    assert answer.status_code == 404
    assert alone.client.post("api/terminals").status_code == 200


def test_only_what_is_disabled_as_a_whole_is_not_loaded() -> None:
    extensions = [{"name": name} for name in ("here", "away", "in-part")]
    page = {
        "a": 1,
        "disabledExtensions": ["away", "in-part:one"],
        "federated_extensions": extensions,
    }
    assert needed(page) == {**page, "federated_extensions": [{"name": "here"}, {"name": "in-part"}]}
    assert needed({}) == {"federated_extensions": []}


def test_without_the_package_a_room_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "find_spec", lambda _: None)
    assert together.arguments({}) == []
    with pytest.raises(ImportError, match="jupyter-collaboration"):
        together.arguments(ROOM)
