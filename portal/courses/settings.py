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
        What an instructor's course needs: "request", an admin's approval; "free", nothing; "off":
        only admins make courses. Instructors are who holds the scope
        `custom:portal:courses:create`: members of the authenticator's `instructor_groups`.

        Example::

            c.Courses.creation = "free"
        """,
    ).tag(config=True)

    directory = Unicode(
        "",
        help="""
        The service's own folder for what courses hand out and collect; nobody else needs to see
        it. Empty: `courses` in the folder that the service runs in.

        Example::

            c.Courses.directory = "/srv/portal/courses"
        """,
    ).tag(config=True)

    data_roots = List(
        Unicode(),
        help="""
        Folders below which a course's shared data and its folder of handouts may be. Nodes see
        the former at the same path, the service reads the latter.

        Example::

            c.Courses.data_roots = ["/data/courses"]
        """,
    ).tag(config=True)

    roster_groups = List(
        Unicode(),
        default_value=["*"],
        help="""
        Which groups of the directory can be a course's roster, as patterns of their names. Who may
        make courses can read the names of a roster's people, so a site whose groups tell more than
        who attends what names those for courses.

        Example::

            c.Courses.roster_groups = ["course-*", "students"]
        """,
    ).tag(config=True)

    exchange_directory = Unicode(
        "",
        help="""
        Where courses with grades have a folder each, through which nbgrader hands assignments out
        and takes them back: on a file system with POSIX ACLs that nodes see at the same path, and
        the Hub's account may write. Empty: there are no grades.

        Example::

            c.Courses.exchange_directory = "/data/exchange"
        """,
    ).tag(config=True)

    lead_minutes = Integer(
        20,
        min=1,
        max=24 * 60,
        help="""
        Minutes before a meeting at which its reservation begins and, where the course wants that,
        sessions are started.

        Example::

            c.Courses.lead_minutes = 30
        """,
    ).tag(config=True)

    claim_minutes = Integer(
        15,
        min=1,
        max=24 * 60,
        help="""
        Minutes after a meeting's beginning at which sessions that nobody has opened are stopped.

        Example::

            c.Courses.claim_minutes = 20
        """,
    ).tag(config=True)

    days_ahead = Integer(
        14,
        min=1,
        max=366,
        help="""
        How many days before a meeting its reservation is made, so that a refusal is known early.

        Example::

            c.Courses.days_ahead = 30
        """,
    ).tag(config=True)

    at_once = Integer(
        12,
        min=1,
        max=200,
        help="""
        How many sessions of all courses are being asked of the Hub at the same time.

        Example::

            c.Courses.at_once = 8
        """,
    ).tag(config=True)

    interval = Float(
        2.0,
        min=0.1,
        help="""
        Seconds between two looks at what is to start, to release and to end.

        Example::

            c.Courses.interval = 5
        """,
    ).tag(config=True)

    roster_interval = Float(
        300.0,
        min=1,
        help="""
        Seconds between two looks at a course's group in the directory: who joins it is in the
        course then, who leaves it no longer.

        Example::

            c.Courses.roster_interval = 60
        """,
    ).tag(config=True)

    help_minutes = Integer(
        30,
        min=1,
        max=8 * 60,
        help="""
        Minutes that a helper may stay in a student's session.

        Example::

            c.Courses.help_minutes = 15
        """,
    ).tag(config=True)

    handouts_megabytes = Integer(
        500,
        min=1,
        max=100_000,
        help="""
        The most that a course hands out, in MB: its repository as it is fetched, and all files
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
        Seconds that fetching a course's repository, or reading its folder, may take.

        Example::

            c.Courses.handouts_seconds = 300
        """,
    ).tag(config=True)

    internal_hosts = List(
        Unicode(),
        help="""
        Git servers inside of the site that courses' repositories may be fetched from: hosts,
        domains (with a dot before), networks. Without an entry, addresses of this machine, its
        links and private networks are not asked, whatever their name is. Each entry lets
        instructors ask whatever else answers https there: name a port where you can. git 2.37 or
        newer asks the very address that was looked at.

        Example::

            c.Courses.internal_hosts = ["git.example.org:443", "10.1.2.0/28"]
        """,
    ).tag(config=True)

    handouts_loopback = Bool(
        False,
        help="""
        Whether repositories may be fetched by plain http from this machine, too. For tests: a
        program here that trusts whoever comes from here would be asked by instructors.

        Example::

            c.Courses.handouts_loopback = True
        """,
    ).tag(config=True)

    collect_megabytes = Integer(
        100,
        min=1,
        max=100_000,
        help="""
        The most that is taken from one person when a folder is collected, in MB.

        Example::

            c.Courses.collect_megabytes = 500
        """,
    ).tag(config=True)
