"""Settings of the site for projects."""

from __future__ import annotations

from traitlets import Enum, Float, Integer, List, Unicode
from traitlets.config import LoggingConfigurable

from portal.setting import setting


class Projects(LoggingConfigurable):
    """Projects: their approval, and where their folders are."""

    approval = setting(
        Enum(("admin", "policy", "off"), "admin"),
        """Approval of a project that a user requests: "admin" (by users with the scope
        `custom:portal:projects:manage`), "policy" (none is needed within `largest_budget`,
        `largest_members` and `accounts`) or "off" (only these users create projects).""",
        'c.Projects.approval = "policy"',
    )

    largest_budget = setting(
        Float(1000.0, min=0.0),
        """Largest budget in GPU-hours of a project that the policy approves. A project without a
        budget needs an admin.""",
        "c.Projects.largest_budget = 500",
    )

    largest_members = setting(
        Integer(50, min=1, max=10_000),
        """Largest number of members of a project that the policy approves, and that owners can
        reach without an admin.""",
        "c.Projects.largest_members = 20",
    )

    accounts = setting(
        List(Unicode()),
        """Slurm accounts, as name patterns, to which a project that the policy approves may be
        charged, if Slurm lets its owner use them. Empty: each account that its owner may use.""",
        'c.Projects.accounts = ["bio", "physics-*"]',
    )

    # Projects that a user other than an admin owns or requests at a time.
    per_user = Integer(20)

    root = setting(
        Unicode(""),
        """Directory with a folder for each project, called like the project, which nodes see at the
        same path. Its sessions see an existing folder: read-only those of readers. Empty: projects
        have no folders.""",
        'c.Projects.root = "/projects"',
    )
