"""The demo's people and service accounts, as listed in deploy/demo/people.toml."""

from __future__ import annotations

import os
import pwd
import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Account:
    """An account. ``groups``: its supplementary group ids."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class People:
    """Accounts of the demo. ``services`` and ``persons`` map a name to its account."""

    password: str
    group: str
    gid: int
    services: dict[str, Account]
    persons: dict[str, Account]
    students: tuple[str, ...]
    researchers: tuple[str, ...]
    instructors: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> People:
        """Read people.toml."""
        document = tomllib.loads(path.read_text())
        gid = document["group"]["gid"]
        services = document["services"]
        groups = {
            name: tuple(services[member][1] for member in members)
            for name, members in document["service_groups"].items()
        }
        students = {
            f"student{number:02}": document["students"]["first_uid"] + number - 1
            for number in range(1, document["students"]["count"] + 1)
        }
        persons = {**document["people"], **students}
        return cls(
            password=document["password"],
            group=document["group"]["name"],
            gid=gid,
            services={
                name: Account(name, uid, gid, groups.get(name, ()))
                for name, (uid, gid) in services.items()
            },
            persons={name: Account(name, uid, uid, (gid,)) for name, uid in persons.items()},
            students=tuple(students),
            researchers=tuple(document["slurm"]["researchers"]),
            instructors=tuple(document["slurm"]["instructors"]),
        )


def myself() -> Account:
    """Return the account that this process runs as."""
    uid = os.geteuid()
    return Account(pwd.getpwuid(uid).pw_name, uid, os.getegid(), tuple(os.getgroups()))
