"""Settings that name files say whether a backup has them."""

from __future__ import annotations

import re

import pytest
from traitlets.config import Application

from docs import reference
from portal.app.service import PortalService
from portal.backup.inventory import settings_of
from portal.directory import LDAPAuthenticator
from spawners.spawner import PortalSpawner

_NAMES_FILES = re.compile(r"(_file|_files|_keys|directory|_folder|root|keyring)$")
_PATH = re.compile(r"""["'=]/[a-z]""")
# Settings with a path that names no files of the site's: programs, mounts, places on nodes.
_OTHERS = {
    "CatalogRules": {"allowed_binds"},
    "Courses": {"data_roots"},
    "Images": {"apptainer", "beside", "node_cache", "python", "scratch", "wheels"},
    "PortalService": {"config_file"},
    "PortalSpawner": {
        "apptainer", "binds", "cmd", "commands_in_containers", "tensorboard_roots",
    },
    "Registries": {"skopeo"},
    "SlurmRunner": {"bin_dir", "commands", "slurm_conf", "sudo"},
    "Storage": {"areas"},
    "Store": {"url"},
}  # fmt: skip
SETTINGS = [
    (kind, name, trait)
    for kind in reference.classes()
    if not issubclass(kind, Application) or kind is PortalService
    for name, trait in reference.settings(kind).items()
    if _NAMES_FILES.search(name) or _PATH.search(f"={trait.default_value}{trait.help}")
    if name not in _OTHERS.get(kind.__name__, ())
]


@pytest.mark.parametrize(("kind", "name", "trait"), SETTINGS, ids=lambda value: str(value)[:40])
def test_a_setting_that_names_files_says_whether_a_backup_has_them(
    kind: type, name: str, trait: object
) -> None:
    tag = getattr(trait, "metadata", {}).get("backup")
    assert tag in ("secret", "files", ""), f"{kind.__name__}.{name}: tag it, see portal/setting.py"
    if re.search("password|token|key_|keyring|secret", name):
        assert tag == "secret", f"{kind.__name__}.{name} names secrets"


def test_the_settings_are_found_where_a_backup_looks() -> None:
    looked = {
        name
        for _, name, _ in settings_of([*PortalService.classes, PortalSpawner, LDAPAuthenticator])
    }
    assert {name for _, name, trait in SETTINGS if trait.metadata.get("backup")} <= looked
    assert len(looked) >= 7


def test_the_other_settings_are_there() -> None:
    """So that none of that name is overlooked later."""
    known = {kind.__name__: reference.settings(kind) for kind in reference.classes()}
    assert all(names <= known[kind].keys() for kind, names in _OTHERS.items())
