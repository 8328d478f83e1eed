"""A course as a file: a YAML document with the course and who is in it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, ValidationError

from portal.catalog.definitions.document import read_document
from portal.catalog.definitions.yaml_text import document_text
from portal.errors import InvalidRequest
from portal.models import Frozen
from portal.models.course.course import Course, CourseMember, Login, Role

_People = Annotated[tuple[Login, ...], Field(max_length=10_000)]
LISTS = {
    "instructors": Role.INSTRUCTOR,
    "assistants": Role.ASSISTANT,
    "students": Role.STUDENT,
}


class CourseMembers(Frozen):
    """Who is in a course, by user names; those of its group in the directory are not here."""

    instructors: _People = ()
    assistants: _People = ()
    students: _People = ()

    def by_role(self) -> dict[str, Role]:
        """What each person is; who stands in several lists is the most of them."""
        found: dict[str, Role] = {}
        for name, role in LISTS.items():
            for person in getattr(self, name):
                found.setdefault(person, role)
        return found


class CourseFile(Frozen):
    """The document: ``course`` as portal/models/course/course.py has it, and ``members``."""

    course: Course
    members: CourseMembers = CourseMembers()


def read_course(raw: bytes, file: str) -> CourseFile:
    """The course in ``raw``. Raises InvalidRequest with the file's line and key,
    ConfigurationError for what is no YAML."""
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
    """The same as text. Who comes from the directory's group is left out."""
    values: dict[str, Any] = {"course": _said(course)}
    people = {
        name: [one.person for one in members if one.role is role and one.source == "list"]
        for name, role in LISTS.items()
    }
    values["members"] = {name: found for name, found in people.items() if found}
    return document_text(values)


def _said(course: Course) -> dict[str, Any]:
    """What is not so anyway, in the order of the model."""
    values = course.model_dump(mode="json", exclude_defaults=True)
    return {name: values[name] for name in Course.model_fields if name in values}
