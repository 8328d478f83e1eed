"""Imports of the server without the modules that it never uses.

Each function leaves ``sys.modules`` as if nothing had been left out: a later import of such a
module gets the real one.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_WITH_ALL = "PORTAL_WITH_ALL_OF_JUPYTERHUB"

# jupyterhub.log takes the name of one class from the Hub's handlers, jupyterhub.utils that of an
# exception from SQLAlchemy, and with them come the Hub's database and its migrations: 0.47 of
# 1.1 s of CPU and 300 of 1,300 modules, for a server that has no database (JupyterHub 6.1).
_OF_THE_HUB = (
    "jupyterhub.handlers",
    "jupyterhub.handlers.pages",
    "jupyterhub.orm",
    "jupyterhub.roles",
    "sqlalchemy",
    "sqlalchemy.exc",
)
# The grammar behind jsonschema's check of IRIs is compiled at each import: 1.2 s of CPU. Its check
# of durations brings all of arrow. No schema here uses them, and jsonschema does without them
# where they are not installed.
_OF_JSON_SCHEMA = ("rfc3987_syntax", "isoduration")


def import_json_schema() -> None:
    """Import jsonschema without its checks of IRIs and durations."""
    with _instead(dict.fromkeys(_OF_JSON_SCHEMA)):
        import jsonschema  # noqa: F401


def import_singleuser() -> Any:
    """Return ``jupyterhub.singleuser.extension``, imported without the Hub's own parts.

    For a JupyterHub that needs more of them at import, this program restarts with all of them,
    since a partial import cannot be undone. Raises ImportError if the module is missing.
    """
    if not os.environ.pop(_WITH_ALL, ""):
        try:
            with _instead({name: _Unused(name) for name in _OF_THE_HUB}):
                from jupyterhub.singleuser import extension
        except Exception:
            os.environ[_WITH_ALL] = "1"
            os.execv(sys.executable, [sys.executable, "-I", "-m", __package__, *sys.argv[1:]])  # noqa: S606
    else:
        from jupyterhub.singleuser import extension
    return extension


class _Unused(types.ModuleType):
    """Module whose every attribute is a class of its own, never instantiated or raised."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Exception,), {})


@contextmanager
def _instead(modules: Mapping[str, types.ModuleType | None]) -> Iterator[None]:
    """Put these modules in place of those of their names that are not imported yet."""
    given = {name: module for name, module in modules.items() if name not in sys.modules}
    sys.modules.update(given)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name, module in given.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
