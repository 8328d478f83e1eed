"""JupyterLab's dialog "Run as job": what it asks of the session's server."""

from __future__ import annotations
