"""Queries to Slurm, as argv: one for each kind of object, with as few RPCs as possible.

RPCs per query, counted with sdiag on Slurm 22.05 and 24.11: jobs 2 (squeue always asks for
partitions too), nodes 2 (likewise), partitions 1, reservations 1, GPU indexes of all jobs 2, of
selected jobs 2 for each job and one about the nodes. QOS and associations query slurmdbd.
"""

from __future__ import annotations

from .. import parse
from ..parse import rights

JOBS = ("squeue", "--noheader", "--all", "--states=all")
NODES = ("scontrol", "--all", "--oneliner", "-d", "show", "node")
PARTITIONS = ("scontrol", "--all", "--oneliner", "show", "partition")
RESERVATIONS = ("scontrol", "--all", "--oneliner", "show", "reservation")
GPU_INDEXES = ("scontrol", "--all", "--oneliner", "-d", "show", "job")
# scontrol(1): without a command it reads commands from standard input, a "show job ID" per line.
GPU_INDEXES_OF_SOME = ("scontrol", "--all", "--oneliner", "-d")
QOS = (
    *("sacctmgr", "--noheader", "--parsable2", "--readonly", "show", "qos"),
    f"format={','.join(parse.QOS_FIELDS)}",
)

# squeue(1) and sacct(1): the lists of an array's tasks are not cut.
WHOLE_LISTS = {"SLURM_BITSTR_LEN": "0"}

CONFIG = ("scontrol", "show", "config")
# This one has no --noheader. Slurm 22.05 answers every account.
ACCOUNTING_CONFIG = ("sacctmgr", "--readonly", "show", "configuration")


def jobs_environment(separator: str) -> dict[str, str]:
    """Return the environment variables for JOBS: the columns, with a secret separator."""
    return {"SQUEUE_FORMAT2": parse.job_format(separator)}


def ended_job(job_id: str, separator: str) -> tuple[str, ...]:
    """Return the argv for accounting's rows of a job, its steps, and its runs before a requeue."""
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
    """Return the argv for everyone's jobs that ended in the last ``seconds``, without steps.

    A time relative to now does not depend on sacct's time zone.
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
    """Return the argv for ``users``' associations (comma-separated, checked by the caller; "":
    all)."""
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
    """Return the argv for an account's row (none if it does not exist); the caller checks
    ``name``."""
    return (
        *("sacctmgr", "--noheader", "--parsable2", "--readonly", "show", "account"),
        *("where", f"name={name}", "format=account"),
    )


def account_limits(name: str) -> tuple[str, ...]:
    """Return the argv for an account's limits and use in slurmctld; the caller checks ``name``."""
    shown = ("show", "assoc_mgr", f"accounts={name}", "flags=assoc")
    return ("scontrol", "--oneliner", *shown)


def admin_level(user: str) -> tuple[str, ...]:
    """Return the argv for the AdminLevel of a user (this process's own account)."""
    return (
        *("sacctmgr", "--noheader", "--parsable2", "--readonly", "show", "user"),
        *("where", f"user={user}", f"format={','.join(rights.ADMIN_FIELDS)}"),
    )
