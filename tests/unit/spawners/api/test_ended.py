"""What a page of JupyterLab may know of its session's end, without a login."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from jupyterhub import orm
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application

from portal.sessions.ending import Ending
from spawners.api.ended import EndedHandler

ID = "AbCdEfGhIjKlMnOp"
STOPPED = Ending(code="stopped", message="You stopped the session.", by="ada", session=ID)
NOTHING = {"state": "", "words": ""}


class Spawner(SimpleNamespace):
    """Spawner of ada's server."""

    active = False
    ending: Ending | None = STOPPED

    @property
    def last_ending(self) -> Any:
        return self.ending and self.ending.model_dump()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The Hub's database, and the users in its memory: barbara is not there."""
    monkeypatch.setattr(EndedHandler, "set_default_headers", lambda _: None)
    db = orm.new_session_factory("sqlite://")()
    ada, barbara = orm.User(name="ada"), orm.User(name="barbara")
    db.add_all([ada, barbara])
    db.commit()
    owner = SimpleNamespace(name="ada")
    row = SimpleNamespace(orm_spawners={"": None, "second": None})
    spawners = {"": Spawner(user=owner), "second": Spawner(user=owner, ending=None)}
    users = {ada.id: SimpleNamespace(orm_user=row, spawners=spawners)}
    yield SimpleNamespace(db=db, users=users, spawner=spawners[""])
    db.close()


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
    hub.spawner.active = True  # its job still ends
    assert await ask(hub) == {"state": "stopping", "words": ""}


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
    hub.spawner.ending = STOPPED.model_copy(update={"session": session})
    assert await ask(hub, session=session) == NOTHING
