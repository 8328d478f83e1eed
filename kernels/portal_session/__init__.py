"""What runs inside a session of the portal: it starts the server, tells the Hub its port and the
portal what its GPUs do.

Nothing heavy is imported here: every Python of an environment may come past this file.
"""

from __future__ import annotations

__version__ = "0.1.0"


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """Where jupyter_server finds the extensions."""
    return [
        {"module": "portal_session.kernels.command_line"},
        {"module": "portal_session.port"},
        {"module": "portal_session.activity"},  # before telemetry, which reports it
        {"module": "portal_session.measurements.telemetry"},
        {"module": "portal_session.notebooks.unattended"},
        {
            "module": "portal_session.measurements.measurements"
        },  # after unattended, which hears of them
        {"module": "portal_session.local_api"},
        {"module": "portal_session.course.course"},  # after local_api, whose situation it outdates
        {
            "module": "portal_session.course.handouts"
        },  # after local_api, whose situation it looks at
        {"module": "portal_session.handover"},
        {"module": "portal_session.page"},
        {"module": "portal_session.starters"},
        {"module": "portal_session.tensorboard"},
        {"module": "portal_session.program.program"},
    ]


def _jupyter_server_extension_paths() -> list[dict[str, str]]:
    return _jupyter_server_extension_points()
