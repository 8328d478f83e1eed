"""The health of the site: one word, which parts it comes from, and that asking costs nothing."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from portal import disk
from portal.errors import DirectoryUnavailable
from portal.health import watch as module
from portal.health.watch import Health, HealthWatch


class Store:
    error, slow = "", 0.0
    database = SimpleNamespace(address=SimpleNamespace(path=Path("/")))

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


async def looked(site: Any, folder: Path) -> tuple[Health, dict[str, str]]:
    watch = HealthWatch(site, backups=folder)
    await watch.look_around()
    return watch.health(), {part.title: part.words for part in watch.parts() if part.words}


async def test_all_is_well(tmp_path: Path) -> None:
    assert await looked(services(), tmp_path) == (Health.OK, {})


async def test_before_the_first_look_the_word_is_known(tmp_path: Path) -> None:
    site = services(dashboard=SimpleNamespace(view=None, error=""))
    assert HealthWatch(site, backups=tmp_path).health() is Health.DEGRADED


async def test_each_part_degrades_the_whole_and_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = services()
    site.dashboard.view.snapshot.age = 600.0
    site.store.slow = 0.05
    site.directory.away = True
    site.catalog.errors = {"a.toml": "bad"}
    site.of_features = {Any: SimpleNamespace(look_at=lambda: {"Gateway": gateway()})}
    monkeypatch.setattr(module, "_SLOW", 0.01)
    monkeypatch.setattr(disk, "free", lambda path: 100 * 1024**2)
    (old := tmp_path / "portal-backup-2026-01-01T000000Z.tar").touch()
    os.utime(old, (time.time() - 4 * 86_400,) * 2)

    async def gateway() -> str:
        return "The gateway does not answer."

    health, words = await looked(site, tmp_path)
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
    (tmp_path / "portal-backup-2026-01-05T000000Z.tar").touch()
    assert "Backup" not in (await looked(site, tmp_path))[1]


async def test_nothing_works_without_the_hub_or_without_slurm_and_database(tmp_path: Path) -> None:
    site = services()
    site.hub.up = False
    assert (await looked(site, tmp_path))[0] is Health.FAILED
    site.hub.up = True
    site.dashboard.view.error = "Slurm does not answer."
    assert (await looked(site, tmp_path))[0] is Health.DEGRADED
    site.store.error = "The database does not answer."
    assert (await looked(site, tmp_path))[0] is Health.FAILED
    site.dashboard.view.error = ""
    assert (await looked(site, tmp_path))[0] is Health.DEGRADED


async def test_a_part_that_hangs_is_away_and_the_others_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LATE", 0.05)
    site = services()
    site.hub.up = None
    health, words = await looked(site, tmp_path)
    assert health is Health.FAILED and list(words) == ["Hub"]


async def test_the_directory_is_not_asked_at_each_look(tmp_path: Path) -> None:
    site = services()
    watch = HealthWatch(site, backups=tmp_path)
    for _ in range(3):
        await watch.look_around()
    assert site.directory.asked == 1


async def test_a_question_costs_less_than_five_milliseconds(tmp_path: Path) -> None:
    watch = HealthWatch(services(), backups=tmp_path)
    await watch.look_around()
    began = time.process_time()
    for _ in range(100):
        watch.health()
        watch.parts()
    assert (time.process_time() - began) / 100 < 0.005
