"""When a session would start: what is said before a launch, and how wrong it was."""

from .estimator import HUB, SERVICE, StartEstimates

__all__ = ["HUB", "SERVICE", "StartEstimates"]
