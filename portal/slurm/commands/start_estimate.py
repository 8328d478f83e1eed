"""Slurm's own estimate of a start: ``sbatch --test-only``, which submits nothing.

Cost and limits (Slurm 22.05): each query uses up a job id. It considers the nodes, the running
jobs and those queued before this one, reservations, time limits, whether the account may be
charged, and MaxSubmitJobs; it does *not* consider MaxJobs, GrpTRES and a QOS's limits on running
jobs, nor whether the partition is up: portal/launch/limits and policy.py check those.
Jobs without an end count as ending in a year.
"""

from __future__ import annotations

from portal.errors import SlurmRefused, SlurmUnavailable
from portal.launch.container import sbatch_options, session_script
from portal.models.session.resources import Resources

from ..parse.start_estimate import expected_start
from .run import SlurmRunner

# The answer while all nodes that would fit are down, drained or reserved: sbatch itself accepts
# such a job, and it waits.
_NO_NODE = "Requested node configuration is not available"
_LONGEST = 500  # characters of an answer that are kept


class NoNodeNow(SlurmRefused):
    """Refusal because no node in service can run the job."""


class AnswerNotUnderstood(SlurmUnavailable):
    """Answer of Slurm without a start time that is understood; ``answer_text`` is its text."""

    def __init__(self, answer_text: str) -> None:
        super().__init__("The portal cannot read Slurm's estimate of the start.")
        self.answer_text = answer_text


async def test_only(
    runner: SlurmRunner,
    resources: Resources,
    user: str,
    environment: str,
    timeout: float,  # noqa: ASYNC109 - SlurmRunner kills at that time
) -> float:
    """Return when Slurm would start a session's job of ``user`` submitted now, in Unix seconds.

    Raises AnswerNotUnderstood, NoNodeNow, SlurmRefused with Slurm's message (it would not accept
    the job), SlurmUnavailable, ConfigurationError.
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
        raise AnswerNotUnderstood(output.stderr.strip()[:_LONGEST])
    return start
