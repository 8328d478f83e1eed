"""The questions the portal asks Slurm, as argv: one a noun, each as few requests as possible.

Requests per question, counted with sdiag on Slurm 22.05 and 24.11: jobs 2 (squeue always asks for
partitions too), nodes 2 (likewise), partitions 1, reservations 1, GPU indexes of all jobs 2, or of
some jobs 2 for each and one about the nodes.
QOS and associations ask slurmdbd.
"""

from __future__ import annotations

from .. import parse
from ..parse import rights

JOBS = ("squeue", "--noheader", "--all", "--states=all")
NODES = ("scontrol", "--all", "--oneliner", "-d", "show", "node")
PARTITIONS = ("scontrol", "--all", "--oneliner", "show", "partition")
RESERVATIONS = ("scontrol", "--all", "--oneliner", "show", "reservation")
GPU_INDEXES = ("scontrol", "--all", "--oneliner", "-d", "show", "job")
# scontrol(1): without a command it reads commands from standard input, "show job ID" a line.
GPU_INDEXES_OF_SOME = ("scontrol", "--all", "--oneliner", "-d")
QOS = (
    *("sacctmgr", "--noheader", "--parsable2", "--readonly", "show", "qos"),
    f"format={','.join(parse.QOS_FIELDS)}",
)

CONFIG = ("scontrol", "show", "config")
# It knows no --noheader. Slurm 22.05 answers everyone.
ACCOUNTING_CONFIG = ("sacctmgr", "--readonly", "show", "configuration")


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


def ended_since(seconds: int, separator: str) -> tuple[str, ...]:
    """Accounting's rows of everyone's jobs that ended in the last ``seconds``, without steps.

    A time relative to now means the same to sacct whatever its time zone is.
    """
    return (
        "sacct",
        "--noheader",
        "--allusers",
        "--allocations",
        "--duplicates",
        "--parsable",
        f"--delimiter={separator}",
        f"--format={','.join(parse.SACCT_FIELDS)}",
        f"--starttime=now-{seconds}seconds",
        "--endtime=now",
        "--state=BF,CA,CD,DL,F,NF,OOM,PR,RQ,TO",
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


def account(name: str) -> tuple[str, ...]:
    """One account's row; nothing where there is none. The name is checked by the caller."""
    return (
        *("sacctmgr", "--noheader", "--parsable2", "--readonly", "show", "account"),
        *("where", f"name={name}", "format=account"),
    )


def admin_level(user: str) -> tuple[str, ...]:
    """The AdminLevel of one account (this process's own)."""
    return (
        *("sacctmgr", "--noheader", "--parsable2", "--readonly", "show", "user"),
        *("where", f"user={user}", f"format={','.join(rights.ADMIN_FIELDS)}"),
    )
