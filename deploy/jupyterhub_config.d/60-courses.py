"""Courses: the instructors' role, and the groups of courses.

Name your instructors in your own file::

    c.LDAPAuthenticator.instructor_groups = {"teachers"}
"""

from portal.models import scope
from spawners.config.course_groups import course_groups
from spawners.config.roles import Instructors
from spawners.form import my_courses

c = get_config()  # noqa: F821  given by traitlets

# Rosters are in the portal's database; at each login and refresh, a user's course groups are added
# to those of the authenticator, which may be any of the portal's.
c.PortalLogin.more_groups = course_groups

# A user's courses on the home page and the launch page.
c.JupyterHub.template_vars.update({"portal_courses": my_courses.FOR_PAGES})

c.JupyterHub.load_roles.append(
    {
        "name": "portal-instructor",
        "description": "Instructors: request courses and teach them",
        "scopes": [scope.COURSES_CREATE],
        "groups": Instructors(),
    }
)
