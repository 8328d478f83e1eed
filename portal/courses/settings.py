"""Settings of the site for courses."""

from __future__ import annotations

from traitlets import Bool, Enum, Float, Integer, List, Unicode
from traitlets.config import LoggingConfigurable


class Courses(LoggingConfigurable):
    """Courses: creation, files, and start of their sessions."""

    creation = Enum(
        ("request", "free", "off"),
        "request",
        help="""
        Requirement for an instructor's course: "request" (an admin's approval), "free" (none) or
        "off" (only admins create courses). Instructors have the scope
        `custom:portal:courses:create`: members of the authenticator's `instructor_groups`.

        Example::

            c.Courses.creation = "free"
        """,
    ).tag(config=True)

    directory = Unicode(
        "",
        help="""
        The service's own directory for the files that courses hand out and collect; no other
        machine or account needs access. Empty: `courses` in the directory in which the service
        runs.

        Example::

            c.Courses.directory = "/srv/portal/courses"
        """,
    ).tag(config=True)

    data_roots = List(
        Unicode(),
        help="""
        Directories below which a course's shared data and its folder of handouts may be. Nodes see
        the shared data at the same path; the service reads the handouts.

        Example::

            c.Courses.data_roots = ["/data/courses"]
        """,
    ).tag(config=True)

    roster_groups = List(
        Unicode(),
        default_value=["*"],
        help="""
        Directory groups that may be used as a course's roster, as name patterns. Users who may
        create courses can read the members of these groups. If group names or memberships at your
        site are confidential, list only groups of courses.

        Example::

            c.Courses.roster_groups = ["course-*", "students"]
        """,
    ).tag(config=True)

    exchange_directory = Unicode(
        "",
        help="""
        Directory with a folder for each course with grades, through which nbgrader distributes and
        collects assignments. It needs a file system with POSIX ACLs that nodes see at the same path
        and that the Hub's account can write to. Empty: no grades.

        Example::

            c.Courses.exchange_directory = "/data/exchange"
        """,
    ).tag(config=True)

    lead_minutes = Integer(
        20,
        min=1,
        max=24 * 60,
        help="""
        Minutes before a meeting at which its reservation begins and, if the course is set to do so,
        its sessions start.

        Example::

            c.Courses.lead_minutes = 30
        """,
    ).tag(config=True)

    claim_minutes = Integer(
        15,
        min=1,
        max=24 * 60,
        help="""
        Minutes after a meeting begins at which unopened sessions are stopped.

        Example::

            c.Courses.claim_minutes = 20
        """,
    ).tag(config=True)

    days_ahead = Integer(
        14,
        min=1,
        max=366,
        help="""
        Number of days before a meeting at which its reservation is created, so that a refusal is
        known early.

        Example::

            c.Courses.days_ahead = 30
        """,
    ).tag(config=True)

    at_once = Integer(
        12,
        min=1,
        max=200,
        help="""
        Maximum number of sessions, of all courses, that are started through the Hub at the same
        time.

        Example::

            c.Courses.at_once = 8
        """,
    ).tag(config=True)

    interval = Float(
        2.0,
        min=0.1,
        help="""
        Seconds between checks for sessions and files that are due to start, to be released or to
        end.

        Example::

            c.Courses.interval = 5
        """,
    ).tag(config=True)

    roster_interval = Float(
        300.0,
        min=1,
        help="""
        Seconds between reads of a course's directory group: users who join it become members of the
        course, users who leave it are removed.

        Example::

            c.Courses.roster_interval = 60
        """,
    ).tag(config=True)

    help_minutes = Integer(
        30,
        min=1,
        max=8 * 60,
        help="""
        Maximum minutes for which a helper can use a student's session.

        Example::

            c.Courses.help_minutes = 15
        """,
    ).tag(config=True)

    handouts_megabytes = Integer(
        500,
        min=1,
        max=100_000,
        help="""
        Maximum size of a course's handouts, in MB: of the fetched repository, and of all files
        together. Large data belongs below `data_roots`.

        Example::

            c.Courses.handouts_megabytes = 100
        """,
    ).tag(config=True)

    handouts_seconds = Integer(
        120,
        min=1,
        max=3600,
        help="""
        Maximum seconds for fetching a course's repository or reading its folder.

        Example::

            c.Courses.handouts_seconds = 300
        """,
    ).tag(config=True)

    internal_hosts = List(
        Unicode(),
        help="""
        Git servers inside the site from which courses may fetch repositories: hosts, domains (with
        a leading dot), networks. Addresses of this machine, of its links and of private networks
        are refused without an entry, whatever their name is. Each entry also lets instructors send
        requests to anything else that serves https there, so name a port if possible. git 2.37 or
        newer connects to exactly the address that was checked.

        Example::

            c.Courses.internal_hosts = ["git.example.org:443", "10.1.2.0/28"]
        """,
    ).tag(config=True)

    handouts_loopback = Bool(
        False,
        help="""
        Whether repositories may also be fetched by plain http from this machine. For tests only:
        instructors could send requests to programs on this machine that trust local connections.

        Example::

            c.Courses.handouts_loopback = True
        """,
    ).tag(config=True)

    collect_megabytes = Integer(
        100,
        min=1,
        max=100_000,
        help="""
        Maximum size of the files collected from one user's folder, in MB.

        Example::

            c.Courses.collect_megabytes = 500
        """,
    ).tag(config=True)
