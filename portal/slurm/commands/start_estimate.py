"""Slurm's own estimate of a start: ``sbatch --test-only``, which submits nothing.

What it costs and what it leaves out (Slurm 22.05): each question burns a job id. It looks at the
nodes, the jobs that run and those that wait before this one, reservations, the time limits, whether
the account may be charged, and MaxSubmitJobs; it does *not* look at MaxJobs, GrpTRES and the
limits of a QOS on what runs at one time, nor at whether the partition is up: those are looked at in
portal/launch/running_limits.py and policy.py. Jobs without an end count as ending in a year.
"""

from __future__ import annotations

from portal.errors import SlurmRefused, SlurmUnavailable
from portal.launch.container import sbatch_options, session_script
from portal.models.session.resources import Resources

from ..parse.test_only import expected_start
from .run import SlurmRunner

# What it answers while all nodes that would fit are down, drained or reserved: sbatch itself takes
# such a job, and it waits.
_NO_NODE = "Requested node configuration is not available"
_SAID = 500  # characters of an answer that are kept


class NoNodeNow(SlurmRefused):
    """No node that is in service can run this."""


class AnswerNotUnderstood(SlurmUnavailable):
    """Slurm took the question and named no time that is understood; ``said`` is its answer."""

    def __init__(self, said: str) -> None:
        super().__init__("Slurm's estimate of a start is not understood.")
        self.said = said


async def test_only(
    runner: SlurmRunner,
    resources: Resources,
    user: str,
    environment: str,
    timeout: float,  # noqa: ASYNC109 - SlurmRunner kills at that time
) -> float:
    """Unix seconds at which Slurm would start a job of ``user`` now, submitted as a session is.

    Raises AnswerNotUnderstood, NoNodeNow, SlurmRefused with Slurm's words (it would not take the
    job), SlurmUnavailable, ConfigurationError.
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
    start = expected_start(output.stderr)
    if start is None:
        raise AnswerNotUnderstood(output.stderr.strip()[:_SAID])
    return start
