"""Ids of sessions' OAuth clients: one for each session."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from jupyterhub import orm
from jupyterhub.spawner import SimpleLocalProcessSpawner
from jupyterhub.user import User
from sqlalchemy.orm import Session

from spawners.hub_patches import client_ids


@pytest.fixture(autouse=True)
def patched() -> None:
    client_ids.PATCH.apply()


def spawner(db: Session, name: str, server: str) -> Any:
    row = orm.User.find(db, name) or orm.User(name=name)
    db.add(row)
    user = User(row, {"spawner_class": SimpleLocalProcessSpawner, "allow_named_servers": True})
    if server not in user.orm_spawners:
        user._new_orm_spawner(server, "")
    return user.spawners[server]


def test_two_sessions_never_have_one_client(db: Session) -> None:
    names = ["ada", "ada-x", "ada-x-y", "ada%2Dx", "ada%2dx", "ada--x", "a@b", "ada-"]
    servers = ["", "x", "x-y", "y", "course-x"]
    ids = [spawner(db, *pair).oauth_client_id for pair in itertools.product(names, servers)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("server", "id"),
    [("", "jupyterhub-user-ada"), ("course-x", "jupyterhub-user-ada-course-x")],
)
def test_most_are_as_jupyterhub_makes_them(db: Session, server: str, id: str) -> None:
    assert spawner(db, "ada", server).oauth_client_id == id


def test_a_session_that_runs_keeps_its_own(db: Session) -> None:
    """It was told at its start; after an upgrade, the Hub must not take it for another's."""
    before = "jupyterhub-user-ada-x"
    row = spawner(db, "ada-x", "").orm_spawner
    row.oauth_client = orm.OAuthClient(identifier=before)
    db.commit()
    assert spawner(db, "ada-x", "").oauth_client_id == before
    row.oauth_client = None  # it has stopped
    db.commit()
    assert spawner(db, "ada-x", "").oauth_client_id == "jupyterhub-user-ada%2Dx"
