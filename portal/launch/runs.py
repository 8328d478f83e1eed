"""Settings of runs: notebooks and scripts that are executed for many points (kinds/run.py)."""

from __future__ import annotations

from traitlets import Integer
from traitlets.config import Configurable

from ..models.session.run import MOST_POINTS
from ..setting import setting


class Runs(Configurable):
    """Limits of a site for runs, each of which is one Slurm array job."""

    per_user = setting(
        Integer(20, min=0),
        """Maximum number of runs that a user has at once, waiting and running; 0: none are
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
        """Seconds before the end of a job's time, from 10 to 3600, at which a point that may be
        resumed is told to save itself; at most a quarter of the time limit. Slurm may tell it half
        a minute earlier.""",
        "c.Runs.notice = 300",
    )

    points_per_user = setting(
        Integer(20_000, min=1),
        """Maximum number of points, at least 1, of all runs of a user that wait or run. Points of
        such a run that have ended count too.""",
        "c.Runs.points_per_user = 2000",
    )
