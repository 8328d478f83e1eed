"""Slurm's own estimate of a start: ``sbatch --test-only``, which submits nothing.

What it costs and what it leaves out (Slurm 22.05): each question burns a job id. It looks at the
nodes, the jobs that run and those that wait before this one, reservations, the time limits, whether
the account may be charged, and MaxSubmitJobs; it does *not* look at MaxJobs, GrpTRES and the
limits of a QOS on what runs at one time, nor at whether the partition is up: those are looked at in
portal/launch/running_limits.py and policy.py. Jobs without an end count as ending in a year.
"""

from __future__ import annotations

from ..errors import SlurmRefused
from ..launch.script import sbatch_options, session_script
from ..models.resources import Resources
from .parse.test_only import expected_start
from .run import SlurmRunner

# What it answers while all nodes that would fit are down, drained or reserved: sbatch itself takes
# such a job, and it waits.
_NO_NODE = "Requested node configuration is not available"


class NoNodeNow(SlurmRefused):
    """No node that is in service can run this."""


async def test_only(
    runner: SlurmRunner,
    resources: Resources,
    user: str,
    environment: str,
    timeout: float,  # noqa: ASYNC109 - SlurmRunner kills at that time
) -> float | None:
    """Unix seconds at which Slurm would start a job of ``user`` now, submitted as a session is;
    None where its answer names no time.

    Raises NoNodeNow, SlurmRefused with Slurm's words (it would not take the job),
    SlurmUnavailable, ConfigurationError.
    """
    options = sbatch_options(
        resources, name=f"portal-{environment}", output="/dev/null", directory="/"
    )
    argv = ["sbatch", "--test-only", *options, str(session_script())]
    try:
        output = await runner.run(argv, user=user, env={"SLURM_TIME_FORMAT": "%s"}, timeout=timeout)
    except SlurmRefused as error:
        if _NO_NODE in error.message:
            raise NoNodeNow(error.message) from None
        raise
    return expected_start(output.stderr)
