"""Notebook on which a person's first session opens (c.PortalSpawner.welcome_notebook)."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from pathlib import Path

from .new_file import write_new

VARIABLE = "PORTAL_WELCOME"  # path of the site's notebook in the session
NAME = "README.ipynb"  # in the home
_LARGEST = 1_000_000  # bytes
_FOLDER = ".portal"  # where every session keeps its settings: without it, there was none
_PAGE = "JUPYTERHUB_DEFAULT_URL"


def welcome(environ: MutableMapping[str, str], home: Path) -> None:
    """Copy the notebook to a ``home`` without earlier sessions, and open the session on it.

    Nothing is overwritten. A notebook that cannot be read or copied is told on standard error, and
    the session opens as usual. Call this before anything is written to ``home``.
    """
    source = environ.pop(VARIABLE, "")
    if not source or environ.get(_PAGE) or (home / _FOLDER).exists():
        return
    try:
        with Path(source).open("rb") as file:
            text = file.read(_LARGEST + 1)
        if len(text) > _LARGEST:
            raise ValueError(f"it is larger than {_LARGEST // 1_000_000} MB")
        if write_new(home, (), NAME, text.decode()):
            environ[_PAGE] = f"/lab/tree/{NAME}"
    except (OSError, ValueError) as error:
        print(f"The welcome notebook {source} was not copied: {error}", file=sys.stderr)
