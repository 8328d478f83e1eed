"""Settings for GPUs that are held and not used."""

from __future__ import annotations

from traitlets import Enum, Integer, Set, Unicode
from traitlets.config import LoggingConfigurable

from portal.models.session.idle import IdleMode


class IdleSettings(LoggingConfigurable):
    """Settings of `IdleGpus`."""

    mode = Enum(
        [str(mode) for mode in IdleMode],
        default_value=str(IdleMode.WARN),
        help="""
        Action on a session whose GPUs are idle: "off", "warn" (its owner is notified, in JupyterLab
        and on the session's page) or "on" (its owner is notified, then it is stopped). The default
        never stops sessions: a site must decide to do that.

        Example::

            c.IdleGpus.mode = "on"
        """,
    ).tag(config=True)

    idle_time = Integer(
        2 * 3600,
        min=1,
        help="""
        Seconds without GPU use after which a session is stopped. An environment's own `idle_time`
        overrides it.

        Example::

            c.IdleGpus.idle_time = 3600
        """,
    ).tag(config=True)

    warn_time = Integer(
        15 * 60,
        min=1,
        help="""
        Seconds before the stop at which the owner is warned; at most half of `idle_time`.

        Example::

            c.IdleGpus.warn_time = 1800
        """,
    ).tag(config=True)

    snooze_time = Integer(
        3600,
        min=0,
        help="""
        Seconds by which the owner can postpone the stop; 0: not at all.

        Example::

            c.IdleGpus.snooze_time = 1800
        """,
    ).tag(config=True)

    snoozes = Integer(
        3,
        min=0,
        help="""
        Maximum number of consecutive postponements, without GPU use in between.

        Example::

            c.IdleGpus.snoozes = 1
        """,
    ).tag(config=True)

    exempt_users = Set(
        Unicode(),
        help="""
        Users whose sessions are never warned or stopped, by Hub name.

        Example::

            c.IdleGpus.exempt_users = {"ada"}
        """,
    ).tag(config=True)

    exempt_groups = Set(
        Unicode(),
        help="""
        Groups whose members' sessions are never warned or stopped. The user's groups at the launch
        are used.

        Example::

            c.IdleGpus.exempt_groups = {"robotics"}
        """,
    ).tag(config=True)

    exempt_courses = Set(
        Unicode(),
        help="""
        Courses whose sessions are never warned or stopped.

        Example::

            c.IdleGpus.exempt_courses = {"ml-2026"}
        """,
    ).tag(config=True)
