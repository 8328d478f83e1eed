"""What runs inside a session of the portal: it starts the server and tells the Hub its port.

Nothing heavy is imported here: every Python of an environment may come past this file.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """Where jupyter_server finds the extension."""
    return [{"module": "portal_session.port"}]


def _jupyter_server_extension_paths() -> list[dict[str, str]]:
    return _jupyter_server_extension_points()


def _load_jupyter_server_extension(app: Any) -> None:
    from .port import _load_jupyter_server_extension as load

    load(app)
