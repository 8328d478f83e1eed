"""``portal doctor`` and the folders of projects: as the Hub's account, with the real rule."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import a_home, demo_place
from project_folder_site import FolderSite, folder_site, needs_namespace, tree_hash

pytestmark = needs_namespace

HUB = 6100
CONFIG = """
c = get_config()
c.JupyterHub.spawner_class = "spawners.spawner.PortalSpawner"
c.JupyterHub.authenticator_class = "dummy"
c.SlurmRunner.bin_dir = "/nowhere"
"""


@pytest.fixture
def site() -> Iterator[FolderSite]:
    with a_home() as place, folder_site(place) as made:
        yield made


def examined(site: FolderSite, uid: int = HUB, root: str | None = None) -> dict[str, Any]:
    """Return the finding of the check, made as this account. ``root``: c.Projects.root, if another
    than the program's."""
    config = site.home.demo / "hub_config.py"
    config.write_text(f"{CONFIG}c.Projects.root = {root or str(site.projects)!r}\n")
    called = site.call(
        *("doctor", "-f", str(config), "--only=project-folders", "--json"),
        program=(sys.executable, "-m", "portal"),
        uid=uid,
        env={"PYTHONPATH": str(demo_place()), "HOME": "/"},
    )
    assert called.status in (0, 1), called.err
    findings = json.loads(called.out)
    (found,) = findings["findings"] if isinstance(findings, dict) else findings
    value: dict[str, Any] = found
    return value


def test_a_good_site(site: FolderSite) -> None:
    before = tree_hash(site.projects)
    found = examined(site)
    # Here is no Slurm that could say that its nodes are this machine (test_doctor_demo.py has).
    assert found["level"] == "warning" and "which the nodes cannot read" in found["found"]
    assert ";" not in found["found"]
    assert tree_hash(site.projects) == before
    assert "root needs no sudo rule" in examined(site, uid=0)["found"]
    found = examined(site, root="/other")
    assert found["level"] == "failure" and "c.Projects.root is '/other'" in found["found"]


def test_a_program_that_others_can_change(site: FolderSite) -> None:
    folder = site.helper.parent
    for path, mode, owner in ((site.helper, 0o775, 0), (folder, 0o777, 0), (folder, 0o755, HUB)):
        kept = path.stat()
        os.chown(path, owner, owner)
        path.chmod(mode)
        found = examined(site)
        os.chown(path, kept.st_uid, kept.st_gid)
        path.chmod(kept.st_mode & 0o7777)
        assert found["level"] == "failure" and str(path) in found["found"], found
        assert "go-w" in found["mend"]


def test_a_program_that_is_missing(site: FolderSite) -> None:
    settings = json.loads(site.settings.read_text())
    for program, words in (("/nowhere/x", "/nowhere"), ("x", "no absolute path"), (7, "program")):
        site.settings.write_text(json.dumps(settings | {"program": program}))
        found = examined(site)
        assert found["level"] == "failure" and words in found["found"], found
        assert "docs/how-to/project-folders.md" in found["mend"]
    site.settings.unlink()
    assert examined(site)["level"] == "skipped"


def test_rules_that_are_missing_or_too_wide(site: FolderSite) -> None:
    rule = Path(f"/proc/{site.pid}/root/etc/sudoers.d/portal-project-folder")
    text = rule.read_text()
    wide = text.replace("^[a-z0-9-]+ (make|repair-list|repair|archive|restore|probe)$", "")
    assert wide != text
    rule.write_text(wide)
    found = examined(site)
    assert found["level"] == "warning" and "'probe remove'" in found["found"], found
    rule.unlink()
    found = examined(site)
    assert found["level"] == "failure" and "sudo says" in found["found"], found


def test_a_file_system_without_acls(site: FolderSite) -> None:
    inside = ("nsenter", f"--mount=/proc/{site.pid}/ns/mnt")
    subprocess.run([*inside, "mount", "-t", "ramfs", "none", site.projects], check=True)
    found = examined(site)
    assert found["level"] == "failure" and "has no POSIX ACLs" in found["found"], found
    site.tell("alpha", {"ada": "owner"})
    assert "has no POSIX ACLs" in site.call("alpha", "make").err
    listed = subprocess.run([*inside, "stat", "-c", "%a", site.projects / "alpha"],
                            capture_output=True, text=True, check=True)  # fmt: skip
    assert listed.stdout.strip() == "2700"  # nobody may enter it


def test_settings_and_folders_that_are_wrong(site: FolderSite) -> None:
    site.members.chmod(0o775)
    assert "alone must be able to write" in examined(site)["found"]
    site.members.chmod(0o755)
    os.chown(site.members, 0, 0)
    found = examined(site)
    assert found["level"] == "failure" and "alone must be able" in found["found"], found
    site.projects.chmod(0o777)
    found = examined(site)
    assert found["level"] == "failure" and "could be replaced" in found["found"], found
