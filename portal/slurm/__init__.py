"""Slurm: the only subprocess, the only parser of its output, and the shared watcher."""

from .cluster import Cluster
from .reasons import end_words, pending_words, state_words
from .run import CommandTimedOut, Output, SlurmRunner

__all__ = [
    "Cluster",
    "CommandTimedOut",
    "Output",
    "SlurmRunner",
    "end_words",
    "pending_words",
    "state_words",
]
