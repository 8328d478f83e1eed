"""git in folders that others may write: nothing that lies there is executed.

git executes programs that a repository's configuration names: a monitor of files, hooks, filters,
and the other side of a fetch of missing objects. A repository is trusted if it belongs to the user;
git before 2.35.2 does not check that, and a setting ``safe.directory = *`` switches the check off.
Before 2.38, git takes any folder with a HEAD for a bare repository.
Sources: git-config(1), gitglossary(7), ``safe.bareRepository``, ``safe.directory``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

SETTINGS = {
    "safe.bareRepository": "explicit",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
}


def options(more: Mapping[str, str] | None = None) -> list[str]:
    """Return options of git with the SETTINGS, which precede those of any file, and ``more``."""
    settings = {**SETTINGS, **(more or {})}
    return [word for name in settings for word in ("-c", f"{name}={settings[name]}")]


def variables() -> dict[str, str]:
    """Return environment variables with the SETTINGS, for a git that another program calls. git
    before 2.31 does not know them."""
    numbered = list(enumerate(SETTINGS.items()))
    return {
        "GIT_CONFIG_COUNT": str(len(numbered)),
        **{f"GIT_CONFIG_KEY_{at}": name for at, (name, _) in numbered},
        **{f"GIT_CONFIG_VALUE_{at}": value for at, (_, value) in numbered},
    }


def is_own(folder: Path) -> bool:
    """Return True if the repository that git would find for ``folder`` has a ``.git``, and that and
    its folder belong to this user. Raises OSError."""
    user = os.geteuid()
    for place in (folder, *folder.parents):
        if os.path.lexists(place / ".git"):
            return (place / ".git").lstat().st_uid == user and place.stat().st_uid == user
        if os.path.lexists(place / "HEAD"):
            return False
    return False
