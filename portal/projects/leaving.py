"""End of access: sessions of people who are no longer in a project, or whose project is closed.

They see its folder until they end: so their users are warned, and a minute later they are stopped.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from portal.errors import PortalError
from portal.models.announcement import Level
from portal.models.audit import AuditEntry, Outcome
from portal.models.session.session import SessionRecord, SessionState
from portal.models.session.stop_reason import StopCode, StopReason
from portal.models.situation import Message
from portal.models.space import Role, SpaceState
from portal.store import Store

from .audit import ProjectAudit
from .members import ProjectMembers
from .models import ProjectMember, StoredProject
from .tables import ProjectTable

_ACTOR = "the portal"
_GROUPS = 120.0  # seconds between two copies of a group
_OWNERS = 300.0  # seconds between two questions about owners


class Hub(Protocol):
    """Part of the Hub's API that this needs."""

    async def may_log_in(self, user: str) -> bool:
        """Return False if this user can no longer log in. Raises HubUnavailable."""

    async def stop_server(
        self, user: str, server: str, *, on_behalf_of: str = "", reason: StopReason | None = None
    ) -> None:
        """Ask the Hub to stop one server. Raises PortalError."""


@dataclass
class Leaving:
    """Regular look at projects: members by groups, projects whose end has passed, owners who left,
    and sessions without access. ``note`` writes an entry of the audit log; ``ownerless``: projects
    none of whose owners may sign in."""

    interval: ClassVar[float] = 20.0  # seconds between two looks
    grace: ClassVar[float] = 60.0  # seconds between the warning and the stop

    store: Store
    members: ProjectMembers
    hub: Hub
    note: Callable[[AuditEntry], Awaitable[object]]
    log: logging.Logger
    ownerless: frozenset[str] = frozenset()
    _ending: dict[str, tuple[float, str]] = field(default_factory=dict)  # by session: when, why
    _copied: dict[str, tuple[float, str]] = field(default_factory=dict)  # by project: when, group
    _asked: float = float("-inf")

    async def look_at_projects(self, now: float) -> None:
        """Do what is due at ``now`` (Unix seconds). Raises StoreUnavailable, HubUnavailable."""
        table = self.store.table(ProjectTable)
        projects = {stored.name: stored for stored in await table.all()}
        for stored in projects.values():
            await self._copy_group(stored, now)
            if stored.state is SpaceState.APPROVED and stored.project.closed(now):
                projects[stored.name] = await self._archive(stored, now)
        await self._end_sessions(projects, now)
        if now - self._asked >= _OWNERS:
            await self._ask_owners(projects, now)
            self._asked = now

    def problem(self, project: str) -> str:
        """Return what an admin has to do for a project; "" for nothing."""
        if project not in self.ownerless:
            return ""
        return "No owner may sign in any more. An admin of the portal can hand it over."

    def messages(self, record: SessionRecord) -> tuple[Message, ...]:
        """Return what a session is told of its end."""
        at, reason = self._ending.get(record.id, (0.0, ""))
        if not reason:
            return ()
        text = f"{reason} This session is stopped in a minute: save your work."
        # Announcements have positive numbers.
        return (Message(id=-int(at), text=text, level=Level.WARNING, ends_at=at + self.grace),)

    async def _copy_group(self, stored: StoredProject, now: float) -> None:
        group = stored.project.roster_group
        at, before = self._copied.get(stored.name, (float("-inf"), ""))
        # Before an admin or the policy approves it, its owner learns nothing of a group.
        if stored.state is not SpaceState.APPROVED or (not group and not before):
            return
        if group != before or now - at >= _GROUPS:
            await self.members.copy_group(stored)
            self._copied[stored.name] = now, group

    async def _archive(self, stored: StoredProject, now: float) -> StoredProject:
        values = {"state": SpaceState.ARCHIVED, "archived_at": now, "changed_at": now}
        saved = await self.store.table(ProjectTable).save(stored.model_copy(update=values))
        self.members.memberships.forget()
        await self._noted(ProjectAudit.ARCHIVE_PROJECT, stored.name, stored.project.closed(now))
        return saved

    async def _end_sessions(self, projects: Mapping[str, StoredProject], now: float) -> None:
        living = [each for each in await self.store.sessions.living() if each.space in projects]
        people = {
            name: await self.members.members_of(name) for name in {each.space for each in living}
        }
        ending: dict[str, tuple[float, str]] = {}
        for record in living:
            stored = projects[record.space]
            reason = reason_to_end(record, stored, people[record.space].get(record.user))
            if not reason:
                continue
            at, _ = self._ending.get(record.id, (now + self._grace_of(record), ""))
            ending[record.id] = at, reason
            if now >= at and await self._stop(record, reason):
                ending[record.id] = now + self.grace, reason  # it may still be stopping
        self._ending = ending

    def _grace_of(self, record: SessionRecord) -> float:
        return self.grace if record.state is SessionState.RUNNING else 0.0

    async def _stop(self, record: SessionRecord, reason: str) -> bool:
        """Return True if the Hub stops the session."""
        try:
            words = StopReason(code=StopCode.SPACE_LEFT, words=reason.replace('"', "'"))
            await self.hub.stop_server(record.user, record.server, reason=words)
        except (PortalError, ValueError) as error:
            # It is tried again at the next look.
            self.log.warning(
                "The session of %s in the project %s could not be stopped: %s",
                *(record.user, record.space, error),
            )
            return False
        await self._noted(
            ProjectAudit.STOP_PROJECT_SESSION,
            record.space,
            f"Session {record.id}. {reason}",
            record.user,
        )
        return True

    async def _ask_owners(self, projects: Mapping[str, StoredProject], now: float) -> None:
        known: dict[str, bool] = {}
        gone = set()
        for name, stored in projects.items():
            if stored.state is SpaceState.ARCHIVED:
                continue
            members = (await self.members.members_of(name)).values()
            owners = [member.person for member in members if member.role is Role.OWNER]
            for owner in owners:
                if owner not in known:
                    known[owner] = await self.hub.may_log_in(owner)
            if not any(known[owner] for owner in owners):
                gone.add(name)
                if name not in self.ownerless:
                    await self._noted(
                        ProjectAudit.MISS_PROJECT_OWNER,
                        name,
                        f"{words_of(owners)} An admin can hand it over.",
                    )
        self.ownerless = frozenset(gone)

    async def _noted(
        self, action: ProjectAudit, project: str, detail: str, owner: str = ""
    ) -> None:
        entry = AuditEntry(
            at=time.time(),
            actor=_ACTOR,
            action=action,
            target=f"project {project}",
            owner=owner,
            outcome=Outcome.DONE,
            detail=detail,
        )
        await self.note(entry)


def reason_to_end(
    record: SessionRecord, stored: StoredProject, member: ProjectMember | None
) -> str:
    """Return why a session of a project is to end, a sentence; "" if it may stay."""
    called = stored.project.called
    if stored.state is not SpaceState.APPROVED:
        return f"The {called} is {stored.state}."
    if member is None:
        return f"You are no longer a member of the {called}. Its files stay."
    # A session from before sees the folder writable.
    if member.role is Role.READER and record.submitted_at < member.added_at:
        return f"You are now a reader of the {called}. Start a new session to read its files."
    return ""


def words_of(owners: list[str]) -> str:
    """Return what is wrong with a project that has only these owners."""
    return f"No owner may sign in any more: {', '.join(owners) or 'there is none'}."
