"""Folders of projects in the demo's root form: the program, its rule and its settings, as at a
site."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from .home import Home
from .people import Account

GROUP, GROUP_ID = "portal-projects", 6194  # has no members
SETTINGS = Path("data-scientist-portal/project-folders.json")  # below /etc


def helper(home: Home) -> Path:
    """Return the path of the program, which only root can change."""
    return home.demo / "sbin" / "portal-project-folder"


def lay(home: Home, service: Account, deploy: Path, etc: Path) -> None:
    """Install the program; write its rule and its settings into ``etc``, the demo's own. Only root
    can."""
    source = deploy / "project-folder"
    folders = {
        "root": home.demo / "projects",
        "members": home.demo / "project-members",
        "state": home.demo / "project-states",
    }
    for path, mode in (
        (helper(home).parent, 0o755),
        (folders["root"], 0o755),
        (folders["members"], 0o755),
        (folders["state"], 0o700),
    ):
        path.mkdir(exist_ok=True)
        path.chmod(mode)
    os.chown(folders["members"], service.uid, service.gid)
    new = helper(home).with_suffix(".new")
    shutil.copyfile(source / "project_folder.py", new)
    new.chmod(0o755)
    new.replace(helper(home))  # a call that runs keeps its own
    rule = (source / "sudoers").read_text()
    rule = rule.replace("/usr/local/sbin/portal-project-folder", str(helper(home)))
    (etc / "sudoers.d").mkdir(exist_ok=True)
    _write(etc / "sudoers.d" / helper(home).name, rule, 0o440)
    settings = json.loads((source / "project-folders.json").read_text())
    settings |= {key: str(path) for key, path in folders.items()}
    settings |= {"program": str(helper(home)), "service": service.name, "group": GROUP}
    (etc / SETTINGS.parent).mkdir(exist_ok=True)
    _write(etc / SETTINGS, json.dumps(settings, indent=1), 0o644)


def _write(path: Path, text: str, mode: int) -> None:
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(mode)
