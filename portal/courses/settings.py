"""Settings of the site for courses."""

from __future__ import annotations

from traitlets import Bool, Enum, Float, Integer, List, Unicode
from traitlets.config import LoggingConfigurable


class Courses(LoggingConfigurable):
    """Shared classes: who may make a course, where their files are, and how they start."""

    creation = Enum(
        ("request", "free", "off"),
        "request",
        help="""
        Who can create courses. "request": instructors, with an admin's approval; "free":
        instructors, without approval; "off": admins only. Instructors hold the scope
        `custom:portal:courses:create`: members of the authenticator's `instructor_groups`.

        Example::

            c.Courses.creation = "free"
        """,
    ).tag(config=True)

    directory = Unicode(
        "",
        help="""
        Folder for handouts and collected files. Only the service needs access to it. Empty:
        `courses` in the service's working directory.

        Example::

            c.Courses.directory = "/srv/portal/courses"
        """,
    ).tag(config=True)

    data_roots = List(
        Unicode(),
        help="""
        Root folders for the shared data and the handouts of courses. Nodes need the shared data
        at the same path; the service reads the handouts.

        Example::

            c.Courses.data_roots = ["/data/courses"]
        """,
    ).tag(config=True)

    roster_groups = List(
        Unicode(),
        default_value=["*"],
        help="""
        Patterns for the names of directory groups that can be a course's roster. Everyone who can
        create courses can read the members of these groups: restrict the patterns if your
        directory has confidential groups.

        Example::

            c.Courses.roster_groups = ["course-*", "students"]
        """,
    ).tag(config=True)

    exchange_directory = Unicode(
        "",
        help="""
        Root folder of the nbgrader exchanges, one for each course with grades. It must be on a
        file system with POSIX ACLs, have the same path on the nodes, and be writable for the Hub's
        account. Empty: courses have no grades.

        Example::

            c.Courses.exchange_directory = "/data/exchange"
        """,
    ).tag(config=True)

    lead_minutes = Integer(
        20,
        min=1,
        max=24 * 60,
        help="""
        Minutes before a meeting at which its reservation begins and, if the course is set to do
        so, sessions are started.

        Example::

            c.Courses.lead_minutes = 30
        """,
    ).tag(config=True)

    claim_minutes = Integer(
        15,
        min=1,
        max=24 * 60,
        help="""
        Minutes after the beginning of a meeting at which unopened sessions are stopped.

        Example::

            c.Courses.claim_minutes = 20
        """,
    ).tag(config=True)

    days_ahead = Integer(
        14,
        min=1,
        max=366,
        help="""
        Days before a meeting at which its reservation is created, so that a refusal is known
        early.

        Example::

            c.Courses.days_ahead = 30
        """,
    ).tag(config=True)

    at_once = Integer(
        12,
        min=1,
        max=200,
        help="""
        Maximum number of sessions, over all courses, that are requested from the Hub at the same
        time.

        Example::

            c.Courses.at_once = 8
        """,
    ).tag(config=True)

    interval = Float(
        2.0,
        min=0.1,
        help="""
        Seconds between two checks for sessions to start, to release and to stop.

        Example::

            c.Courses.interval = 5
        """,
    ).tag(config=True)

    roster_interval = Float(
        300.0,
        min=1,
        help="""
        Seconds between two updates of a course's members from its directory group.

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
        Maximum size of a course's handouts in MB: of the fetched repository, and of all files
        together. Put large data below `data_roots`.

        Example::

            c.Courses.handouts_megabytes = 100
        """,
    ).tag(config=True)

    handouts_seconds = Integer(
        120,
        min=1,
        max=3600,
        help="""
        Maximum seconds to fetch a course's repository or to read its folder.

        Example::

            c.Courses.handouts_seconds = 300
        """,
    ).tag(config=True)

    internal_hosts = List(
        Unicode(),
        help="""
        Git servers in the site's network from which courses may fetch repositories: hosts,
        domains (with a leading dot), networks. Without an entry, the service does not connect to
        addresses of this machine, its links and private networks, whatever their name is. Each
        entry lets instructors send requests to every https server there: name a port if you can.
        git 2.37 or newer connects to exactly the address that was checked.

        Example::

            c.Courses.internal_hosts = ["git.example.org:443", "10.1.2.0/28"]
        """,
    ).tag(config=True)

    handouts_loopback = Bool(
        False,
        help="""
        Allow repositories from this machine over plain http. For tests only: instructors could
        reach local programs that trust connections from this machine.

        Example::

            c.Courses.handouts_loopback = True
        """,
    ).tag(config=True)

    collect_megabytes = Integer(
        100,
        min=1,
        max=100_000,
        help="""
        Maximum size of a person's collected folder in MB.

        Example::

            c.Courses.collect_megabytes = 500
        """,
    ).tag(config=True)
