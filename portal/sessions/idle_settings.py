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
        What happens to a session with idle GPUs: "off" (nothing), "warn" (its owner is notified in
        JupyterLab and on the session's page) or "on" (its owner is notified, then the session is
        stopped). The default only warns: stopping sessions is the site's decision.

        Example::

            c.IdleGpus.mode = "on"
        """,
    ).tag(config=True)

    idle_time = Integer(
        2 * 3600,
        min=1,
        help="""
        Seconds of idle GPUs after which a session is stopped. The `idle_time` of an environment
        takes precedence.

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
        Seconds by which the owner can postpone the stop; 0: no snooze.

        Example::

            c.IdleGpus.snooze_time = 1800
        """,
    ).tag(config=True)

    snoozes = Integer(
        3,
        min=0,
        help="""
        Maximum number of snoozes in a row, without GPU use in between.

        Example::

            c.IdleGpus.snoozes = 1
        """,
    ).tag(config=True)

    exempt_users = Set(
        Unicode(),
        help="""
        Users (Hub names) whose sessions are exempt.

        Example::

            c.IdleGpus.exempt_users = {"ada"}
        """,
    ).tag(config=True)

    exempt_groups = Set(
        Unicode(),
        help="""
        Groups whose members' sessions are exempt. The groups at the launch of the session
        count.

        Example::

            c.IdleGpus.exempt_groups = {"robotics"}
        """,
    ).tag(config=True)

    exempt_courses = Set(
        Unicode(),
        help="""
        Courses whose sessions are exempt.

        Example::

            c.IdleGpus.exempt_courses = {"ml-2026"}
        """,
    ).tag(config=True)
