"""Entries of the audit log: who did what to whom, and whether it was allowed."""

from __future__ import annotations

from enum import StrEnum

from . import Frozen


class Outcome(StrEnum):
    """Outcome of an action."""

    DONE = "done"
    REFUSED = "refused"  # not permitted
    FAILED = "failed"  # permitted, but failed


class AuditEntry(Frozen):
    """Entry of the append-only audit log. ``detail`` is a sentence without secrets.

    ``action`` is a name such as "stop-session", ``target`` the object acted on ("session 8aX…",
    "job 1234", "node gpu01"), ``owner`` the object's owner.
    """

    id: int = 0  # given by the store
    at: float
    actor: str
    action: str
    target: str
    owner: str = ""
    outcome: Outcome
    detail: str = ""
    address: str = ""  # where the request came from
