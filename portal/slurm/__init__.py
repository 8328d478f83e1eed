"""Access to Slurm: the only subprocess, the only parser of its output, and the shared watcher."""

from .commands.run import CommandTimedOut, Output, SlurmRunner
from .jobs.end import launch_trouble
from .reasons import end_words, pending_words, state_words
from .watch.cluster import Cluster

__all__ = [
    "Cluster",
    "CommandTimedOut",
    "Output",
    "SlurmRunner",
    "end_words",
    "launch_trouble",
    "pending_words",
    "state_words",
]
