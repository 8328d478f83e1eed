"""Machine below a root of its own, on which ``portal setup`` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from portal.setup.answers import complete
from portal.setup.journal import Journal
from portal.setup.place import Place
from portal.setup.plan import plan
from portal.setup.steps import Step
from portal.setup.writing import follow, write

PASSWORD = 'it\'s "quoted" \\ and #1'


class Machine:
    """Machine below a root, with answers for it."""

    def __init__(self, root: Path) -> None:
        self.root, self.place = root, Place(root)
        self.given: dict[str, Any] = {
            "users_group": "portal-users",
            "hub_address": "10.99.0.1",
            "log_directory": "/shared/portal/log",
            "ldap_servers": ["ldaps://ldap.example.org"],
            "ldap_people_base": "ou=people,dc=example,dc=org",
            "ldap_bind_dn": "cn=portal,dc=example,dc=org",
            "environment": "/shared/images/pytorch.sif",
        }

    @property
    def answers(self) -> dict[str, Any]:
        return complete(self.given, {})

    def steps(self) -> list[Step]:
        return plan(self.answers, PASSWORD, self.place)

    def set_up(self) -> list[str]:
        """Set it up, and return what was done."""
        said: list[str] = []
        journal = Journal(self.place)
        with journal.locked():
            write(self.steps(), self.place, journal, said.append)
            follow(self.place, journal, None, said.append)
        return said

    def snapshot(self) -> dict[str, Any]:
        """Everything below the root, without what useradd and the lock leave."""
        found: dict[str, Any] = {}
        for path in sorted(self.root.rglob("*")):
            name = str(path.relative_to(self.root))
            if name.endswith(("-", ".lock")):
                continue
            status = path.lstat()
            what: Any = None
            if path.is_symlink():
                what = str(path.readlink())
            elif path.is_file():
                what = path.read_bytes()
            found[name] = (oct(status.st_mode), status.st_uid, status.st_gid, what)
        return found
