"""One commit between two pauses of a launch."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from jupyterhub import orm
from jupyterhub.user import User
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from spawners.hub_patches import spawn_commits
from spawners.hub_patches.spawn_commits import Steps


@pytest.fixture
def commits(db: Session) -> list[int]:
    """One more for each commit that reached the database."""
    found: list[int] = []
    event.listen(db, "after_commit", lambda _: found.append(1))
    return found


def test_the_hub_s_launches_do() -> None:
    spawn_commits.PATCH.apply()
    assert hasattr(User.spawn, "in_steps")


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
