"""Dashboard: one live view of the cluster for all viewers."""

from .dashboard import Dashboard
from .view import ClusterView

__all__ = ["ClusterView", "Dashboard"]
