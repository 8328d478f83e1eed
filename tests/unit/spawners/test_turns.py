"""Launches wait for their turn before JupyterHub's own work for them, and never in its middle."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import orm
from jupyterhub.oauth.provider import JupyterHubOAuthServer
from jupyterhub.user import User
from jupyterhub.utils import compare_token
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from spawners import slurm
from spawners.prompt import PromptStart
from spawners.reports import token_scopes
from spawners.turns import Steps, _in_turn


@pytest.fixture
def db() -> Iterator[Session]:
    """The Hub's own database, with one person."""
    session = orm.new_session_factory("sqlite://")()
    session.add(orm.User(name="ada"))
    session.commit()
    yield session
    session.close()


@pytest.fixture
def commits(db: Session) -> list[int]:
    """One more for each commit that reached the database."""
    found: list[int] = []
    event.listen(db, "after_commit", lambda _: found.append(1))
    return found


async def test_a_launch_begins_in_its_turn_and_gets_what_it_was_given(db: Session) -> None:
    order: list[str] = []

    async def spawn(user: Any, server: str, options: Any = None, handler: Any = None) -> str:
        order.append(server)
        return f"{server} {options} {handler}"

    turned, user = _in_turn(spawn), SimpleNamespace(db=db)
    launches = [asyncio.ensure_future(turned(user, one, {}, handler="h")) for one in "abc"]
    await asyncio.sleep(0)
    assert order == []
    for _ in range(30):
        before = len(order)
        await asyncio.sleep(0)
        assert len(order) <= before + 1, "one in each turn of the loop"
    assert await asyncio.gather(*launches) == ["a {} h", "b {} h", "c {} h"]


def test_the_hub_s_launches_have_turns_and_stop_nowhere_before_their_first_commit() -> None:
    """What is in the session of the database and not committed goes away with whatever request
    ends meanwhile. JupyterHub asks for the token's scopes there, and awaits an awaitable."""
    assert hasattr(User.spawn, "in_turn")
    spawner: Any = SimpleNamespace(**{"_trait_values": {}})
    scopes = slurm.PortalSpawner._server_token_scopes_default(spawner)
    assert scopes is token_scopes and not inspect.iscoroutinefunction(scopes)


def test_the_scopes_of_sessions_are_read_once_and_are_what_the_hub_s_role_says(db: Session) -> None:
    db.add(orm.Role(name="server", scopes=["one"]))
    db.commit()
    asked: list[str] = []
    event.listen(db.bind, "before_cursor_execute", lambda *told: asked.append(told[2]))
    spawner: Any = SimpleNamespace(user=SimpleNamespace(db=db), service_url="")
    assert token_scopes(spawner) == token_scopes(spawner) == ["one"]
    assert len([words for words in asked if "FROM roles" in words]) == 1
    role = orm.Role.find(db, "server")
    role.scopes = ["one", "two"]
    db.commit()
    assert token_scopes(spawner) == ["one", "two"]
    db.delete(role)
    db.commit()
    db.add(orm.Role(name="server", scopes=["three"]))
    db.commit()
    assert token_scopes(spawner) == ["three"]


async def test_a_launch_commits_once_between_two_pauses(db: Session, commits: list[int]) -> None:
    seen: list[Any] = []

    async def work() -> str:
        server = orm.Server(base_url="/user/ada/")
        db.add(server)
        db.commit()
        seen.append(server.proto)  # JupyterHub goes on with what the database fills in
        db.query(orm.User).one().admin = True
        db.commit()
        db.commit()
        seen.append(len(commits))
        await asyncio.sleep(0)
        seen.append(len(commits))
        db.add(orm.Group(name="g"))
        db.commit()
        return "done"

    assert await Steps(work(), db) == "done"
    assert seen == ["http", 0, 1]
    assert len(commits) == 2
    db.rollback()
    assert db.query(orm.User).one().admin and db.query(orm.Group).one()
    db.commit()
    assert len(commits) > 2, "afterwards a commit is one again"


async def test_what_was_committed_stays_when_a_launch_fails(db: Session) -> None:
    async def fails() -> None:
        db.add(orm.Group(name="kept"))
        db.commit()
        db.add(orm.Group(name="not"))
        await asyncio.sleep(0)
        db.rollback()  # as whatever request ends meanwhile
        db.add(orm.Group(name="kept, too"))
        db.commit()
        raise ValueError("no node")

    with pytest.raises(ValueError, match="no node"):
        await Steps(fails(), db)
    db.rollback()
    assert {one.name for one in db.query(orm.Group)} == {"kept", "kept, too", "not"}


async def test_a_launch_that_is_called_off_hears_of_it(db: Session) -> None:
    heard: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            heard.append("cancelled")
            raise

    async def launch() -> None:
        await Steps(waits(), db)

    task = asyncio.ensure_future(launch())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert heard == ["cancelled"]


async def test_what_the_database_refuses_is_told_and_leaves_it_usable(db: Session) -> None:
    heard: list[str] = []

    async def twice(pause: bool) -> None:
        db.add(orm.User(name="ada"))
        db.commit()
        try:
            if pause:
                await asyncio.sleep(0)
        except IntegrityError:
            heard.append("refused")  # JupyterHub stops what it had begun
            db.rollback()
            await asyncio.sleep(0)
            raise

    for pause in (True, False):
        with pytest.raises(IntegrityError):
            await Steps(twice(pause), db)
        db.rollback()
        assert db.query(orm.User).count() == 1
    assert heard == ["refused"]


def test_a_session_s_secret_is_hashed_once_and_a_service_s_is_not(db: Session) -> None:
    provider = JupyterHubOAuthServer(db, None)
    secret = "0123456789abcdef" * 2
    session = provider.add_client("jupyterhub-user-ada", secret, "http://localhost/")
    service = provider.add_client("service-portal", secret, "http://localhost/")
    assert session.secret.split(":")[1] == "1" and service.secret.split(":")[1] != "1"
    for one in (session, service):
        assert compare_token(one.secret, secret) and not compare_token(one.secret, secret[::-1])


def test_whom_the_hub_has_in_memory_costs_a_launch_one_question(db: Session) -> None:
    asked: list[str] = []
    event.listen(db.get_bind(), "before_cursor_execute", lambda *what: asked.append(what[2]))
    handler: Any = SimpleNamespace(db=db, _user_from_orm=lambda one: one)
    ada = db.query(orm.User).filter_by(name="ada").one()
    assert (ada.roles, ada.groups) == ([], [])
    asked.clear()
    assert PromptStart.find_user(handler, "ada") is ada
    assert len(asked) == 1
    assert PromptStart.find_user(handler, "nobody") is None
