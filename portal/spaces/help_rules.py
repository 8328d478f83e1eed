"""Rules of a type of spaces for access to another member's session: who may ask whom, for how long,
and in which words that is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ..errors import NotAllowed
from ..models.audit import AuditedAction
from ..models.space import Role, StoredSpace
from .registry import type_of


class HelpRules:
    """Rules of the spaces called ``noun``; ``granted`` and ``ended`` are the portal's own entries
    in the audit log. ``pause``: seconds for which a refusal stands."""

    noun: ClassVar[str] = "space"
    granted: ClassVar[AuditedAction]
    agreed: ClassVar[AuditedAction]
    refused: ClassVar[AuditedAction]
    ended: ClassVar[AuditedAction]
    pause: ClassVar[float] = 0.0
    no_subdomains: ClassVar[str]
    no_answer: ClassVar[str]  # why a request is over that nobody has answered

    @property
    def most_minutes(self) -> int:
        """Maximum minutes of one visit."""
        return 60

    def policy(self, stored: StoredSpace) -> str:
        """Return "ask", "always" (the owner of a session is not asked) or "off"."""
        return "ask"

    def why_off(self, stored: StoredSpace) -> str:
        """Return the sentence why nobody can ask in this space; "" if they can."""
        return ""

    def demand(
        self, stored: StoredSpace, roles: Mapping[str, Role], owner: str, helper: str
    ) -> None:
        """Raise NotAllowed or NotFound unless ``helper`` may ask the owner of a session in it."""
        if not type_of(stored.space).may_help(roles.get(helper), roles.get(owner)):
            raise NotAllowed(f"You cannot open a session of {owner} in this {self.noun}.")

    def over(self, stored: StoredSpace, roles: Mapping[str, Role], owner: str, helper: str) -> str:
        """Return why access that was asked for must end by now; "" if it may go on."""
        if not type_of(stored.space).may_help(roles.get(helper), roles.get(owner)):
            return f"one of them is no longer in the {self.noun}"
        return ""
