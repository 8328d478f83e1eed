"""Starter notebooks: what the service gives to a session, and how they come into the home."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from portal_session.home import starters
from portal_session.home.new_file import write_new
from portal_session.home.starters import FOLDER, Starters
from portal_session.service import ServiceError
from test_extend import TORCH, Site, said, site  # noqa: F401  a fixture

from portal.handlers.sessions import starters as endpoints

NOTEBOOK = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


# -- the service's end ---------------------------------------------------------------------------


@pytest.fixture
def shipped(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: F811
    """The folder with the notebooks that come with the portal; the environment names two."""
    folder = tmp_path / "deploy" / endpoints.FOLDER
    folder.mkdir(parents=True)
    (folder / "first.ipynb").write_text(NOTEBOOK)
    (folder / "secret.ipynb").write_text(NOTEBOOK)
    monkeypatch.setattr(endpoints, "data_path", lambda _: tmp_path / "deploy")
    environment = TORCH.model_copy(update={"starters": ("first.ipynb", "second.ipynb")})
    site.parts.catalog.environments = {"torch": environment}  # type: ignore[misc]
    return folder


async def test_a_session_is_given_the_notebooks_of_its_environment(
    site: Site,  # noqa: F811
    shipped: Path,
) -> None:
    def get(path: str, token: str = "session") -> Any:
        return site.client.get(path, headers={"Authorization": f"token {token}"})

    answer = await get("session/starters")
    assert answer.json() == {"environment": "torch", "starters": ["first.ipynb", "second.ipynb"]}
    answer = await get("session/starters/first.ipynb")
    assert answer.json() == {"name": "first.ipynb", "text": NOTEBOOK}
    for name, words in [
        ("second.ipynb", "'second.ipynb' is not installed"),
        ("secret.ipynb", "no starter notebook 'secret.ipynb'"),
    ]:
        answer = await get(f"session/starters/{name}")
        assert answer.status_code == 404
        assert words in said(answer)
    (shipped / "second.ipynb").write_text("x" * (endpoints.LARGEST + 1))
    assert (await get("session/starters/second.ipynb")).status_code == 404
    assert (await get("session/starters/..%2ffirst.ipynb")).status_code == 404
    assert (await get("session/starters", "ada")).status_code == 403


# -- the session's end ---------------------------------------------------------------------------


class Portal:
    """Stands for portal_session.service.Service: answers from a dictionary."""

    def __init__(self, **notebooks: str) -> None:
        self.notebooks = {f"{name}.ipynb": text for name, text in notebooks.items()}
        self.environment: Any = "torch"
        self.refusals = 0

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        if self.refusals:
            self.refusals -= 1
            raise ServiceError("The portal has not seen this session's job yet.", 503)
        assert method == "GET"
        _, _, name = path.partition("session/starters/")
        if name:
            return {"name": name, "text": self.notebooks[name]}
        return {"environment": self.environment, "starters": [*self.notebooks]}


def copier(portal: Portal, home: Path) -> Starters:
    environ = {"PYTHONUSERBASE": str(home / ".portal/torch")}
    made = Starters(portal, environ, home, logging.getLogger("session"))
    made.pauses = (0.0, 0.0, 0.0)
    return made


def test_they_are_copied_once_and_never_over_a_file(tmp_path: Path) -> None:
    portal, place = Portal(a="A", b="B"), tmp_path / FOLDER / "torch"
    place.mkdir(parents=True)
    (place / "b.ipynb").write_text("mine")
    portal.refusals = 2
    copier(portal, tmp_path).give()
    assert (place / "a.ipynb").read_text() == "A"
    assert (place / "b.ipynb").read_text() == "mine"
    (place / "a.ipynb").unlink()
    portal.notebooks["c.ipynb"] = "C"
    copier(portal, tmp_path).give()
    assert sorted(path.name for path in place.iterdir()) == ["b.ipynb", "c.ipynb"]
    done = copier(portal, tmp_path).copy(again=True)
    assert done == {
        "folder": f"{FOLDER}/torch",
        "copied": ["a.ipynb"],
        "there": ["b.ipynb", "c.ipynb"],
    }


@pytest.mark.parametrize("at", [FOLDER, f"{FOLDER}/torch"])
def test_no_link_leads_them_elsewhere(at: str, tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = home / at
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    with pytest.raises(OSError, match=r"Not a directory|Too many"):
        write_new(home, (FOLDER, "torch"), "a.ipynb", "A")
    assert list(elsewhere.iterdir()) == []
    copier(Portal(a="A"), home).give()  # says so in the log, and ends
    assert list(elsewhere.iterdir()) == []


def test_a_link_in_the_place_of_a_notebook_stays_as_it_is(tmp_path: Path) -> None:
    place, target = tmp_path / FOLDER / "torch", tmp_path / "target"
    place.mkdir(parents=True)
    (place / "a.ipynb").symlink_to(target)
    assert not write_new(tmp_path, (FOLDER, "torch"), "a.ipynb", "A")
    assert not target.exists()


def test_a_half_one_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnicodeEncodeError):
        write_new(tmp_path, (FOLDER,), "a.ipynb", "\ud800")
    assert list((tmp_path / FOLDER).iterdir()) == []


@pytest.mark.parametrize("environment", ["../etc", "", None, 3])
def test_a_strange_answer_writes_nothing(environment: Any, tmp_path: Path) -> None:
    portal = Portal(a="A")
    portal.environment = environment
    with pytest.raises(ServiceError, match="cannot be read"):
        copier(portal, tmp_path).copy(again=True)
    portal = Portal(a="x" * (starters.LARGEST + 1))
    with pytest.raises(ServiceError, match="cannot be read"):
        copier(portal, tmp_path).copy(again=True)
    portal = Portal()
    portal.notebooks = {"../x.ipynb": "X", ".bashrc": "X"}
    assert copier(portal, tmp_path).copy(again=True)["copied"] == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert list(tmp_path.iterdir()) == []


def test_the_first_opens_once_at_the_first_session(tmp_path: Path) -> None:
    portal = Portal(b="B", a="A")
    session = copier(portal, tmp_path)
    session.give()
    assert session.take_first() == f"{FOLDER}/torch/b.ipynb"
    assert session.take_first() == ""
    portal.notebooks["c.ipynb"] = "C"  # a new one opens by itself in no later session
    later = copier(portal, tmp_path)
    later.give()
    assert later.take_first() == ""
    assert (tmp_path / FOLDER / "torch/c.ipynb").exists()


def test_none_opens_where_the_user_has_it_already(tmp_path: Path) -> None:
    assert write_new(tmp_path, (FOLDER, "torch"), "a.ipynb", "mine")
    session = copier(Portal(a="A"), tmp_path)
    session.give()
    assert session.take_first() == ""


def test_a_page_waits_for_a_portal_that_does_not_answer_and_gets_none(tmp_path: Path) -> None:
    portal = Portal(a="A")
    portal.refusals = 9
    session = copier(portal, tmp_path)
    threading.Timer(0.05, session.give).start()
    assert session.take_first() == ""


@pytest.mark.parametrize("board", [True, False])
def test_it_names_only_what_the_session_has(
    board: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starters.importlib.util, "find_spec", lambda _: object() if board else None)
    about = ["# One\n", "\n", "See `two.ipynb`.\n", "\n", "See `one.ipynb`.\n"]
    about += ["\n", "Open TensorBoard\n", "from the launcher."]
    code = {"cell_type": "code", "source": ["# TensorBoard `two.ipynb`"]}
    notebook = {"cells": [{"cell_type": "markdown", "source": about}, code]}

    def shown(*names: str) -> str:
        made = json.loads(starters.without_lacking(json.dumps(notebook), names))
        assert made["cells"][1] == code
        return "".join(made["cells"][0]["source"])

    copier(Portal(one=json.dumps(notebook)), tmp_path).give()
    copied = (tmp_path / FOLDER / "torch/one.ipynb").read_text()
    assert "two.ipynb`.\\n" not in copied and ("Open TensorBoard" in copied) == board
    ending = "\n\nOpen TensorBoard\nfrom the launcher." if board else ""
    assert shown("one.ipynb") == f"# One\n\nSee `one.ipynb`.{ending}"
    assert shown("one.ipynb", "two.ipynb") == (
        f"# One\n\nSee `two.ipynb`.\n\nSee `one.ipynb`.{ending}"
    )


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 9000, '{"cells": [1]}', '{"cells": [{}]}'])
def test_what_is_no_notebook_stays_as_it_is(text: str) -> None:
    assert starters.without_lacking(text, ()) == text
