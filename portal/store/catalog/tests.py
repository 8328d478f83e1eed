"""Smoke tests of environments, and the verdicts of the newest ones. Written by the service only;
the Hub reads the verdicts."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Column, Connection, Index, Table, delete, select

from portal.models.catalog.catalog import EnvironmentTest, Verdict
from portal.models.catalog.image_job import LIVE

from ..engine.columns import COUNT, NAME, ROW, TEXT, TIME, Json, metadata
from .image_work import WorkTable

tests = Table(
    "environment_tests",
    metadata,
    Column("id", ROW, primary_key=True),
    Column("fingerprint", NAME, nullable=False),
    Column("name", NAME, nullable=False),
    Column("number", COUNT),
    Column("gpu_type", NAME, nullable=False),
    Column("state", NAME, nullable=False),
    Column("asker", NAME, nullable=False),
    Column("job_id", NAME, nullable=False),
    Column("nonce", NAME, nullable=False),
    Column("log", NAME, nullable=False),
    Column("step", NAME, nullable=False),
    Column("message", TEXT, nullable=False),
    Column("asked_at", TIME, nullable=False),
    Column("started_at", TIME),
    Column("ended_at", TIME),
    Column("result", Json),
    Index(None, "fingerprint"),
    Index(None, "name"),
    Index(None, "state"),
    sqlite_autoincrement=True,
)
verdicts = Table(
    "environment_verdicts",
    metadata,
    Column("fingerprint", NAME, primary_key=True),
    Column("gpu_type", NAME, primary_key=True),
    Column("passed", COUNT, nullable=False),
    Column("message", TEXT, nullable=False),
    Column("at", TIME, nullable=False),
    Column("mark", Json),
    Column("facts", Json, nullable=False),
)


class EnvironmentTestTable(WorkTable[EnvironmentTest]):
    """The tables of tests and verdicts. Every method raises StoreUnavailable."""

    __test__ = False  # not a test of pytest's
    table, model, noun = tests, EnvironmentTest, "test"

    async def add(
        self,
        *,
        fingerprint: str,
        name: str,
        number: int | None,
        gpu_type: str,
        asker: str,
        nonce: str,
        log: str,
        at: float,
    ) -> EnvironmentTest:
        """Insert a new test, WAITING; return it with its id."""
        own = {"fingerprint": fingerprint, "name": name, "number": number}
        return await self._add(nonce, log, at, **own, gpu_type=gpu_type, asker=asker)

    async def of(
        self, name: str, offset: int = 0, limit: int = 50
    ) -> tuple[list[EnvironmentTest], int]:
        """Return one page of an environment's tests, newest first, and their total number."""
        return await self._page(select(tests).where(tests.c.name == name), offset, limit)

    async def without(
        self, names: Collection[str], offset: int = 0, limit: int = 50
    ) -> tuple[list[EnvironmentTest], int]:
        """Return one page of all tests but those of these environments, and their total number."""
        return await self._page(select(tests).where(tests.c.name.not_in(names)), offset, limit)

    async def forget(self, name: str) -> None:
        """Delete an environment's tests that are over."""
        statement = delete(tests).where(tests.c.name == name, tests.c.state.not_in(LIVE))
        await self._database.run(lambda to: to.execute(statement), write=True)

    async def judge(self, verdict: Verdict) -> None:
        """Save the verdict of a finished test, in the place of an earlier one."""
        values = verdict.model_dump() | {"passed": int(verdict.passed)}
        statement = self._database.upsert(verdicts, "passed", "message", "at", "mark", "facts")
        await self._database.run(lambda to: to.execute(statement, values), write=True)

    async def verdicts(self) -> dict[str, dict[str, Verdict]]:
        """Return all verdicts by fingerprint, then by GPU type ("" is without GPUs)."""
        rows = await self._database.run(lambda at: list(at.execute(select(verdicts))))
        by_fingerprint: dict[str, dict[str, Verdict]] = {}
        for row in rows:
            by_fingerprint.setdefault(row.fingerprint, {})[row.gpu_type] = Verdict.model_validate(
                row._asdict()
            )
        return by_fingerprint

    async def outcomes(self) -> dict[str, dict[str, Verdict]]:
        """Return all verdicts without ``facts``, which are long: enough for a launch."""
        columns = [entry for entry in verdicts.c if entry.name != "facts"]

        def read(at: Connection) -> dict[str, dict[str, Verdict]]:
            by_fingerprint: dict[str, dict[str, Verdict]] = {}
            for row in at.execute(select(*columns)):
                entry = Verdict.model_validate(row._asdict())
                by_fingerprint.setdefault(entry.fingerprint, {})[entry.gpu_type] = entry
            return by_fingerprint

        return await self._database.run(read)

    async def verdicts_of(self, fingerprint: str) -> dict[str, Verdict]:
        """Return the verdicts on one fingerprint, by GPU type."""
        query = select(verdicts).where(verdicts.c.fingerprint == fingerprint)
        rows = await self._database.run(lambda at: list(at.execute(query)))
        return {row.gpu_type: Verdict.model_validate(row._asdict()) for row in rows}

    async def software(self) -> dict[str, dict[str, str]]:
        """Return the software versions of each fingerprint, all that its tests have read. Without
        the packages, which are many."""
        query = select(
            verdicts.c.fingerprint, verdicts.c.gpu_type, verdicts.c.facts["versions"]
        ).order_by(verdicts.c.gpu_type.desc())

        def read(at: Connection) -> dict[str, dict[str, str]]:
            by_fingerprint: dict[str, dict[str, str]] = {}
            for fingerprint, _, versions in at.execute(query):
                by_fingerprint.setdefault(fingerprint, {}).update(versions or {})
            return by_fingerprint

        return await self._database.run(read)

    async def newest(self, fingerprint: str) -> dict[str, EnvironmentTest]:
        """Return the newest tests of ``fingerprint`` by GPU type ("" is without GPUs)."""
        query = select(tests).where(tests.c.fingerprint == fingerprint).order_by(tests.c.id)
        rows = await self._database.run(lambda at: list(at.execute(query)))
        return {row.gpu_type: self._made(row) for row in rows}
