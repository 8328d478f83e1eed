"""JupyterLab's page: the browser loads no extension that this session has switched off.

JupyterLab loads the modules of a disabled extension as well, and only leaves out their plugins.
Those of jupyter-collaboration, which is off in every session but a course's room, are more than
half of what is loaded beside JupyterLab itself.
"""

from __future__ import annotations

from typing import Any, Callable


def _load_jupyter_server_extension(app: Any) -> None:
    """Called by jupyter_server. ``app`` is its ServerApp."""
    # JupyterHub puts its own hook there after all extensions are loaded.
    app.io_loop.add_callback(_hook, app.web_app.settings)


def _hook(settings: dict[str, Any]) -> None:
    before: Callable[[Any, dict[str, Any]], dict[str, Any]] = settings.get(
        "page_config_hook", lambda handler, page: page
    )
    settings["page_config_hook"] = lambda handler, page: needed(before(handler, page))


def needed(page: dict[str, Any]) -> dict[str, Any]:
    """The page's configuration without the extensions that are disabled as a whole."""
    off = page.get("disabledExtensions", ())
    extensions = page.get("federated_extensions", ())
    return {**page, "federated_extensions": [one for one in extensions if one["name"] not in off]}
