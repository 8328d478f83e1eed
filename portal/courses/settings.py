"""Settings of the site for courses."""

from __future__ import annotations

from traitlets import Bool, Enum, Float, Integer, List, Unicode
from traitlets.config import LoggingConfigurable

from portal.setting import setting


class Courses(LoggingConfigurable):
    """Courses: creation, files, and start of their sessions."""

    creation = setting(
        Enum(("request", "free", "off"), "request"),
        """Requirement for an instructor's course: "request" (an admin's approval), "free" (none) or
        "off" (only admins create courses). Instructors have the scope
        `custom:portal:courses:create`: members of the authenticator's `instructor_groups`.""",
        'c.Courses.creation = "free"',
    )

    directory = setting(
        Unicode(""),
        """The service's own directory for the files that courses hand out and collect; no other
        machine or account needs access. Empty: `courses` in the directory in which the service
        runs.""",
        'c.Courses.directory = "/srv/portal/courses"',
    ).tag(backup="")

    data_roots = setting(
        List(Unicode()),
        """Directories that may contain a course's shared data and its folder of handouts. Nodes
        see the shared data at the same path; the service reads the handouts.""",
        'c.Courses.data_roots = ["/data/courses"]',
    )

    roster_groups = setting(
        List(Unicode(), default_value=["*"]),
        """Directory groups that may be used as a course's roster, as name patterns. Users who may
        create courses can read the members of these groups. If group names or memberships at your
        site are confidential, list only groups of courses.""",
        'c.Courses.roster_groups = ["course-*", "students"]',
    )

    exchange_directory = setting(
        Unicode(""),
        """Directory with a folder for each course with grades, through which nbgrader distributes
        and collects assignments. It needs a file system with POSIX ACLs that nodes see at the same
        path and that the Hub's account can write to. Empty: no grades.""",
        'c.Courses.exchange_directory = "/data/exchange"',
    ).tag(backup="")

    lead_minutes = setting(
        Integer(20, min=1, max=24 * 60),
        """Minutes before a meeting at which its reservation begins and, if the course is set to do
        so, its sessions start.""",
        "c.Courses.lead_minutes = 30",
    )

    claim_minutes = setting(
        Integer(15, min=1, max=24 * 60),
        "Minutes after a meeting begins at which unopened sessions are stopped.",
        "c.Courses.claim_minutes = 20",
    )

    days_ahead = setting(
        Integer(14, min=1, max=366),
        """Number of days before a meeting at which its reservation is created, so that a refusal is
        known early.""",
        "c.Courses.days_ahead = 30",
    )

    at_once = setting(
        Integer(12, min=1, max=200),
        """Maximum number of sessions, of all courses, that are started through the Hub at the same
        time.""",
        "c.Courses.at_once = 8",
    )

    interval = Float(2.0)  # seconds between checks for what is due to start, release or end

    roster_interval = setting(
        Float(300.0, min=1),
        """Seconds between reads of a course's directory group: users who join it become members of
        the course, users who leave it are removed.""",
        "c.Courses.roster_interval = 60",
    )

    help_minutes = setting(
        Integer(30, min=1, max=8 * 60),
        "Maximum minutes for which a helper can use a student's session.",
        "c.Courses.help_minutes = 15",
    )

    handouts_megabytes = setting(
        Integer(500, min=1, max=100_000),
        """Maximum size of a course's handouts, in MB: of the fetched repository, and of all files
        together. Large data belongs in `data_roots`.""",
        "c.Courses.handouts_megabytes = 100",
    )

    handouts_seconds = setting(
        Integer(120, min=1, max=3600),
        "Maximum seconds for fetching a course's repository or reading its folder.",
        "c.Courses.handouts_seconds = 300",
    )

    internal_hosts = setting(
        List(Unicode()),
        """Git servers inside the site from which courses may fetch repositories: hosts, domains
        (with a leading dot), networks. Loopback, link-local and private addresses are refused
        without an entry, whatever name resolves to them. Each entry also lets instructors send
        requests to any other https service there, so name a port if possible. git 2.37 or newer
        connects to exactly the address that was checked.""",
        'c.Courses.internal_hosts = ["git.example.org:443", "10.1.2.0/28"]',
    )

    # Repositories may be fetched by plain http from this machine, for tests only: instructors could
    # send requests to programs here that trust local ones.
    handouts_loopback = Bool(False)

    collect_megabytes = setting(
        Integer(100, min=1, max=100_000),
        "Maximum size of the files collected from one user's folder, in MB.",
        "c.Courses.collect_megabytes = 500",
    )
