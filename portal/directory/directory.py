"""Questions about people who are not there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol


class Directory(Protocol):
    """Whoever knows a site's people and their groups.

    ``on``: whether it can be asked; else nothing is. ``complete``: whether it knows those who have
    never logged in; else whom it does not know may exist all the same.

    Every method raises Unavailable where it does not answer, and ConfigurationError.
    """

    @property
    def on(self) -> bool: ...

    @property
    def complete(self) -> bool: ...

    async def known(self, names: Collection[str]) -> Mapping[str, str]:
        """Return the Hub's name of each of ``names`` that is there and not disabled."""
        ...

    async def members_of(self, group: str) -> tuple[str, ...]:
        """Return the Hub's names of everyone in a group. Raises NotFound."""
        ...

    async def may_teach(self, name: str) -> bool:
        """Return whether a person may run courses."""
        ...

    async def mail_of(self, name: str) -> str | None:
        """Return the mail address of a person; None where none is known."""
        ...
