"""The demo's people and service accounts, as deploy/demo/people.toml names them."""

from __future__ import annotations

import os
import pwd
import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Account:
    """One account. ``groups`` are its group ids beside ``gid``."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class People:
    """Everyone in the demo. ``services`` and ``persons`` map a name to its account."""

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
        words = tomllib.loads(path.read_text())
        gid = words["group"]["gid"]
        services = words["services"]
        groups = {
            name: tuple(services[other][1] for other in others)
            for name, others in words["service_groups"].items()
        }
        students = {
            f"student{number:02}": words["students"]["first_uid"] + number - 1
            for number in range(1, words["students"]["count"] + 1)
        }
        persons = {**words["people"], **students}
        return cls(
            password=words["password"],
            group=words["group"]["name"],
            gid=gid,
            services={
                name: Account(name, uid, gid, groups.get(name, ()))
                for name, (uid, gid) in services.items()
            },
            persons={name: Account(name, uid, uid, (gid,)) for name, uid in persons.items()},
            students=tuple(students),
            researchers=tuple(words["slurm"]["researchers"]),
            instructors=tuple(words["slurm"]["instructors"]),
        )


def myself() -> Account:
    """The account that this process runs as."""
    uid = os.geteuid()
    return Account(pwd.getpwuid(uid).pw_name, uid, os.getegid(), tuple(os.getgroups()))
