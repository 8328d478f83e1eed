"""What a page of JupyterLab may know of its session's end, without a login."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from jupyterhub import orm
from sqlalchemy import event
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application

from portal.sessions.ending import Ending
from spawners.api.ended import EndedHandler

ID = "AbCdEfGhIjKlMnOp"
STOPPED = Ending(code="stopped", message="You stopped the session.", by="ada", session=ID)
NOTHING = {"state": "", "words": ""}


class Hub:
    """The Hub's database with servers of ada and barbara, and the users in its memory: ada, with
    the spawners that were used since its start."""

    def __init__(self) -> None:
        self.db = orm.new_session_factory("sqlite://")()
        self.ada, self.barbara = orm.User(name="ada"), orm.User(name="barbara")
        self.row = orm.Spawner(user=self.ada, name="")
        self.db.add_all([self.row, orm.Spawner(user=self.ada, name="second", state={})])
        self.db.add(orm.Spawner(user=self.barbara, name=""))
        self.spawners = {"": SimpleNamespace(active=False)}
        self.end(STOPPED)
        self.users = {self.ada.id: SimpleNamespace(spawners=self.spawners)}

    def end(self, ending: Ending) -> None:
        self.row.state = {"ending": ending.model_dump(), "work": "jupyterlab"}
        self.db.commit()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(EndedHandler, "set_default_headers", lambda _: None)
    hub = Hub()
    yield hub
    hub.db.close()


async def ask(hub: Any, user: str = "ada", server: str = "", session: str = ID) -> Any:
    handlers = [(r"/(\w+)/(\w*)/(.*)", EndedHandler)]
    application = Application(handlers, db=hub.db, users=hub.users, log_function=lambda _: None)
    socket, port = bind_unused_port()
    web = HTTPServer(application)
    web.add_socket(socket)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/", trust_env=False) as client:
        answer = await client.get(f"{user}/{server}/{session}")
    web.stop()
    # The page may be on another host, and sends no cookie.
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    return answer.json()


async def test_the_page_of_a_session_that_has_ended_is_told_why(hub: Any) -> None:
    assert await ask(hub) == {"state": "ended", "words": "You stopped the session."}
    hub.spawners[""].active = True  # its job still ends
    assert await ask(hub) == {"state": "stopping", "words": ""}


@pytest.mark.parametrize("users", ["nobody", "without it"])
async def test_it_is_told_after_a_restart_of_the_hub(hub: Any, users: str) -> None:
    """Its memory has no spawner for a server that does not run."""
    if users == "nobody":
        hub.users.clear()
    else:
        hub.spawners.clear()
    assert await ask(hub) == {"state": "ended", "words": "You stopped the session."}
    hub.row.server = orm.Server()  # a Hub that just starts: the session was running
    hub.db.commit()
    assert await ask(hub) == {"state": "stopping", "words": ""}


async def test_a_strangers_question_loads_one_row(hub: Any) -> None:
    hub.db.add_all(orm.Spawner(user=hub.ada, name=f"s{number}") for number in range(300))
    hub.db.commit()
    loaded: list[str] = []

    def load(row: orm.Spawner, _: Any) -> None:
        loaded.append(row.name)

    hub.db.expunge_all()
    event.listen(orm.Spawner, "load", load)
    try:
        assert await ask(hub, session="AbCdEfGhIjKlMnOx") == NOTHING
        assert await ask(hub, server="none") == NOTHING
    finally:
        event.remove(orm.Spawner, "load", load)
    assert loaded == [""]


@pytest.mark.parametrize(
    "asked",
    [
        {"session": "AbCdEfGhIjKlMnOx"},
        {"session": ""},
        {"user": "barbara"},
        {"user": "nobody"},
        {"server": "second"},
        {"server": "third"},
    ],
)
async def test_nothing_is_told_of_any_other(hub: Any, asked: dict[str, str]) -> None:
    assert await ask(hub, **asked) == NOTHING


@pytest.mark.parametrize("session", ["", "job-4711-1700000000"])
async def test_nothing_is_told_for_an_id_that_can_be_guessed(hub: Any, session: str) -> None:
    hub.end(STOPPED.model_copy(update={"session": session}))
    assert await ask(hub, session=session) == NOTHING
