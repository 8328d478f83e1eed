"""Manifest of a backup: its members with their hashes, and the places that they came from."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from portal.models import Frozen

FORMAT: Literal[1] = 1
NAME = "manifest.json"  # the first member
SUM = "manifest.sha256"  # of the manifest, the second member
SEAL = "manifest.seal"  # authenticates the manifest with the passphrase
PASSWORDS = "passwords.json.sealed"  # of databases, from their URLs


def _absolute(path: str) -> str:
    """Return ``path`` if it names one place and no other. Raises ValueError."""
    parts = PurePosixPath(path).parts
    if (
        not path.startswith("/")
        or ".." in parts
        or "\0" in path
        or str(PurePosixPath(path)) != path
    ):
        raise ValueError(f"{path!r} is no absolute path")
    return path


def _account(name: str) -> str:
    if not re.fullmatch(r"[^/:\0\n]{1,256}", name):
        raise ValueError(f"{name!r} is no account")
    return name


Path = Annotated[str, AfterValidator(_absolute)]
Account = Annotated[str, AfterValidator(_account)]
Mode = Annotated[int, Field(ge=0, le=0o7777)]
Sum = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Role = Literal["hub", "portal"]


class Member(Frozen):
    """Member of the archive. ``sealed``: it is encrypted."""

    member: str
    size: Annotated[int, Field(ge=0)]
    sha256: Sum
    sealed: bool = False


class Folder(Frozen):
    """Folder of a file, with its owner."""

    path: Path
    mode: Mode
    owner: Account
    group: Account


class KeptFile(Member):
    """File with its place and its owner."""

    path: Path
    mode: Mode
    owner: Account
    group: Account


class KeptDatabase(Member):
    """Copy of a database. ``url``: its address without a password; ``path``: SQLite's file.

    ``roles``: whose tables it has, the Hub's or the portal's or both, each with the version of its
    schema ("" if it has no tables yet).
    """

    roles: dict[Role, str]
    url: str
    path: Path | None = None
    password_file: Path | None = None
    mode: Mode = 0o600
    owner: Account
    group: Account


class LeftOut(Frozen):
    """File that is not in the backup, and the reason."""

    path: str
    why: str


class Manifest(Frozen):
    """Everything that a restore needs to know. ``salt`` (hexadecimal): of the passphrase's key;
    empty without a passphrase. ``account``: the Hub's. ``directory``: in which it worked, if it
    ran."""

    format: Literal[1]
    portal: str
    commit: str
    made_at: str
    account: Account
    config_file: Path
    directory: Path | None = None
    salt: Annotated[str, Field(pattern="^([0-9a-f]{32})?$")]
    databases: tuple[KeptDatabase, ...]
    files: tuple[KeptFile, ...]
    folders: tuple[Folder, ...]
    passwords: Member | None = None
    left_out: tuple[LeftOut, ...] = ()

    @property
    def members(self) -> tuple[Member, ...]:
        """Members of the archive beside the manifest's own."""
        others = (self.passwords,) if self.passwords else ()
        return (*self.databases, *self.files, *others)
