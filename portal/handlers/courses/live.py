"""Messages, raised hands and help in a course's sessions.

From the staff's pages and from the sessions themselves.
"""

from __future__ import annotations

import time
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from portal.courses.live import messages
from portal.courses.live.presence import (
    PresenceReport,
    is_own,
    is_present,
    is_room,
    lowered,
    presence_of,
    raised,
)
from portal.errors import Conflict, NotFound
from portal.models import Frozen
from portal.models.course.audit import CourseAudit
from portal.models.course.live import CourseMessage, Help, HelpState
from portal.models.plain_text import PLAIN_TEXT
from portal.models.session.session import SessionRecord
from portal.models.words import duration
from portal.work.course.parts import CourseParts

from ..base.endpoint import Operation
from ..base.entry import ServerAddress, enter
from ..base.own_session import OwnSession
from .access import CourseAction

PERSON = r"[^\s\x00-\x1f\x7f,:/]{1,255}"
_ID = "[0-9]{1,9}"


class MessageDraft(Frozen):
    """Message to a course: plain text, shown for ``minutes``."""

    text: Annotated[
        str, StringConstraints(min_length=1, max_length=1000, strip_whitespace=True), *PLAIN_TEXT
    ]
    minutes: Annotated[int, Field(ge=1, le=24 * 60)] = 60


class MessageList(Frozen):
    """Messages to a course, the newest first."""

    items: tuple[CourseMessage, ...]


class HelpDraft(Frozen):
    """Time for which a helper requests access."""

    minutes: Annotated[int, Field(ge=1, le=8 * 60)] = 15


class HelpAnswer(Frozen):
    """State of the help. ``url``: the session's address for the helper, "" until it is granted."""

    help: Help
    url: str = ""


class HelpList(Frozen):
    """Requested and granted help, oldest first, and past help, newest first.

    ``policy`` is "ask", "always" or "off"; ``why_off`` says why help is not possible.
    """

    open: tuple[Help, ...]
    over: tuple[Help, ...]
    policy: str
    why_off: str
    most_minutes: int


class HandDraft(Frozen):
    """Question of a raised hand."""

    text: Annotated[str, StringConstraints(max_length=300, strip_whitespace=True), *PLAIN_TEXT] = ""


class HelpReply(Frozen):
    """Reply to a helper from the owner of the session."""

    answer: Literal["agree", "refuse", "end"]


class Guest(Frozen):
    """User who may enter another user's session for ``seconds`` more."""

    person: str
    seconds: float


class GuestList(Frozen):
    """Users in addition to its owner who may enter the calling session."""

    guests: tuple[Guest, ...]


# -- the staff's --------------------------------------------------------------------------------


class CourseMessages(CourseAction):
    """Messages to a course."""

    path = "courses/{course}/messages"

    @Operation("The messages to a course.")
    async def on_get(self, course: str) -> MessageList:
        """Return the newest hundred to the course's staff, including those that are over."""
        return MessageList(items=tuple(await self.parts.store.course_messages.of_course(course)))

    @Operation(
        "Send a message to everyone in a course.", body=MessageDraft, status=201, errors=(409,)
    )
    async def on_post(self, course: str) -> CourseMessage:
        """Show it in JupyterLab, in every session of the course within seconds.

        It stays until its minutes are over or it is withdrawn.
        """
        draft, store, by = self.body, self.parts.store, self.person.name
        async with self.audited(CourseAudit.MESSAGE_COURSE, f"course {course}", detail=draft.text):
            message = await messages.post(store, course, draft.text, draft.minutes, by, time.time())
        self.parts_for(CourseParts).course_situations.forget()
        return message


class OneCourseMessage(CourseAction):
    """Message by its id."""

    path = "courses/{course}/messages/{message_id}"
    parameters = {**CourseAction.parameters, "message_id": _ID}

    @Operation("Withdraw a message to a course.")
    async def on_delete(self, course: str, message_id: str) -> None:
        """Hide it from sessions, and keep it in the list."""
        what = f"Message {message_id}."
        async with self.audited(CourseAudit.WITHDRAW_MESSAGE, f"course {course}", detail=what):
            table = self.parts.store.course_messages
            await table.withdraw(course, int(message_id), time.time())
        self.parts_for(CourseParts).course_situations.forget()


class CourseHand(CourseAction):
    """Raised hand of a member."""

    path = "courses/{course}/people/{person}/hand"
    parameters = {**CourseAction.parameters, "person": PERSON}
    admins = False

    @Operation("Lower a student's raised hand.")
    async def on_delete(self, course: str, person: str) -> None:
        """Lower it as one of the course's staff; no effect if no hand is raised."""
        async with self.audited(CourseAudit.LOWER_HAND, f"course {course}", person):
            await self.parts.store.presence.lower_hand(course, person)
        self.parts_for(CourseParts).course_situations.forget()


class CoursePersonHelp(CourseAction):
    """Help for a student."""

    path = "courses/{course}/people/{person}/help"
    parameters = {**CourseAction.parameters, "person": PERSON}
    admins = False

    @Operation(
        "Request to help a student in their running session.",
        body=HelpDraft,
        status=202,
        errors=(409,),
    )
    async def on_post(self, course: str, person: str) -> HelpAnswer:
        """Ask as one of the course's staff; the rights of an admin are not enough.

        The student agrees in JupyterLab, unless the course waives consent. Repeat the request to
        learn its state and, once help is granted, the session's address. Help expires by itself.
        """
        minutes, helper = self.body.minutes, self.person.name
        detail = f"Course {course}, for {duration(60 * minutes)}."
        async with self.audited(
            CourseAudit.ASK_TO_HELP, f"course {course}", person, detail
        ) as line:
            help, url = await self.parts_for(CourseParts).helping.ask(
                self.stored, person, helper, minutes, time.time()
            )
            line.target = f"session {help.session_id}"
        return HelpAnswer(help=help, url=url)


class CourseHelp(CourseAction):
    """Help in a course."""

    path = "courses/{course}/help"

    @Operation("Current and past help in a course.")
    async def on_get(self, course: str) -> HelpList:
        """Return it to the course's staff. ``over`` holds the newest hundred."""
        helping = self.parts_for(CourseParts).helping
        open_ = helping.of_course(course)
        going = {entry.id for entry in open_}
        recorded = await self.parts.store.help.of_course(course)
        return HelpList(
            open=open_,
            over=tuple(entry for entry in recorded if entry.id not in going),
            policy=helping.policy(self.stored),
            why_off=helping.why_off(self.stored),
            most_minutes=self.parts_for(CourseParts).settings.help_minutes,
        )


class OneCourseHelp(CourseAction):
    """Base class for help by its number."""

    parameters = {**CourseAction.parameters, "help_id": _ID}

    async def help(self, course: str, help_id: str) -> Help:
        """Return the open request or grant. Raises NotFound if the course has none."""
        help = await self.parts_for(CourseParts).helping.get(int(help_id), time.time())
        if help.course != course:
            raise NotFound(f"There is no help {help_id} in this course, or it has ended.")
        return help


class EnterCourseHelp(OneCourseHelp):
    """Entrance of a helper."""

    path = "courses/{course}/help/{help_id}/enter"
    admins = False

    @Operation("Open the session of a student who has agreed to help.", errors=(409,))
    async def on_post(self, course: str, help_id: str) -> ServerAddress:
        """Open it from the portal's page, as the helper. The Hub then asks nothing.

        Programs get the address from the request for help.
        """
        help = await self.help(course, help_id)
        if help.helper != self.person.name or help.state is not HelpState.GRANTED:
            raise Conflict(f"{help.student} has not agreed to help from you.")
        return await enter(self, help.student, help.server)


class EndCourseHelp(OneCourseHelp):
    """End of help for a student."""

    path = "courses/{course}/help/{help_id}/end"

    @Operation("End help in a student's session, or cancel the request.")
    async def on_post(self, course: str, help_id: str) -> Help:
        """End it as any of the course's staff. The helper loses access at once."""
        help = await self.help(course, help_id)
        async with self.audited(CourseAudit.END_HELP, f"session {help.session_id}", help.student):
            helping = self.parts_for(CourseParts).helping
            return await helping.end(help, self.person.name, time.time())


# -- the sessions' ------------------------------------------------------------------------------


class OwnCourseSession(OwnSession):
    """Base class for sessions of a course."""

    async def of_course(self) -> SessionRecord:
        """Return the session. Raises Conflict if it is of no course; as ``own_record``."""
        record = await self.own_record()
        if not is_present(record):
            raise Conflict("This session does not belong to a course.")
        return record


class OwnPresence(OwnCourseSession):
    """Presence in the session that asks."""

    path = "session/presence"

    @Operation(
        "Report what is open in this session, and since when.", body=PresenceReport, errors=(409,)
    )
    async def on_put(self) -> None:
        """Use the session's own token only.

        Reports of course sessions are kept and, of rooms, the users who are in them; those of
        rehearsals and previews are ignored.
        """
        record = await self.of_course()
        if is_own(record):
            store, now = self.parts.store, time.time()
            await store.presence.save_report(presence_of(record, self.body, now))
            if self.body.opened is not None and await _absent(self, record):
                await store.members.join(record.space, record.user, now)
                self.parts.memberships.forget()
        elif is_room(record):
            self.parts_for(CourseParts).rooms.record_people(record, self.body.people)


async def _absent(handler: OwnCourseSession, record: SessionRecord) -> bool:
    """Return True if the owner is in the course and had not joined it before opening this."""
    memberships = await handler.parts.memberships.of_type("course").of_user(record.user)
    return any(
        membership.space == record.space and membership.joined_at is None
        for membership in memberships
    )


class OwnHand(OwnCourseSession):
    """Raised hand of the session's owner."""

    path = "session/hand"

    @Operation("Raise the hand of this session's owner.", body=HandDraft, errors=(409,))
    async def on_put(self) -> None:
        """Use the session's own token only. The course's staff see it until it is lowered."""
        record = await self.of_course()
        if not is_own(record):
            raise Conflict("You can raise your hand only in your own course session.")
        text = self.body.text or "Asks for help."
        await self.parts.store.presence.raise_hand(raised(record, text, time.time()))
        self.parts_for(CourseParts).course_situations.forget()

    @Operation("Lower the hand of this session's owner.", errors=(409,))
    async def on_delete(self) -> None:
        """Use the session's own token only."""
        record = await self.of_course()
        if is_own(record):
            await self.parts.store.presence.raise_hand(lowered(record, time.time()))
            self.parts_for(CourseParts).course_situations.forget()


_REPLIES = {
    "agree": CourseAudit.AGREE_TO_HELP,
    "refuse": CourseAudit.REFUSE_HELP,
    "end": CourseAudit.END_HELP,
}


class OwnHelp(OwnCourseSession):
    """Reply of the session's owner to a helper."""

    path = "session/help/{help_id}"
    parameters = {"help_id": _ID}

    @Operation("Accept, refuse or end help in this session.", body=HelpReply, errors=(409,))
    async def on_post(self, help_id: str) -> Help:
        """Use the session's own token only. "end" is always possible; access ends at once."""
        record = await self.of_course()
        helping, now, answer = self.parts_for(CourseParts).helping, time.time(), self.body.answer
        help = await helping.get(int(help_id), now)
        if help.session_id != record.id:
            raise NotFound(f"There is no help {help_id} in this session, or it has ended.")
        detail = f"{help.helper}, course {help.course}."
        async with self.audited(_REPLIES[answer], f"session {record.id}", record.user, detail):
            if answer == "agree":
                return await helping.agree(help, now)
            if answer == "refuse" and help.state is HelpState.ASKED:
                return await helping.refuse(help, now)
            return await helping.end(help, self.person.name, now)


class OwnGuests(OwnCourseSession):
    """People who may be in the session."""

    path = "session/guests"

    @Operation("Users in addition to the owner who may enter this session.", errors=(409,))
    async def on_get(self) -> GuestList:
        """Use the session's own token only. Its server refuses all other users."""
        record, now = await self.of_course(), time.time()
        if is_room(record):
            guests = await self.parts_for(CourseParts).rooms.guests(record, now)
        else:
            guests = self.parts_for(CourseParts).helping.guests(record.id)
        return GuestList(
            guests=tuple(Guest(person=who, seconds=left) for who, left in guests.items())
        )


ENDPOINTS = (
    CourseMessages,
    OneCourseMessage,
    CourseHand,
    CoursePersonHelp,
    CourseHelp,
    EnterCourseHelp,
    EndCourseHelp,
    OwnPresence,
    OwnHand,
    OwnHelp,
    OwnGuests,
)
