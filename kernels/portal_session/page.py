"""JupyterLab's page: without the extensions that this session has switched off, and with a header
that names the scripts which it needs first.

JupyterLab loads the modules of a disabled extension as well, and only skips their plugins. Those
of jupyter-collaboration, which is off in every session but a room, are more than half of
what is loaded besides JupyterLab itself.

The page's first script loads the extensions' entries and then JupyterLab's core, which is half of
all bytes. A browser that reads their names in the header loads them beside that script.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_config_dir, jupyter_data_dir

from .home import damaged_files
from .programs.definition import beside

# Programs beside JupyterLab: the launcher has a card for each.
PROGRAMS = "portalPrograms"
SET_ASIDE = "portalSetAside"  # sentences in the page's configuration, each shown once
_MOST = 16  # names in the header: proxies take 4 kB of headers, unless told otherwise
_SAFE = re.compile(r"[\w./@%+~?=-]+", re.ASCII)
# As JupyterLab's build (webpack.prod.config.js) names scripts in the page and in each other.
_CORE = re.compile(r"jlab_core\.([0-9a-f]{16,64})\.js", re.ASCII)
_VERSIONED = re.compile(r"/main\.([0-9a-f]{16,64})\.js\?v=\1\"", re.ASCII)


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
    # What the page's configuration is made of is read before the hook is called.
    _set_aside()
    # JupyterHub puts its own hook there after all extensions are loaded.
    app.io_loop.add_callback(_hook, app.web_app.settings)


def _hook(settings: dict[str, Any]) -> None:
    before: Callable[[Any, dict[str, Any]], dict[str, Any]] = settings.get(
        "page_config_hook", lambda handler, page: page
    )

    programs = [
        {"name": name, "title": definition.get("title") or name}
        for name, definition in beside(os.environ).items()
    ]

    def hook(handler: Any, page: dict[str, Any]) -> dict[str, Any]:
        page = needed(before(handler, page))
        if programs:
            page[PROGRAMS] = programs
        _set_aside()
        if notices := damaged_files.take_notices():
            handler.log.warning(" ".join(notices))
            page[SET_ASIDE] = notices
        for url in first_scripts(page, getattr(handler, "static_path", ())):
            handler.add_header("Link", f"<{url}>; rel=preload; as=script")
        return page

    settings["page_config_hook"] = hook


def _set_aside() -> None:
    """Set aside what JupyterLab could not read, now that it will."""
    damaged_files.set_aside_of_lab(os.environ, Path(jupyter_config_dir()), Path(jupyter_data_dir()))
    damaged_files.set_aside_history(os.environ)


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


def first_scripts(page: dict[str, Any], folders: Iterable[str]) -> list[str]:
    """List the addresses of JupyterLab's core, in one of ``folders``, and of the extensions'
    entries, exactly as the page asks for them: any other would be loaded besides."""
    extensions = page.get("federated_extensions", ())
    entries = [f"{extension['name']}/{extension['load']}" for extension in extensions]
    urls = [
        *(f"{page.get('fullStaticUrl', '')}/{core}" for core in map(_core, folders) if core),
        *(f"{page.get('fullLabextensionsUrl', '')}/{entry}" for entry in entries),
    ]
    return [url for url in urls if _SAFE.fullmatch(url)][:_MOST]


@functools.cache
def _core(folder: str) -> str:
    """Return the name of JupyterLab's core with its version; "" if this build has none, or names
    it otherwise."""
    try:
        if not _VERSIONED.search(Path(folder, "index.html").read_text("utf-8")):
            return ""
        cores = [match for path in Path(folder).iterdir() if (match := _CORE.fullmatch(path.name))]
    except (OSError, ValueError):
        return ""
    return f"{cores[0][0]}?v={cores[0][1]}" if len(cores) == 1 else ""
