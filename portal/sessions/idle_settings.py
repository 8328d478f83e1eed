"""Settings for GPUs that are held and not used."""

from __future__ import annotations

from traitlets import Enum, Integer, Set, Unicode
from traitlets.config import LoggingConfigurable

from portal.models.session.idle import IdleMode
from portal.setting import setting


class IdleSettings(LoggingConfigurable):
    """Settings of `IdleGpus`."""

    mode = setting(
        Enum([str(mode) for mode in IdleMode], default_value=str(IdleMode.WARN)),
        """Action on a session whose GPUs are idle: "off", "warn" (its owner is notified, in
        JupyterLab and on the session's page) or "on" (its owner is notified, then it is stopped).
        The default never stops sessions: a site must decide to do that.""",
        'c.IdleGpus.mode = "on"',
    )

    idle_time = setting(
        Integer(2 * 3600, min=1),
        """Seconds without GPU use after which a session is stopped. An environment's own
        `idle_time` overrides it.""",
        "c.IdleGpus.idle_time = 3600",
    )

    warn_time = setting(
        Integer(15 * 60, min=1),
        "Seconds before the stop at which the owner is warned; at most half of `idle_time`.",
        "c.IdleGpus.warn_time = 1800",
    )

    snooze_time = setting(
        Integer(3600, min=0),
        "Seconds by which the owner can postpone the stop; 0: not at all.",
        "c.IdleGpus.snooze_time = 1800",
    )

    snoozes = setting(
        Integer(3, min=0),
        "Maximum number of consecutive postponements, without GPU use in between.",
        "c.IdleGpus.snoozes = 1",
    )

    exempt_users = setting(
        Set(Unicode()),
        "Users whose sessions are never warned or stopped, by Hub name.",
        'c.IdleGpus.exempt_users = {"ada"}',
    )

    exempt_groups = setting(
        Set(Unicode()),
        """Groups whose members' sessions are never warned or stopped. The user's groups at the
        launch are used.""",
        'c.IdleGpus.exempt_groups = {"robotics"}',
    )

    exempt_courses = setting(
        Set(Unicode()),
        "Courses whose sessions are never warned or stopped.",
        'c.IdleGpus.exempt_courses = {"ml-2026"}',
    )

    @property
    def exempt_spaces(self) -> set[str]:
        """Names of the spaces whose sessions are never warned or stopped."""
        return set(self.exempt_courses)
