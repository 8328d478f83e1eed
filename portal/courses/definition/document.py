"""Course files: YAML documents with a course and its members."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, ValidationError

from portal.catalog.definitions.document import read_document
from portal.catalog.definitions.yaml_text import document_text
from portal.errors import InvalidRequest
from portal.models import Frozen
from portal.models.course.course import Course, CourseMember
from portal.models.space import Login, Role

_People = Annotated[tuple[Login, ...], Field(max_length=10_000)]
LISTS = {
    "instructors": Role.INSTRUCTOR,
    "assistants": Role.ASSISTANT,
    "students": Role.STUDENT,
}


class CourseMembers(Frozen):
    """Members of a course by user name, without those of its group in the directory."""

    instructors: _People = ()
    assistants: _People = ()
    students: _People = ()

    def by_role(self) -> dict[str, Role]:
        """Return each person's role; the highest, for a person in several lists."""
        roles: dict[str, Role] = {}
        for name, role in LISTS.items():
            for person in getattr(self, name):
                roles.setdefault(person, role)
        return roles


class CourseFile(Frozen):
    """Document with ``course``, as in portal/models/course/course.py, and ``members``."""

    course: Course
    members: CourseMembers = CourseMembers()


def read_course(raw: bytes, file: str) -> CourseFile:
    """Parse the course in ``raw``. Raises InvalidRequest with the file's line and key,
    ConfigurationError if it is not YAML."""
    document = read_document(raw)
    try:
        return CourseFile.model_validate(document.data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        words = str(first["msg"]).removeprefix("Value error, ")
        line = document.line_of(tuple(first["loc"]))
        raise InvalidRequest(f"{file}:{line}: '{where}': {words}.", where) from None


def course_text(course: Course, members: list[CourseMember]) -> str:
    """Return the course as YAML text, without members that come from the directory's group."""
    values: dict[str, Any] = {"course": _given(course)}
    people = {
        name: [
            member.person for member in members if member.role is role and member.source == "list"
        ]
        for name, role in LISTS.items()
    }
    values["members"] = {name: listed for name, listed in people.items() if listed}
    return document_text(values)


def _given(course: Course) -> dict[str, Any]:
    """Return the values that differ from the defaults, in the order of the model."""
    values = course.model_dump(mode="json", exclude_defaults=True)
    return {name: values[name] for name in Course.model_fields if name in values}
