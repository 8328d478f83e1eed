"""JupyterLab's page, without the extensions that this session has switched off.

JupyterLab loads the modules of a disabled extension as well, and only skips their plugins. Those
of jupyter-collaboration, which is off in every session but a course's room, are more than half of
what is loaded besides JupyterLab itself.
"""

from __future__ import annotations

from typing import Any, Callable


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
    # JupyterHub puts its own hook there after all extensions are loaded.
    app.io_loop.add_callback(_hook, app.web_app.settings)


def _hook(settings: dict[str, Any]) -> None:
    before: Callable[[Any, dict[str, Any]], dict[str, Any]] = settings.get(
        "page_config_hook", lambda handler, page: page
    )
    settings["page_config_hook"] = lambda handler, page: needed(before(handler, page))


def needed(page: dict[str, Any]) -> dict[str, Any]:
    """Return the page's configuration without the extensions that are disabled as a whole."""
    off = page.get("disabledExtensions", ())
    extensions = page.get("federated_extensions", ())
    return {
        **page,
        "federated_extensions": [
            extension for extension in extensions if extension["name"] not in off
        ],
    }
