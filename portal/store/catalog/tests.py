"""Smoke tests of environments, and the verdicts of the newest ones. Written by the service only;
the Hub reads the verdicts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import Connection, Index, Row, delete, select

from portal.models.catalog.catalog import EnvironmentTest, Verdict
from portal.models.catalog.image_job import LIVE

from ..engine.columns import COUNT, NAME, TEXT, TIME, Json, filled, keyed, keys, numbered, optional
from .image_work import WorkTable, work_columns

tests = numbered(
    "environment_tests",
    *filled(NAME, "fingerprint", "name", index=True),
    *optional(COUNT, "number"),
    *filled(NAME, "gpu_type", "asker"),
    *work_columns(),
    Index(None, "state"),
)
verdicts = keyed(
    "environment_verdicts",
    *keys(NAME, "fingerprint", "gpu_type"),
    *filled(COUNT, "passed"),
    *filled(TEXT, "message"),
    *filled(TIME, "at"),
    *optional(Json, "mark"),
    *filled(Json, "facts"),
)


class EnvironmentTestTable(WorkTable[EnvironmentTest]):
    """The tables of tests and verdicts. Every method raises StoreUnavailable."""

    __test__ = False  # not a test of pytest's
    table, model, noun = tests, EnvironmentTest, "test"

    async def add_test(
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

    async def of_environment(
        self, name: str, offset: int = 0, limit: int = 50
    ) -> tuple[list[EnvironmentTest], int]:
        """Return one page of an environment's tests, newest first, and their total number."""
        return await self._newest(select(tests).where(tests.c.name == name), offset, limit)

    async def without(
        self, names: Collection[str], offset: int = 0, limit: int = 50
    ) -> tuple[list[EnvironmentTest], int]:
        """Return one page of all tests but those of these environments, and their total number."""
        return await self._newest(select(tests).where(tests.c.name.not_in(names)), offset, limit)

    async def forget(self, name: str) -> None:
        """Delete an environment's tests that are over."""
        statement = delete(tests).where(tests.c.name == name, tests.c.state.not_in(LIVE))
        await self._write(statement)

    async def save_verdict(self, verdict: Verdict) -> None:
        """Save the verdict of a finished test, in the place of an earlier one."""
        values = verdict.model_dump() | {"passed": int(verdict.passed)}
        statement = self._database.upsert(verdicts, "passed", "message", "at", "mark", "facts")
        await self._write(statement, values)

    async def verdicts(self) -> dict[str, dict[str, Verdict]]:
        """Return all verdicts by fingerprint, then by GPU type ("" is without GPUs)."""
        return _by_fingerprint(await self._rows_of(select(verdicts)))

    async def outcomes(self) -> dict[str, dict[str, Verdict]]:
        """Return all verdicts without ``facts``, which are long: enough for a launch."""
        columns = [entry for entry in verdicts.c if entry.name != "facts"]
        query = select(*columns)
        return await self._database.run(lambda at: _by_fingerprint(at.execute(query)))

    async def verdicts_of(self, fingerprint: str) -> dict[str, Verdict]:
        """Return the verdicts on one fingerprint, by GPU type."""
        rows = await self._rows_with(verdicts.c.fingerprint, [fingerprint])
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
        return {test.gpu_type: test for test in await self._models(query)}


def _by_fingerprint(rows: Iterable[Row[Any]]) -> dict[str, dict[str, Verdict]]:
    by_fingerprint: dict[str, dict[str, Verdict]] = {}
    for row in rows:
        verdict = Verdict.model_validate(row._asdict())
        by_fingerprint.setdefault(verdict.fingerprint, {})[verdict.gpu_type] = verdict
    return by_fingerprint
