"""Who did what to whom, and whether it was allowed."""

from __future__ import annotations

from enum import StrEnum

from . import Frozen


class Outcome(StrEnum):
    """How it went."""

    DONE = "done"
    REFUSED = "refused"  # this person may not
    FAILED = "failed"  # it was allowed, and did not work


class AuditEntry(Frozen):
    """One line of the audit log; it is only ever added to. ``detail`` is a sentence, no secret.

    ``action`` is such as "stop-session", ``target`` what it was done to ("session 8aX…",
    "job 1234", "node gpu01"), ``owner`` whose that is.
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
