"""The portal's database: SQLAlchemy tables and the only queries on them, one object per file."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from traitlets import Float, Integer, Unicode
from traitlets.config import LoggingConfigurable

from portal import disk
from portal.errors import StoreUnavailable
from portal.setting import setting

from .catalog.builds import BuildTable
from .catalog.measurements import MeasurementTable
from .catalog.registries import RegistryTable
from .catalog.requests import EnvironmentRequestTable, FavouriteTable
from .catalog.tests import EnvironmentTestTable
from .catalog.versions import VersionTable
from .courses.collects import CollectTable
from .courses.courses import CourseTable
from .courses.handouts import HandoutTable
from .courses.live import CourseMessageTable, HelpTable, PresenceTable
from .courses.starts import CourseReservationTable, CourseStartTable
from .engine.address import Address
from .engine.database import Database, ping
from .engine.rows import FeatureTables
from .engine.upgrade import HEAD
from .sessions.estimates import EstimateTable
from .sessions.notices import NoticeTable
from .sessions.reports import ReportTable
from .sessions.sessions import SessionTable
from .sessions.snoozes import SnoozeTable
from .sessions.startups import StartupTable
from .sessions.usage import UsageTable
from .site.announcements import AnnouncementTable
from .site.audit import AuditTable
from .site.history import HistoryTable
from .site.job_use import JobUseTable
from .site.series import SeriesTable
from .site.visits import VisitTable
from .spaces import Spaces, SpaceTable

__all__ = ["HEAD", "Store"]


class Store(LoggingConfigurable):
    """The portal's database: sessions, usage, history, announcements and the audit log.

    The Hub and the service each have one, on the same database; the Hub writes sessions and the
    estimates of their starts, the service everything else. Raises ConfigurationError if a setting
    is wrong; nothing is opened before the first query.
    """

    url = setting(
        Unicode("sqlite:///portal.sqlite"),
        """Address of the database, as an SQLAlchemy URL: an SQLite file, or PostgreSQL. A relative
        file is resolved from the directory in which the Hub runs. Do not put the password into it:
        see ``password_file``.""",
        'c.Store.url = "postgresql://portal@db.example.org/portal?sslmode=verify-full"',
    )

    password_file = setting(
        Unicode(""),
        """File with PostgreSQL's password, mode 0600; it is read for each new connection. Empty:
        libpq's own sources (``~/.pgpass``, a socket's peer login, a client certificate).""",
        'c.Store.password_file = "/etc/data-scientist-portal/database-password"',
    ).tag(backup="secret")

    timeout = setting(
        Float(10.0, min=1),
        "Maximum seconds for a query to the database, including waiting.",
        "c.Store.timeout = 20",
    )

    threads = setting(
        Integer(4, min=1, max=64),
        """Maximum number of concurrent queries of each process, and of its connections to
        PostgreSQL.""",
        "c.Store.threads = 8",
    )

    history_days = setting(
        Integer(400, min=1),
        "Days for which the cluster's history is kept.",
        "c.Store.history_days = 100",
    )

    sessions_days = setting(
        Integer(0, min=0),
        """Days for which ended sessions, with the ends of their logs, and ended runs are kept; 0:
        without limit.""",
        "c.Store.sessions_days = 365",
    )

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.database = Database(
            Address.read(self.url, self.password_file),
            seconds=self.timeout,
            threads=self.threads,
            log=self.log,
        )
        self.table = FeatureTables(self.database)
        self.sessions = SessionTable(self.database)
        self.history = HistoryTable(self.database)
        self.series = SeriesTable(self.database)
        self.job_use = JobUseTable(self.database)
        self.usage = UsageTable(self.database)
        self.reports = ReportTable(self.database)
        self.audit = AuditTable(self.database)
        self.announcements = AnnouncementTable(self.database)
        self.visits = VisitTable(self.database)
        self.estimates = EstimateTable(self.database)
        self.startups = StartupTable(self.database)
        self.snoozes = SnoozeTable(self.database)
        self.notices = NoticeTable(self.database)
        self.versions = VersionTable(self.database)
        self.builds = BuildTable(self.database)
        self.tests = EnvironmentTestTable(self.database)
        self.environment_requests = EnvironmentRequestTable(self.database)
        self.favourites = FavouriteTable(self.database)
        self.measurements = MeasurementTable(self.database)
        self.registries = RegistryTable(self.database)
        self.courses = CourseTable(self.database)
        self.members = self.courses.members
        self.spaces = Spaces([self.courses, *self.table.each(SpaceTable)])
        self.handouts = HandoutTable(self.database)
        self.collects = CollectTable(self.database)
        self.starts = CourseStartTable(self.database)
        self.reservations = CourseReservationTable(self.database)
        self.presence = PresenceTable(self.database)
        self.course_messages = CourseMessageTable(self.database)
        self.help = HelpTable(self.database)

    @property
    def place(self) -> str:
        """Location of the database for logs and admins, without a password."""
        return self.database.address.place

    @property
    def error(self) -> str:
        """Sentence that says why the database does not answer; empty while it does."""
        return self.database.error

    @property
    def error_since(self) -> float | None:
        """Time since which the database does not answer (Unix seconds); None while it does."""
        return self.database.error_since

    @property
    def detail(self) -> str:
        """Message of the driver about ``error``, for admins; without a password."""
        return self.database.detail

    async def revision(self) -> str | None:
        """Return the version of the schema (``HEAD`` is this portal's); None if there is none yet.

        Changes nothing. Raises StoreUnavailable.
        """
        return await self.database.revision()

    async def upgrade(self) -> None:
        """Upgrade the schema to this version; safe when several processes do it at once.

        If the database is away, the first query that reaches it does this. Raises
        StoreUnavailable, also for a schema that is newer than this version's.
        """
        await self.database.upgrade()

    async def keep_room(self) -> None:
        """Reserve the space that SQLite's file needs when the disk is full (portal/disk.py)."""
        path = self.database.address.path
        if path is not None and path.exists():
            with contextlib.suppress(StoreUnavailable):
                # A connection that stays open keeps the log: the last to close removes it.
                await self.database.run(ping)
                await asyncio.to_thread(disk.keep_room, path)

    async def copy_from(self, source: Address) -> int:
        """Copy everything from another database into this one, which must be empty; return how
        many rows.

        Raises StoreUnavailable.
        """
        return await self.database.copy_from(source)

    async def check(self) -> None:
        """Run a query that costs nothing; ``error`` tells the result. Raises nothing."""
        with contextlib.suppress(StoreUnavailable):
            await self.database.run(ping)

    async def close(self) -> None:
        """Close connections and threads."""
        await self.database.close()
