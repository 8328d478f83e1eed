"""Shared classes: who teaches, who is in which course's group, and how many servers that makes.

A site names its instructors in a file of its own::

    c.LDAPAuthenticator.instructor_groups = {"teachers"}
"""

from portal.models import scope
from spawners.course_groups import course_groups
from spawners.named_servers import NamedServers
from spawners.roles import Instructors

c = get_config()  # noqa: F821  given by traitlets

# Who is in a course stands in the portal's database; at each login and refresh its groups are
# added to those of the directory.
c.LDAPAuthenticator.more_groups = course_groups

c.JupyterHub.load_roles.append(
    {
        "name": "portal-instructor",
        "description": "Instructors: ask for courses of their own, and teach them",
        "scopes": [scope.COURSES_CREATE],
        "groups": Instructors(),
    }
)

# Sessions of courses do not count.
if isinstance(c.JupyterHub.named_server_limit_per_user, int):
    c.JupyterHub.named_server_limit_per_user = NamedServers(
        c.JupyterHub.named_server_limit_per_user
    )
