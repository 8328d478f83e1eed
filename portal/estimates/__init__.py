"""When a session would start: what is said before a launch, and how wrong it was."""

from .estimator import StartEstimates

__all__ = ["StartEstimates"]
