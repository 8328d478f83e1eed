"""The health of the site: one word, which parts it comes from, and that asking costs nothing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portal import disk
from portal.errors import DirectoryUnavailable, StoreUnavailable
from portal.health import watch as module
from portal.health.watch import Health, HealthWatch
from portal.models.audit import AuditAction, Outcome


class Audit:
    """Audit log with one backup, made ``age`` seconds ago; None: without one."""

    age: float | None = None
    away = False

    async def find(self, **asked: Any) -> tuple[list[Any], None]:
        assert asked == {"action": AuditAction.BACK_UP, "outcome": Outcome.DONE, "limit": 1}
        if self.away:
            raise StoreUnavailable("The database does not answer.")
        return [] if self.age is None else [SimpleNamespace(at=time.time() - self.age)], None


class Store:
    error, slow = "", 0.0
    database = SimpleNamespace(address=SimpleNamespace(path=Path("/")))

    def __init__(self) -> None:
        self.audit = Audit()

    async def check(self) -> None:
        await asyncio.sleep(self.slow)


class Directory:
    on = complete = True
    away = False
    asked = 0

    async def known(self, names: Any) -> Mapping[str, str]:
        self.asked += 1
        if self.away:
            raise DirectoryUnavailable("No LDAP server answers.")
        return {}


class Hub:
    up: bool | None = True  # None: it hangs

    async def answers(self) -> bool:
        if self.up is None:
            await asyncio.Event().wait()
        return bool(self.up)


def services(**changed: Any) -> Any:
    view = SimpleNamespace(error="", snapshot=SimpleNamespace(age=3.0))
    parts: dict[str, Any] = {
        "dashboard": SimpleNamespace(view=view, error=""),
        "telemetry": SimpleNamespace(source="prometheus", error=""),
        "catalog": SimpleNamespace(errors={}),
        "store": Store(),
        "directory": Directory(),
        "hub": Hub(),
        "of_features": {},
        "log": logging.getLogger("portal-test"),
    }
    return SimpleNamespace(**{**parts, **changed})


async def looked(site: Any) -> tuple[Health, dict[str, str]]:
    watch = HealthWatch(site)
    await watch.look_around()
    return watch.health(), {part.title: part.words for part in watch.parts() if part.words}


async def test_all_is_well() -> None:
    assert await looked(services()) == (Health.OK, {})


async def test_before_the_first_look_the_word_is_known() -> None:
    site = services(dashboard=SimpleNamespace(view=None, error=""))
    assert HealthWatch(site).health() is Health.DEGRADED


async def test_each_part_degrades_the_whole_and_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    site = services()
    site.dashboard.view.snapshot.age = 600.0
    site.store.slow = 0.05
    site.directory.away = True
    site.catalog.errors = {"a.toml": "bad"}
    site.of_features = {Any: SimpleNamespace(look_at=lambda: {"Gateway": gateway()})}
    monkeypatch.setattr(module, "_SLOW", 0.01)
    monkeypatch.setattr(disk, "free", lambda path: 100 * 1024**2)
    site.store.audit.age = 4 * 86_400

    async def gateway() -> str:
        return "The gateway does not answer."

    health, words = await looked(site)
    assert health is Health.DEGRADED
    assert words.pop("Database").startswith("It took 0.")
    assert words == {
        "Slurm": "Its last answer is 10 min old.",
        "Disk of the database": "100 MiB are left.",
        "Directory": "No LDAP server answers.",
        "Backup": "The newest backup is 4 d old.",
        "Gateway": "The gateway does not answer.",
        "Environment files": "1 file cannot be read.",
    }
    site.store.audit.age = 86_400
    assert "Backup" not in (await looked(site))[1]
    site.store.audit.age, site.store.audit.away = 4 * 86_400, True
    assert "Backup" not in (await looked(site))[1]  # that the database is away is said once


async def test_nothing_works_without_the_hub_or_without_slurm_and_database() -> None:
    site = services()
    site.hub.up = False
    assert (await looked(site))[0] is Health.FAILED
    site.hub.up = True
    site.dashboard.view.error = "Slurm does not answer."
    assert (await looked(site))[0] is Health.DEGRADED
    site.store.error = "The database does not answer."
    assert (await looked(site))[0] is Health.FAILED
    site.dashboard.view.error = ""
    assert (await looked(site))[0] is Health.DEGRADED


async def test_a_part_that_hangs_is_away_and_the_others_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_LATE", 0.05)
    site = services()
    site.hub.up = None
    health, words = await looked(site)
    assert health is Health.FAILED and list(words) == ["Hub"]


async def test_the_directory_is_not_asked_at_each_look() -> None:
    site = services()
    watch = HealthWatch(site)
    for _ in range(3):
        await watch.look_around()
    assert site.directory.asked == 1


async def test_a_question_costs_less_than_five_milliseconds() -> None:
    watch = HealthWatch(services())
    await watch.look_around()
    began = time.process_time()
    for _ in range(100):
        watch.health()
        watch.parts()
    assert (time.process_time() - began) / 100 < 0.005
