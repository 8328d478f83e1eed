"""Protocol of a directory: queries about people who need not be logged in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol


class Directory(Protocol):
    """Source of a site's people and their groups.

    ``on``: True if it can be queried; otherwise it is not. ``complete``: True if it knows people
    who have never logged in; otherwise somebody it does not know may exist all the same.

    Every method raises Unavailable if the directory does not answer, and ConfigurationError.
    """

    @property
    def on(self) -> bool: ...

    @property
    def complete(self) -> bool: ...

    async def known(self, names: Collection[str]) -> Mapping[str, str]:
        """Return the Hub's name of each of ``names`` that exists and is not disabled."""
        ...

    async def members_of(self, group: str) -> tuple[str, ...]:
        """Return the Hub's names of all members of a group. Raises NotFound."""
        ...

    async def may_teach(self, name: str) -> bool:
        """Return True if the person is an instructor."""
        ...

    async def mail_of(self, name: str) -> str | None:
        """Return the mail address of a person; None if unknown."""
        ...
