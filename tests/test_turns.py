"""Launches wait for their turn in the middle of JupyterHub's own work for them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import orm
from sqlalchemy.orm import Session

from spawners import slurm


@pytest.fixture
def db() -> Session:
    return orm.new_session_factory("sqlite:///:memory:")()


async def test_a_request_that_ends_meanwhile_takes_nothing_away(
    db: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As JupyterHub starts a server (User.spawn), and ends a request (BaseHandler.finish)."""
    user = orm.User(name="ada")
    db.add(user)
    db.add(orm.Spawner(name="", user=user))
    db.commit()
    server = orm.Server(base_url="/user/ada/")
    db.add(server)
    db.commit()
    row = user.orm_spawners[""]
    row.server = server

    class Turns:
        async def take(self) -> None:
            db.rollback()

    monkeypatch.setattr(slurm, "token_scopes", lambda _: ["a-scope"])
    spawner: Any = SimpleNamespace(
        orm_spawner=row,
        shared=SimpleNamespace(turns=Turns()),
        user=SimpleNamespace(db=db),
    )
    answer = asyncio.ensure_future(slurm._token_scopes(spawner))  # as JupyterHub's maybe_future
    db.rollback()  # a request that ends before the answer is begun
    answer.add_done_callback(lambda _: db.rollback())  # and one before the Hub goes on with it
    assert await answer == ["a-scope"]
    db.commit()
    assert row.server is server and row.server_id == server.id
