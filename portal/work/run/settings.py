"""Settings of runs: notebooks and scripts that are executed for many points (kind.py)."""

from __future__ import annotations

from typing import Any

from traitlets import Integer, TraitError, Unicode, validate
from traitlets.config import Configurable

from portal.models.clock import zones
from portal.models.session.run import MOST_POINTS
from portal.setting import setting


class Runs(Configurable):
    """Limits of a site for runs, each of which is one Slurm array job."""

    per_user = setting(
        Integer(20, min=0),
        """Maximum number of runs, waiting and running, that a user can have at once; 0: none are
        offered.""",
        "c.Runs.per_user = 5",
    )

    points = setting(
        Integer(MOST_POINTS, min=1, max=MOST_POINTS),
        """Maximum number of points of a run, which are the tasks of its Slurm array, from 1 to
        10000. MaxArraySize in slurm.conf, 1001 by default, allows one less than its value.""",
        "c.Runs.points = 1000",
    )

    notice = setting(
        Integer(60, min=10, max=3600),
        """Seconds before the time limit, from 10 to 3600, at which Slurm signals a resumable point
        to save its state; at most a quarter of the time limit. The signal may come half a minute
        earlier.""",
        "c.Runs.notice = 300",
    )

    points_per_user = setting(
        Integer(20_000, min=1),
        """Maximum number of points, at least 1, of all runs of a user that wait or run. Points of
        such a run that have ended count too.""",
        "c.Runs.points_per_user = 2000",
    )

    schedules = setting(
        Integer(20, min=0),
        """Maximum number of schedules that a user can have, paused ones included; 0: none are
        offered.""",
        "c.Runs.schedules = 5",
    )

    schedule_late = setting(
        Integer(3600, min=60),
        """Maximum delay in seconds, at least 60, with which a scheduled run is still started if the
        portal or Slurm was unavailable. After that, the start counts as missed, and the user is
        notified.""",
        "c.Runs.schedule_late = 4 * 3600",
    )

    timezone = setting(
        Unicode("UTC"),
        "Time zone of schedules for which the user chooses none.",
        'c.Runs.timezone = "Europe/Berlin"',
    )

    @validate("timezone")
    def _a_zone(self, proposal: Any) -> str:
        zone = str(proposal["value"])
        if zone not in zones():
            raise TraitError(
                f"c.Runs.timezone: '{zone}' is not a time zone; an example is 'Europe/Berlin'."
            )
        return zone
