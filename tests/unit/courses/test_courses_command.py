"""``portal courses``: a course as a file, there and back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from portal_command import said_by

from portal.courses.command import CoursesApp
from portal.models.space import Role, SpaceState
from portal.store import Store

LAB = "name: lab\ntitle: Lab\nkind: container\nimage: /images/lab.sif\nmax_gpus: 2\n"
DEEP = """\
course:
  name: deep
  title: Deep Learning
  environment: lab
  default: {gpus: 1, cpus: 2, memory: 4G, time: 2:00:00}
  largest: {gpus: 2, cpus: 4, memory: 8G, time: 4:00:00}
  budget: 100
  timezone: Europe/Berlin
  begins: 2030-10-07
  ends: 2031-02-07
  weekly:
    - {day: 0, begins: 09:00, minutes: 90}
  without: [2030-12-23]
members:
  instructors: [barbara]
  students: [student01, student02]
"""


class Site:
    """A catalog, a database, and the command."""

    def __init__(self, place: Path, store: Store) -> None:
        self.place, self.store = place, store
        catalog = place / "catalog"
        catalog.mkdir()
        (catalog / "lab.yaml").write_text(LAB)
        self.config = place / "config.py"
        self.config.write_text(
            f"c = get_config()\nc.EnvironmentCatalog.directory = {str(catalog)!r}\n"
            f"c.Store.url = {store.url!r}\nc.JupyterHub.port = 1\n"
        )

    def file(self, text: str, name: str = "deep.yaml") -> str:
        path = self.place / name
        path.write_text(text)
        return str(path)

    def run(self, *words: str, status: int = 0) -> str:
        """``portal courses …``; what it says."""
        return said_by(CoursesApp, self.config, *words, status=status)


@pytest.fixture
def site(tmp_path: Path, store: Store) -> Site:
    return Site(tmp_path, store)


def test_there_and_back(site: Site) -> None:
    file = site.file(DEEP)
    assert "deep: draft, 3 members, environment 'lab'." in site.run("import", file)
    said = site.run("export", "deep")
    assert "deep: draft" in site.run("import", site.file(said, "again.yaml"))
    assert site.run("export", "deep") == said
    assert site.run("list") == "deep: draft, 2030-10-07 to 2031-02-07, Deep Learning\n"


def test_approved_and_changed(site: Site) -> None:
    assert "deep: approved" in site.run("import", "--approved", site.file(DEEP))
    changed = DEEP.replace("Deep Learning", "Deeper").replace("student02", "student03")
    # It stays approved, and who is not in the file is not in the course any more.
    assert "deep: approved, 3 members" in site.run("import", site.file(changed))
    stored = asyncio.run(site.store.courses.get("deep"))
    assert (stored.state, stored.number, stored.course.title) == (SpaceState.APPROVED, 2, "Deeper")
    assert stored.pinned is not None and stored.pinned.image == "/images/lab.sif"
    members = asyncio.run(site.store.members.of_space("deep"))
    assert {one.person: one.role for one in members} == {
        "barbara": Role.INSTRUCTOR,
        "student01": Role.STUDENT,
        "student03": Role.STUDENT,
    }


@pytest.mark.parametrize(
    ("wrong", "right", "words"),
    [
        ("environment: lab", "environment: nowhere", "environment: There is no environment"),
        ("minutes: 90", "minutes: ninety", "'course.weekly.0.minutes'"),
        ("Europe/Berlin", "Europe/Nowhere", "is not a time zone"),
        ("name: deep", "name: Deep!", "deep.yaml:2: 'course.name'"),
        ("gpus: 2,", "gpus: 3,", "'Lab' allows at most 2 GPUs"),
        ("budget: 100", "budget: 100\n  colour: red", "'course.colour'"),
        ("members:", "people:", "'people'"),
        ("course:", "!!python/object:os.system x:", "tags"),
    ],
)
def test_what_is_wrong_is_named(site: Site, wrong: str, right: str, words: str) -> None:
    said = site.run("import", site.file(DEEP.replace(wrong, right, 1)), status=1)
    assert words in said
    assert site.run("list") == ""


def test_files_and_courses_that_are_not_there(site: Site) -> None:
    assert "cannot be read" in site.run("import", "nowhere.yaml", status=1)
    assert "Specify one file" in site.run("import", status=1)
    assert "There is no course 'deep'" in site.run("export", "deep", status=1)
