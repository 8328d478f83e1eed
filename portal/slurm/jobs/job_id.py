"""Job ids: those that sbatch prints, and those that callers may pass to a command."""

from __future__ import annotations

import re

from portal.errors import InvalidRequest, SlurmRefused

_JOB_ID = re.compile(r"[0-9]{1,12}(_[0-9]{1,9})?\Z")


def check_job_id(text: str) -> str:
    """Return ``text`` if it is "1234" or "1234_5"; else raise InvalidRequest."""
    if not isinstance(text, str) or not _JOB_ID.match(text):
        raise InvalidRequest(f"{text!r} is not a job id.", field="job_id")
    return text


def job_id_of(stdout: str) -> str:
    """Return the job id of sbatch --parsable: "1234" or "1234;cluster". Raises SlurmRefused."""
    lines = stdout.strip().splitlines()
    job_id = lines[-1].partition(";")[0].strip() if lines else ""
    if not _JOB_ID.match(job_id):
        raise SlurmRefused(f"sbatch returned {stdout.strip()[:200]!r} instead of a job id.")
    return job_id
