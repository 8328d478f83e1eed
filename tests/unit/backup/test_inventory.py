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

_NAMES_FILES = re.compile(r"(_file|directory|_folder)$")
SETTINGS = [
    (kind, name, trait)
    for kind in reference.classes()
    if not issubclass(kind, Application) or kind is PortalService
    for name, trait in reference.settings(kind).items()
    if _NAMES_FILES.search(name) and (kind, name) != (PortalService, "config_file")
]


@pytest.mark.parametrize(("kind", "name", "trait"), SETTINGS, ids=lambda value: str(value)[:40])
def test_a_setting_that_names_files_says_whether_a_backup_has_them(
    kind: type, name: str, trait: object
) -> None:
    tag = getattr(trait, "metadata", {}).get("backup")
    assert tag in ("secret", "files", ""), f"{kind.__name__}.{name}: tag it, see portal/setting.py"
    if re.search("password|token|key|secret", name):
        assert tag == "secret", f"{kind.__name__}.{name} names secrets"


def test_the_settings_are_found_where_a_backup_looks() -> None:
    looked = {
        name
        for _, name, _ in settings_of([*PortalService.classes, PortalSpawner, LDAPAuthenticator])
    }
    assert {name for _, name, trait in SETTINGS if trait.metadata.get("backup")} <= looked
    assert len(looked) >= 7
