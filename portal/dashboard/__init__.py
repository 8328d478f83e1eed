"""The dashboard: one live view of the cluster for everyone who looks at it."""

from .dashboard import Dashboard
from .view import ClusterView

__all__ = ["ClusterView", "Dashboard"]
