"""Checks of courses: who is given rights by a course's group, and the exchange of grades."""

from __future__ import annotations

import asyncio
from pathlib import Path

from traitlets.config import Config

from portal.acl import problem_of
from portal.courses.settings import Courses
from portal.directory.site_roles import groups_with_roles
from portal.models.course.course import group_of

from ..finding import Result, check, failure, ok, skipped, warning
from ..site import Site


def course_groups_with_roles(config: Config) -> list[str]:
    """Return the groups that have a role and are named like a course's group."""
    return sorted(name for name in groups_with_roles(config) if name.startswith(group_of("")))


@check("course-roles", "No role of the site is given to a course's group")
async def roles(site: Site) -> Result:
    names = course_groups_with_roles(site.config)
    if not names:
        return ok(f"no role names a group '{group_of('NAME')}'")
    return warning(
        f"roles are given to {', '.join(names)}: groups with such names belong to courses, whose "
        "members are chosen by instructors. No course can use these names, and members of an "
        "existing course with such a name are not added to its group",
        "Give the role to another group (c.JupyterHub.load_roles, c.PortalAdmins.groups, "
        "c.LDAPAuthenticator.admin_groups and instructor_groups).",
    )


@check("exchange", "Only members can access a course's exchange")
async def exchange(site: Site) -> Result:
    directory = site.setting(Courses, "exchange_directory")
    if not directory:
        return skipped("courses have no grades here", "See docs/how-to/grades.md.")
    return await asyncio.to_thread(_exchange_in, Path(directory))


def _exchange_in(path: Path) -> Result:
    if not path.is_dir():
        return warning(
            f"{path} does not exist",
            f"install -d -o portal -m 0711 {path} (as the Hub's account)",
        )
    if problem := problem_of(path):
        return failure(
            f"{problem}, so sessions of courses with grades cannot start",
            "Set c.Courses.exchange_directory to a folder owned by the Hub's account, on a file "
            "system with POSIX ACLs (XFS, ext4, NFSv3) that the nodes see at the same path.",
        )
    return ok(f"{path} has POSIX ACLs")


CHECKS = (roles, exchange)
