"""Help: a member of a course's staff in a student's session, or of a project in another member's,
for a while and always visible. Who may ask whom is a rule of the space's type (`HelpRules`).

The grant is a share of one server (JupyterHub's, which does not expire) that the portal makes and
revokes. The session itself asks every few seconds who is in now (``guests``), and lets nobody else
in: an end here takes effect there at once, whether the Hub could be told or not.
"""

from __future__ import annotations

import asyncio
import logging
import pkgutil
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from portal.errors import Conflict, InvalidRequest, NotAllowed, NotFound, PortalError
from portal.hubapi import HubApi
from portal.models.audit import AuditedAction, AuditEntry, Outcome
from portal.models.course.live import Help, HelpState
from portal.models.session.session import SessionRecord, SessionState
from portal.models.space import Role, SpaceState, StoredSpace
from portal.models.words import duration
from portal.spaces.help_rules import HelpRules
from portal.spaces.registry import job_space, type_of
from portal.store import Store

from ..settings import Courses
from .help_rules import CourseHelpRules
from .presence import is_own

PORTAL = "portal"  # the actor of its own lines in the audit log
ANSWER_WITHIN = 300.0  # seconds that a student has to answer
_SHARES_EVERY = 60.0  # seconds between two looks for unknown shares
_SET = 5.0  # seconds between two clocks from which the system clock counts as set
_RECENT = 86400.0  # seconds: shares of help that ended since then are taken back once more


@dataclass
class Helping:
    """Help in spaces; one instance a service, since it takes back what is no help in any of them.
    ``rules`` of the types of spaces that were asked for, by noun. ``note`` writes to the audit log
    and does not raise; ``subdomains``: whether each person's servers have an own host. ``uptime``
    is a monotonic clock, by which help lasts its minutes; ``now`` (Unix seconds) is for what is
    stored.

    Methods raise StoreUnavailable, except those that answer from memory.
    """

    store: Store
    hub: HubApi
    settings: Courses
    subdomains: bool
    note: Callable[[AuditEntry], Awaitable[object]]
    log: logging.Logger
    uptime: Callable[[], float] = time.monotonic
    rules: dict[str, HelpRules] = field(default_factory=dict)
    _open: dict[int, Help] = field(default_factory=dict)
    _ends: dict[int, float] = field(default_factory=dict)  # of what is open, by ``uptime``
    _unsaved: dict[int, Help] = field(default_factory=dict)  # ended while the database was away
    _known: bool = False
    _shares_at: float = float("-inf")
    _shares_left: bool = False  # that the Hub could not take back
    _to_revoke: set[tuple[str, str, str]] = field(default_factory=set)  # owner, server, helper
    _refusals: dict[tuple[str, str], float] = field(default_factory=dict)  # session, helper: when
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.rules.setdefault("course", CourseHelpRules(self.settings))

    # -- from memory ---------------------------------------------------------------------------

    def rules_of(self, stored: StoredSpace) -> HelpRules:
        """Return the rules of the space's type, which has some."""
        noun = stored.space.noun
        if noun not in self.rules:
            self.rules[noun] = pkgutil.resolve_name(type_of(stored.space).help_rules)()
        return self.rules[noun]

    def policy(self, stored: StoredSpace) -> str:
        """Return the space's policy: "ask", "always" or "off"; "off" without subdomains."""
        return self.rules_of(stored).policy(stored) if self.subdomains else "off"

    def why_off(self, stored: StoredSpace) -> str:
        """Return the sentence why nobody can be helped in this space; "" if they can."""
        rules = self.rules_of(stored)
        return rules.why_off(stored) if self.subdomains else rules.no_subdomains

    def of_session(self, session_id: str) -> tuple[Help, ...]:
        """Return the open requests and grants for a session, oldest first."""
        return tuple(request for request in self._open.values() if request.session_id == session_id)

    def of_space(self, space: str) -> tuple[Help, ...]:
        """Return the open requests and grants in a space, oldest first."""
        return tuple(request for request in self._open.values() if request.course == space)

    def guests(self, session_id: str) -> dict[str, float]:
        """Return who may be in a session now, and for how many more seconds."""
        return {
            request.helper: left
            for request in self.of_session(session_id)
            if request.state is HelpState.GRANTED and (left := self._left(request)) > 0
        }

    # -- what people do ------------------------------------------------------------------------

    async def ask(
        self,
        stored: StoredSpace,
        student: str,
        helper: str,
        minutes: int,
        now: float,
        server: str | None = None,
    ) -> tuple[Help, str]:
        """Request help, or begin at once if the space wants that; ``student`` owns the session on
        ``server`` (None: the one that a member has in such a space).

        The result has the URL of the session, "" while nobody may enter. A repeated request
        returns the existing one. Raises NotAllowed if help is off, InvalidRequest, NotFound if
        ``student`` is none here, Conflict if no session of theirs runs, and what the Hub refuses.
        """
        rules = self.rules_of(stored)
        if why := self.why_off(stored):
            raise NotAllowed(why)
        if minutes > rules.most_minutes:
            most = duration(60 * rules.most_minutes)
            raise InvalidRequest(f"The limit is {most}. You can ask again afterwards.", "minutes")
        rules.demand(stored, await self._roles(stored.name), student, helper)
        if stored.state is not SpaceState.APPROVED:
            raise Conflict(f"This {rules.noun} is not approved.")
        server = job_space(stored.space).server if server is None else server
        record = await self._session(stored, student, server)
        async with self._one_at_a_time:
            await self._ready(now)
            for entry in self.of_session(record.id):
                if entry.helper == helper:
                    return await self._as_it_is(entry)
            self._demand_pause(rules, record, helper)
            asked = await self.store.help.add_row(
                Help(
                    course=stored.name,
                    student=student,
                    server=server,
                    session_id=record.id,
                    helper=helper,
                    state=HelpState.ASKED,
                    minutes=minutes,
                    asked_at=now,
                )
            )
            self._take(asked, ANSWER_WITHIN)
            if rules.policy(stored) == "always":
                return await self._grant(asked, now)
        return asked, ""

    async def agree(self, help: Help, now: float) -> Help:
        """Let the helper in, for the student. Raises Conflict if the request is no longer open."""
        async with self._one_at_a_time:
            await self._ready(now)
            if self._open.get(help.id) is None or help.state is not HelpState.ASKED:
                raise Conflict("This request is no longer open.")
            granted, _ = await self._grant(help, now)
        return granted

    async def end(self, help: Help, by: str, now: float) -> Help:
        """End help, or its request, at once. A Hub or store that does not answer is told later."""
        async with self._one_at_a_time:
            await self._ready(now)
            return await self._end(help, HelpState.ENDED, by, now)

    async def refuse(self, help: Help, now: float) -> Help:
        """Refuse a request, for the student. Raises Conflict if it is no longer open."""
        async with self._one_at_a_time:
            await self._ready(now)
            if self._open.get(help.id) is None or help.state is not HelpState.ASKED:
                raise Conflict("This request is no longer open.")
            self._refusals[help.session_id, help.helper] = self.uptime()
            return await self._end(help, HelpState.REFUSED, help.student, now)

    async def end_all(self, course: str, by: str, now: float) -> None:
        """End all help in a space that is over or archived."""
        for request in self.of_space(course):
            await self.end(request, by, now)

    async def get(self, id: int, now: float) -> Help:
        """Return the open request or grant of this number. Raises NotFound."""
        async with self._one_at_a_time:
            await self._ready(now)
        if id not in self._open:
            raise NotFound(f"There is no help {id}, or it has ended.")
        return self._open[id]

    # -- by itself -----------------------------------------------------------------------------

    async def run_due(self, now: float) -> None:
        """End what is over, at ``now`` in Unix seconds. Called every few seconds. Raises
        HubUnavailable too."""
        async with self._one_at_a_time:
            await self._ready(now)
            for request in list(self._unsaved.values()):
                await self.store.help.save(request)
                del self._unsaved[request.id]
            await self._dated_anew(now)
            for request, why, rules in await self._over():
                await self._end(request, HelpState.ENDED, why, now)
                words = f"{request.helper} lost access: {why}."
                await self._note(rules, rules.ended, request, now, words)
            for share in sorted(self._to_revoke):
                await self._unshare(*share)
                if share in self._to_revoke:
                    break  # the Hub is away: each further question would wait for it
            if self.uptime() - self._shares_at >= _SHARES_EVERY:
                await self._take_back_others()
                if not self._shares_left:
                    self._shares_at = self.uptime()

    async def _over(self) -> list[tuple[Help, str, HelpRules]]:
        """Return what is over, each with the reason in words and the rules of its space."""
        if not self._open:
            return []
        living = {entry.id for entry in await self.store.sessions.living()}
        names = {entry.course for entry in self._open.values()}
        spaces = {name: await self.store.spaces.get(name) for name in names}
        roles = {name: await self._roles(name) for name in names}
        ended = []
        for entry in self._open.values():
            stored, rules = spaces[entry.course], self.rules_of(spaces[entry.course])
            if self._left(entry) <= 0:
                asked = entry.state is HelpState.ASKED
                why = rules.no_answer if asked else "the time limit was reached"
            elif entry.session_id not in living:
                why = "the session has ended"
            elif stored.state is not SpaceState.APPROVED:
                why = f"the {rules.noun} is no longer approved"
            else:
                why = rules.over(stored, roles[entry.course], entry.student, entry.helper)
            if why:
                ended.append((entry, why, rules))
        return ended

    async def _dated_anew(self, now: float) -> None:
        """Correct the ends of help after the system clock was set: pages and sessions hide help
        that seems to be over."""
        for request in list(self._open.values()):
            until = now + self._left(request)
            if request.until is not None and abs(request.until - until) > _SET:
                self._open[request.id] = request.model_copy(update={"until": until})
                await self.store.help.save(self._open[request.id])

    async def _take_back_others(self) -> None:
        """Revoke every share of a space's server that is not current help. Raises
        HubUnavailable."""
        granted = self._granted()
        shares = await self.hub.shares()
        self._shares_left = False
        for user, server, person in shares:
            if (user, server, person) not in granted:
                self.log.warning(
                    "%s has a share of %s/%s that belongs to no help", person, user, server
                )
                await self._unshare(user, server, person)

    # -- pieces --------------------------------------------------------------------------------

    async def _ready(self, now: float) -> None:
        """Load what was open before this service began. A clock that was set meanwhile prolongs
        none of it."""
        if not self._known:
            for request in await self.store.help.open():
                whole = ANSWER_WITHIN if request.until is None else 60.0 * request.minutes
                until = request.asked_at + ANSWER_WITHIN if request.until is None else request.until
                self._take(request, min(until - now, whole))
            # The service may have stopped before the Hub could take these back.
            over = await self.store.help.ended_since(now - _RECENT)
            self._to_revoke |= {share_of(request) for request in over} - self._granted()
            self._known = True

    def _granted(self) -> set[tuple[str, str, str]]:
        """Return the shares that are current help."""
        return {share_of(each) for each in self._open.values() if each.state is HelpState.GRANTED}

    async def _roles(self, space: str) -> dict[str, Role]:
        """Return the roles of a space's members by name."""
        members = await self.store.spaces.members_of(space)
        return {member.person: member.role for member in members}

    def _demand_pause(self, rules: HelpRules, record: SessionRecord, helper: str) -> None:
        """Raise Conflict while a refusal stands."""
        self._refusals = {
            key: at for key, at in self._refusals.items() if self.uptime() - at < rules.pause
        }
        if (record.id, helper) in self._refusals:
            raise Conflict(
                f"{record.user} has refused this. You can ask again in {duration(rules.pause)}."
            )

    def _take(self, help: Help, seconds: float) -> None:
        """Keep it open for ``seconds`` from now."""
        self._open[help.id], self._ends[help.id] = help, self.uptime() + seconds

    def _left(self, help: Help) -> float:
        """Return the seconds for which it stays open; 0 or less if it is over."""
        return self._ends.get(help.id, float("-inf")) - self.uptime()

    async def _session(self, stored: StoredSpace, student: str, server: str) -> SessionRecord:
        records, _ = await self.store.sessions.find(user=student, ended=False, limit=100)
        for record in records:
            is_of_space = (record.server, record.space) == (server, stored.name)
            if is_of_space and is_own(record) and record.state is SessionState.RUNNING:
                return record
        raise Conflict(f"{student} has no running session of this {stored.space.noun}.")

    async def _as_it_is(self, help: Help) -> tuple[Help, str]:
        if help.state is HelpState.ASKED:
            return help, ""
        return help, await self.hub.share(help.student, help.server, help.helper)

    async def _grant(self, help: Help, now: float) -> tuple[Help, str]:
        until = now + 60 * help.minutes
        rules = self.rules_of(await self.store.spaces.get(help.course))
        new = {"state": HelpState.GRANTED, "granted_at": now, "until": until}
        granted = help.model_copy(update=new)
        await self.store.help.save(granted)
        self._to_revoke.discard(share_of(help))
        try:
            url = await self.hub.share(help.student, help.server, help.helper)
        except PortalError:
            await self._end(granted, HelpState.ENDED, "the Hub refused the share", now)
            raise
        self._take(granted, 60.0 * help.minutes)
        words = f"{help.helper} can see and use this session for {duration(60 * help.minutes)}."
        await self._note(rules, rules.granted, granted, now, words)
        return granted, url

    async def _end(self, help: Help, state: HelpState, by: str, now: float) -> Help:
        """Remove it from memory first: from then on the session lets nobody in."""
        self._open.pop(help.id, None)
        self._ends.pop(help.id, None)
        ended = help.model_copy(update={"state": state, "ended_at": now, "ended_by": by})
        self._unsaved[help.id] = ended
        try:
            await self.store.help.save(ended)
            del self._unsaved[help.id]
        except PortalError as error:
            self.log.warning("The end of help %d could not be stored yet: %s", help.id, error)
        if help.state is HelpState.GRANTED:
            await self._unshare(help.student, help.server, help.helper)
        return ended

    async def _unshare(self, user: str, server: str, person: str) -> None:
        """Revoke the share; if the Hub is away, again at the next look: the server may be one of no
        space by then, whose shares are not looked for."""
        self._to_revoke.discard((user, server, person))
        try:
            await self.hub.unshare(user, server, person)
        except NotFound:
            pass  # the server, and the share with it, is gone
        except PortalError as error:
            self._to_revoke.add((user, server, person))
            self._shares_left, self._shares_at = True, float("-inf")
            self.log.warning("The share of %s/%s could not be removed: %s", user, server, error)

    async def _note(
        self, rules: HelpRules, action: AuditedAction, help: Help, now: float, detail: str
    ) -> None:
        await self.note(
            AuditEntry(
                at=now,
                actor=PORTAL,
                action=action,
                target=f"session {help.session_id}",
                owner=help.student,
                outcome=Outcome.DONE,
                detail=f"{rules.noun.capitalize()} {help.course}. {detail}",
            )
        )


def share_of(help: Help) -> tuple[str, str, str]:
    """Return the owner, the server and the guest of the Hub's share."""
    return help.student, help.server, help.helper
