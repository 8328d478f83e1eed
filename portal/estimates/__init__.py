"""Estimates of when a session would start, before a launch, and how wrong they were."""

from .estimator import HUB, SERVICE, StartEstimates

__all__ = ["HUB", "SERVICE", "StartEstimates"]
