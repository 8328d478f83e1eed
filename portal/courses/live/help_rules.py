"""Rules of courses for help: a member of the staff in a student's session."""

from __future__ import annotations

from collections.abc import Mapping

from portal.errors import NotFound
from portal.models.course.audit import CourseAudit
from portal.models.course.course import Course
from portal.models.space import STAFF, Role, StoredSpace
from portal.spaces.help_rules import HelpRules

from ..settings import Courses


class CourseHelpRules(HelpRules):
    """Rules of courses, each of which chooses its policy."""

    noun = "course"
    granted, ended = CourseAudit.GRANT_HELP, CourseAudit.END_HELP
    agreed, refused = CourseAudit.AGREE_TO_HELP, CourseAudit.REFUSE_HELP
    no_answer = "the student did not answer"
    no_subdomains = (
        "Help is off at this site: without subdomains (JupyterHub.subdomain_host), a student's "
        "code could act with the permissions of the helper. An admin of the portal can enable "
        "subdomains."
    )

    def __init__(self, settings: Courses) -> None:
        self._settings = settings

    @property
    def most_minutes(self) -> int:
        return self._settings.help_minutes

    def policy(self, stored: StoredSpace) -> str:
        assert isinstance(stored.space, Course)
        return stored.space.help

    def why_off(self, stored: StoredSpace) -> str:
        if self.policy(stored) != "off":
            return ""
        return "Help is off in this course. Its instructor can enable it in the settings."

    def demand(
        self, stored: StoredSpace, roles: Mapping[str, Role], owner: str, helper: str
    ) -> None:
        if roles.get(owner) is not Role.STUDENT:
            raise NotFound(f"'{owner}' is not a student of this course.")

    def over(self, stored: StoredSpace, roles: Mapping[str, Role], owner: str, helper: str) -> str:
        if roles.get(helper) not in STAFF:
            return "the helper is no longer on the course's staff"
        if roles.get(owner) is not Role.STUDENT:
            return "the student is no longer in the course"
        return ""
