"""What sessions that start together share: commits."""

from __future__ import annotations

import asyncio

from spawners.lifecycle.commits import Commits


class Database:
    """Counts commits; the next one fails when ``broken``."""

    commits = 0
    broken = False

    def commit(self) -> None:
        if self.broken:
            raise OSError("disk full")
        self.commits += 1


async def test_those_who_store_together_share_one_commit() -> None:
    database, commits, written = Database(), Commits(), []

    def write(number: int) -> None:
        assert database.commits == 0, "written after its commit"
        written.append(number)

    await asyncio.gather(
        *(commits.store(database, lambda n=number: write(n)) for number in range(50))
    )
    assert database.commits == 1
    assert written == list(range(50))


async def test_a_store_after_a_commit_has_its_own() -> None:
    database, commits = Database(), Commits()
    await commits.store(database, lambda: None)
    await commits.store(database, lambda: None)
    assert database.commits == 2


async def test_who_goes_away_takes_nobodys_commit_along() -> None:
    database, commits, written = Database(), Commits(), []
    leaves = asyncio.ensure_future(commits.store(database, lambda: written.append("leaves")))
    stays = asyncio.ensure_future(commits.store(database, lambda: written.append("stays")))
    await asyncio.sleep(0)
    leaves.cancel()
    await stays
    assert written == ["leaves", "stays"]


async def test_a_commit_that_fails_is_everyones_error_and_not_the_next_ones() -> None:
    database, commits = Database(), Commits()
    database.broken = True
    answers = await asyncio.gather(
        *(commits.store(database, lambda: None) for _ in range(2)), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [OSError, OSError]
    database.broken = False
    await commits.store(database, lambda: None)
    assert database.commits == 1
