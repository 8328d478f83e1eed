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
        What is done about a session whose GPUs nobody uses: "off", "warn" (its owner is told, in
        JupyterLab and on the session's page) or "on" (told, and then it is stopped). The default
        tells and never stops: to end people's sessions is a site's own decision.

        Example::

            c.IdleGpus.mode = "on"
        """,
    ).tag(config=True)

    idle_time = Integer(
        2 * 3600,
        min=1,
        help="""
        Seconds without any use after which a session is stopped. An environment's own `idle_time`
        wins over this.

        Example::

            c.IdleGpus.idle_time = 3600
        """,
    ).tag(config=True)

    warn_time = Integer(
        15 * 60,
        min=1,
        help="""
        Seconds before that at which its owner is warned; half of `idle_time` at most.

        Example::

            c.IdleGpus.warn_time = 1800
        """,
    ).tag(config=True)

    snooze_time = Integer(
        3600,
        min=0,
        help="""
        Seconds by which the owner can put it off; 0: not at all.

        Example::

            c.IdleGpus.snooze_time = 1800
        """,
    ).tag(config=True)

    snoozes = Integer(
        3,
        min=0,
        help="""
        How often in a row, that is, without any use between.

        Example::

            c.IdleGpus.snoozes = 1
        """,
    ).tag(config=True)

    exempt_users = Set(
        Unicode(),
        help="""
        People whose sessions are left alone, by the Hub's names.

        Example::

            c.IdleGpus.exempt_users = {"ada"}
        """,
    ).tag(config=True)

    exempt_groups = Set(
        Unicode(),
        help="""
        Groups whose members' sessions are left alone. What counts are a person's groups at the
        launch.

        Example::

            c.IdleGpus.exempt_groups = {"robotics"}
        """,
    ).tag(config=True)

    exempt_courses = Set(
        Unicode(),
        help="""
        Courses whose sessions are left alone.

        Example::

            c.IdleGpus.exempt_courses = {"ml-2026"}
        """,
    ).tag(config=True)
