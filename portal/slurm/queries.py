"""The questions the portal asks Slurm, as argv: one a noun, each as few requests as possible.

Requests per question, counted with sdiag on Slurm 22.05 and 24.11: jobs 2 (squeue always asks for
partitions too), nodes 2 (likewise), partitions 1, reservations 1, GPU indexes 1.
QOS and associations ask slurmdbd.
"""

from __future__ import annotations

from . import parse

JOBS = ("squeue", "--noheader", "--all", "--states=all")
NODES = ("scontrol", "--all", "--oneliner", "-d", "show", "node")
PARTITIONS = ("scontrol", "--all", "--oneliner", "show", "partition")
RESERVATIONS = ("scontrol", "--all", "--oneliner", "show", "reservation")
GPU_INDEXES = ("scontrol", "--all", "--oneliner", "-d", "show", "job")
QOS = (
    *("sacctmgr", "--noheader", "--parsable2", "--readonly", "show", "qos"),
    f"format={','.join(parse.QOS_FIELDS)}",
)


def jobs_environment(separator: str) -> dict[str, str]:
    """What JOBS needs in its environment: the columns, with a separator that stays secret."""
    return {"SQUEUE_FORMAT2": parse.job_format(separator)}


def ended_job(job_id: str, separator: str) -> tuple[str, ...]:
    """Accounting's rows of one job and its steps, runs before a requeue included."""
    return (
        "sacct",
        "--noheader",
        "--duplicates",
        "--parsable",
        f"--delimiter={separator}",
        f"--format={','.join(parse.SACCT_FIELDS)}",
        f"--jobs={job_id}",
    )


def associations(users: str) -> tuple[str, ...]:
    """The associations of ``users`` (separated by commas, each checked by the caller; "": all)."""
    return (
        "sacctmgr",
        "--noheader",
        "--parsable2",
        "--readonly",
        "show",
        "user",
        *(("where", f"user={users}") if users else ()),
        "withassoc",
        f"format={','.join(parse.ASSOCIATION_FIELDS)}",
    )
