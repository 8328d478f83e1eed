"""The only parsers of Slurm's output, by object; tested on recordings of each Slurm version."""

from .accounting import (
    ASSOCIATION_FIELDS,
    SACCT_FIELDS,
    associations,
    sacct_job,
    sacct_jobs,
    sacct_tasks,
)
from .gres import gpus, pools, shares, tres, tres_gpus
from .jobs import gpu_indexes, job_format, jobs, jobs_by_record, new_separator
from .qos import QOS_FIELDS, qos
from .scontrol import nodes, nodes_by_record, partitions, reservations
from .values import hosts, job_state, mebibytes, node_state, seconds, timestamp

__all__ = [
    "ASSOCIATION_FIELDS",
    "QOS_FIELDS",
    "SACCT_FIELDS",
    "associations",
    "gpu_indexes",
    "gpus",
    "hosts",
    "job_format",
    "job_state",
    "jobs",
    "jobs_by_record",
    "mebibytes",
    "new_separator",
    "node_state",
    "nodes",
    "nodes_by_record",
    "partitions",
    "pools",
    "qos",
    "reservations",
    "sacct_job",
    "sacct_jobs",
    "sacct_tasks",
    "seconds",
    "shares",
    "timestamp",
    "tres",
    "tres_gpus",
]
