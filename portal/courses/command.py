"""``portal courses``: courses as files, for sites that keep them in git and for the first ones."""

from __future__ import annotations

import asyncio
import getpass
import sys
import time
from pathlib import Path

from traitlets import Bool

from portal.catalog import CatalogRules, EnvironmentCatalog
from portal.command import CommandGroup, flag, subcommands_of
from portal.errors import InvalidRequest, NotFound
from portal.models.course.course import CourseMember, StoredCourse
from portal.models.person import Person
from portal.models.scope import COURSES_MANAGE
from portal.models.space import SpaceState
from portal.setting import setting
from portal.store import Store
from portal.store.command import DatabaseCommand

from .definition.document import CourseFile, course_text, read_course
from .definition.rules import CourseRules
from .settings import Courses

_LARGEST = 1024 * 1024  # bytes of a file


class CourseCommand(DatabaseCommand):
    """Base class of the subcommands."""

    classes = [Store, Courses, EnvironmentCatalog, CatalogRules]

    def only_argument(self, what: str) -> str:
        """Return the only argument. Raises InvalidRequest."""
        return self.argument(f"Specify one {what}", what.upper())


class CourseImportCommand(CourseCommand):
    """Command that creates or changes a course from a file."""

    name = "portal-courses-import"
    description = (
        "Create a course from a YAML file, or update the course with that name. The file's members "
        "replace the existing ones."
    )
    examples = "portal courses import --approved deep-learning.yaml"
    flags = {"approved": flag("CourseImportCommand.approved", "Approve the course.")}

    approved = setting(
        Bool(False),
        """Also approve the course. Otherwise a new course is a draft, and an existing one keeps its
        state.""",
        "portal courses import --approved deep-learning.yaml",
    )

    async def act(self, store: Store) -> bool:
        path = Path(self.only_argument("file"))
        document = read_course(await asyncio.to_thread(_bytes, path), str(path))
        catalog = EnvironmentCatalog(parent=self)
        catalog.log.setLevel("CRITICAL")  # what it would log is printed here
        by = Person(name=getpass.getuser(), admin=True, scopes=frozenset({COURSES_MANAGE}))
        try:
            before: StoredCourse | None = await store.courses.get(document.course.name)
        except NotFound:
            before = None
        rules = CourseRules(Courses(parent=self), catalog, store)
        checked = await rules.check(document.course, by, before, now=time.time())
        for problem in checked.problems:
            print(f"{path}: {problem.field}: {problem.message}")
        if checked.errors:
            return False
        state = before.state if before else SpaceState.DRAFT
        stored = StoredCourse(
            course=checked.course,
            pinned=checked.pinned,
            state=SpaceState.APPROVED if self.approved else state,
            number=before.number if before else 1,
            created_by=before.created_by if before else by.name,
            created_at=before.created_at if before else time.time(),
            changed_at=time.time(),
            answered_by=by.name if self.approved else "",
            answered_at=time.time() if self.approved else None,
        )
        people = await self._keep(store, stored, before, document)
        print(
            f"{stored.name}: {stored.state}, {people} members, environment "
            f"'{stored.course.environment}'."
        )
        return True

    async def _keep(
        self, store: Store, stored: StoredCourse, before: StoredCourse | None, document: CourseFile
    ) -> int:
        """Save the course and its members; return how many members it has then."""
        roles = document.members.by_role()
        members = [
            CourseMember(
                course=stored.name,
                person=person,
                role=role,
                added_by=getpass.getuser(),
                added_at=stored.changed_at,
            )
            for person, role in roles.items()
        ]
        if before is None:
            await store.courses.add_space(stored, members)
        else:
            await store.courses.save(stored)
            current_members = await store.members.of_space(stored.name)
            gone = [
                o.person for o in current_members if o.source == "list" and o.person not in roles
            ]
            await store.members.remove(stored.name, gone)
            await store.members.put(members)
        return len(await store.members.of_space(stored.name))


class CourseExportCommand(CourseCommand):
    """Command that prints a course as a file."""

    name = "portal-courses-export"
    description = "Print a course and its members as a YAML file."
    examples = "portal courses export deep-learning > deep-learning.yaml"

    async def act(self, store: Store) -> bool:
        stored = await store.courses.get(self.only_argument("course"))
        sys.stdout.write(course_text(stored.course, await store.members.of_space(stored.name)))
        return True


class CourseListCommand(CourseCommand):
    """Command that lists the courses."""

    name = "portal-courses-list"
    description = "List the courses and their states."

    async def act(self, store: Store) -> bool:
        for stored in await store.courses.all():
            course = stored.course
            print(
                f"{stored.name}: {stored.state}, {course.begins} to {course.ends}, {course.title}"
            )
        return True


class CoursesApp(CommandGroup):
    """``portal courses SUBCOMMAND``."""

    name = "portal-courses"
    description = "Import, export and list courses."
    subcommands = subcommands_of(
        {"import": CourseImportCommand, "export": CourseExportCommand, "list": CourseListCommand}
    )


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}.") from None
    if len(raw) > _LARGEST:
        raise InvalidRequest(f"{path} is longer than {_LARGEST} bytes.")
    return raw
