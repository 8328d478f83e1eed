"""Folders of projects as the projects are, with a program that only notes what it is asked."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from portal.models.space import Role, SpaceState
from portal.projects.folder.folders import ProjectFolders
from portal.projects.folder.keeping import FolderKeeping
from portal.projects.models import Project, ProjectMember, StoredProject
from portal.projects.tables import ProjectTable
from portal.store import Store

PROGRAM = """#!{python}
import json, pathlib, sys, time
place, (name, action) = pathlib.Path({place!r}), sys.argv[1:]
members = json.loads((place / "members" / f"{{name}}.json").read_text())["members"]
(place / "calls").open("a").write(json.dumps([name, action, members]) + "\\n")
if (place / "refuses").exists():
    sys.exit("no" if (place / "refuses").unlink() else 3)
while (place / f"{{name}}-walks").exists() and "eve" in members:
    time.sleep(0.02)
state, folder = place / f"{{name}}-archived", place / "root" / name
folder.mkdir(exist_ok=True)
if action in ("archive", "restore"):
    state.touch() if action == "archive" else state.unlink(missing_ok=True)
print(json.dumps({{"project": name, "action": action, "quota": "on", "archived": state.exists(),
    "unknown": [n for n in members if n == "nobody"], "unknown_count": int("nobody" in members)}}))
"""


@dataclass
class Site:
    """Projects, and the program."""

    place: Path
    store: Store
    keeping: FolderKeeping

    @property
    def table(self) -> ProjectTable:
        return self.store.table(ProjectTable)

    async def add(self, name: str, **roles: Role) -> StoredProject:
        project = Project(name=name, title=name)
        at = time.time()
        stored = StoredProject(project=project, state=SpaceState.APPROVED, created_by="ada",
                               created_at=at, changed_at=at)  # fmt: skip
        await self.table.add_space(stored, [self.member(name, *pair) for pair in roles.items()])
        return stored

    @staticmethod
    def member(project: str, person: str, role: Role) -> ProjectMember:
        return ProjectMember(project=project, person=person, role=role)

    async def settled(self) -> None:
        await self.keeping.look()
        await asyncio.gather(*self.keeping._under_way.values())

    def calls(self) -> list[tuple[str, str, dict[str, str]]]:
        path = self.place / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [tuple(json.loads(line)) for line in lines]


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    store = Store(url=f"sqlite:///{tmp_path}/portal.sqlite", log=logging.getLogger("service"))
    await store.upgrade()
    for name in ("members", "root"):
        (tmp_path / name).mkdir()
    program = tmp_path / "program"
    program.write_text(PROGRAM.format(python=sys.executable, place=str(tmp_path)))
    program.chmod(0o755)
    settings = {key: str(tmp_path / key) for key in ("program", "members", "root")}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    folders = ProjectFolders(logging.getLogger(), tmp_path / "settings.json", sudo=())
    yield Site(tmp_path, store, FolderKeeping(folders, store, logging.getLogger()))
    await store.close()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.02)


async def test_a_folder_follows_its_project(site: Site) -> None:
    stored = await site.add("proteins", ada=Role.OWNER, rita=Role.READER)
    await site.settled()
    assert site.calls() == [("proteins", "make", {"ada": "owner", "rita": "reader"})]
    await site.settled()
    assert site.calls() == [], "nothing has changed"

    await site.table.members.put([site.member("proteins", "rita", Role.MEMBER)])
    await site.settled()
    assert site.calls() == [("proteins", "make", {"ada": "owner", "rita": "member"})]

    values = {"state": SpaceState.ARCHIVED, "number": stored.number}
    archived = await site.table.save(stored.model_copy(update=values))
    await site.settled()
    assert [action for _, action, _ in site.calls()] == ["make", "archive"]
    await site.table.save(archived.model_copy(update={"state": SpaceState.APPROVED}))
    await site.settled()
    assert [action for _, action, _ in site.calls()] == ["make", "restore"]


async def test_requests_and_what_was_never_approved_have_none(site: Site) -> None:
    for name, state in (("asked", SpaceState.REQUESTED), ("gone", SpaceState.ARCHIVED)):
        stored = await site.add(name, ada=Role.OWNER)
        await site.table.save(stored.model_copy(update={"state": state}))
    await site.settled()
    assert site.calls() == [] and not list((site.place / "root").iterdir())


async def test_a_refusal_is_told_and_tried_again(site: Site) -> None:
    await site.add("proteins", ada=Role.OWNER)
    (site.place / "refuses").touch()
    await site.settled()
    assert "The folder of project 'proteins'" in site.keeping.problem("proteins")
    await site.settled()
    assert len(site.calls()) == 1, "not again at once"
    site.keeping._failed["proteins"] -= site.keeping.retry
    await site.settled()
    assert len(site.calls()) == 1 and site.keeping.problem("proteins") == ""


async def test_members_without_an_account_are_named(site: Site) -> None:
    await site.add("proteins", ada=Role.OWNER, nobody=Role.MEMBER)
    await site.settled()
    words = "No users of the nodes, so without the folder: nobody."
    assert site.keeping.problem("proteins") == words


async def test_a_leaver_does_not_wait_for_a_walk_through_the_files(site: Site) -> None:
    await site.add("proteins", ada=Role.OWNER, eve=Role.MEMBER)
    (site.place / "proteins-walks").touch()
    await site.keeping.look()
    await until((site.place / "calls").exists)
    await site.keeping.look()
    assert len(site.calls()) == 1, "the same is not done twice at once"
    await site.table.members.remove("proteins", ["eve"])
    await site.keeping.look()
    await until((site.place / "calls").exists)
    assert site.calls() == [("proteins", "make", {"ada": "owner"})]
    (site.place / "proteins-walks").unlink()
    await asyncio.gather(*site.keeping._under_way.values())
    await site.settled()  # the one that ended last may have been of before
    assert site.keeping._done["proteins"].members == (("ada", "owner"),)
