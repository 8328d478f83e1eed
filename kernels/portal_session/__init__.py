"""Server side of a portal session: start of the server, its port for the Hub, and reports on its
GPUs to the portal.

Nothing heavy is imported here: every Python of an environment may import this file.
"""

from __future__ import annotations

__version__ = "0.1.0"


_EXTENSIONS = (
    "kernels.command_line",
    "port",
    "activity",  # before telemetry, which reports it
    "measurements.telemetry",
    "notebooks.unattended",
    "measurements.measurements",  # after unattended, which hears of them
    "local_api",
    "course.course",  # after local_api, whose situation it outdates
    "course.handouts",  # after local_api, whose situation it looks at
    "project_files",
    "handover",
    "page",
    "static_files",
    "home.starters",
    "tensorboard",
    "programs",
    "waiting.waiting",
    "packing.packing",
    "uploads.handlers",
    "downloads",
    "job_kernels.extension",  # after those, whose routes its broker has
    "runs.opening",
    "notebooks.lacking_modules",
)


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """List the extensions for jupyter_server."""
    return [{"module": f"{__name__}.{name}"} for name in _EXTENSIONS]


def _jupyter_server_extension_paths() -> list[dict[str, str]]:
    return _jupyter_server_extension_points()
