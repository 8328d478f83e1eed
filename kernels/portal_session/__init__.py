"""What runs inside a session of the portal: it starts the server, tells the Hub its port and the
portal what its GPUs do.

Nothing heavy is imported here: every Python of an environment may come past this file.
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
    "handover",
    "page",
    "starters",
    "tensorboard",
    "program",
)


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """Where jupyter_server finds the extensions."""
    return [{"module": f"{__name__}.{name}"} for name in _EXTENSIONS]


def _jupyter_server_extension_paths() -> list[dict[str, str]]:
    return _jupyter_server_extension_points()
