"""``api/v1/projects/{project}/visits`` and below: a colleague's session, opened by consent."""

from __future__ import annotations

import time
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from portal.errors import Conflict, NotAllowed, NotFound
from portal.handlers.base.endpoint import Operation
from portal.handlers.base.entry import ServerAddress, enter
from portal.models import Frozen
from portal.models.audit import Outcome
from portal.models.help import HelpState, SpaceHelp
from portal.models.scope import PROJECTS_MANAGE
from portal.models.space import Login, Role, SpaceState
from portal.models.words import duration

from ..access import EVERYONE, ProjectAction
from ..audit import ProjectAudit
from ..models import WORKERS

_ID = "[0-9]{1,9}"


class VisitDraft(Frozen):
    """Session of ``user`` on ``server`` ("": the default one) that you ask to open, for a time."""

    user: Login
    server: Annotated[str, StringConstraints(max_length=255)] = ""
    minutes: Annotated[int, Field(ge=1, le=60, strict=True)] = 15


class Visit(Frozen):
    """Request to open a session of ``user``, or visit. ``until``: its end, null while asked;
    ``yours``: it is your session."""

    id: int
    user: str
    server: str
    visitor: str
    state: HelpState
    minutes: int
    asked_at: float
    until: float | None
    yours: bool

    @classmethod
    def as_seen(cls, help: SpaceHelp, person: str) -> Visit:
        """Return what is kept of it, as this person sees it."""
        shared: dict[str, Any] = help.model_dump(include=set(cls.model_fields))
        return cls(
            **shared,
            user=help.student,
            visitor=help.helper,
            yours=person == help.student,
        )


class VisitableSession(Frozen):
    """Session that you can ask its owner to open."""

    user: str
    server: str


class VisitList(Frozen):
    """Requests and visits that concern you, oldest first. ``why_off``: why there are none at this
    site; ``sessions``: those that you can ask to open now."""

    visits: tuple[Visit, ...]
    why_off: str
    most_minutes: int
    sessions: tuple[VisitableSession, ...]


class ProjectVisits(ProjectAction):
    """Visits in a project's sessions."""

    path = "projects/{project}/visits"
    changers = WORKERS  # the rules refuse an admin who is none

    @Operation("Requests to open sessions of a project, and visits.")
    async def on_get(self, project: str) -> VisitList:
        """Return those in your own sessions, and your own in others'. The session tells its owner,
        too."""
        visits, name = self.project_parts.visits, self.person.name
        asks = self.role in WORKERS and self.stored.state is SpaceState.APPROVED
        records = await visits.open_to_questions(self.stored, name) if asks else ()
        return VisitList(
            visits=tuple(
                Visit.as_seen(help, name)
                for help in visits.helping.of_space(project)
                if name in (help.student, help.helper)
            ),
            why_off=visits.helping.why_off(self.stored),
            most_minutes=visits.helping.rules_of(self.stored).most_minutes,
            sessions=tuple(VisitableSession(user=r.user, server=r.server) for r in records),
        )

    @Operation(
        "Ask a member to open their running session.", body=VisitDraft, status=202, errors=(409,)
    )
    async def on_post(self, project: str) -> Visit:
        """Ask as a member or an owner. The owner of the session agrees or refuses in JupyterLab.
        Repeat the request to learn its state; a visit ends by itself."""
        asked: VisitDraft = self.body
        detail = f"Project {project}, for {duration(60 * asked.minutes)}."
        async with self.audited(
            ProjectAudit.ASK_TO_VISIT, f"project {project}", asked.user, detail
        ) as line:
            help, _ = await self.project_parts.visits.helping.ask(
                await self.fresh(),
                *(asked.user, self.person.name, asked.minutes, time.time()),
                server=asked.server,
            )
            line.target = f"session {help.session_id}"
        return Visit.as_seen(help, self.person.name)


class OneProjectVisit(ProjectAction):
    """Base class for a visit by its number."""

    parameters = {**ProjectAction.parameters, "visit_id": _ID}

    async def visit(self, project: str, visit_id: str) -> SpaceHelp:
        """Return the open request or visit. Raises NotFound if the project has none."""
        try:
            help: SpaceHelp | None = await self.project_parts.visits.helping.get(
                int(visit_id), time.time()
            )
        except NotFound:
            help = None
        if help is None or help.space != project:
            raise NotFound(f"There is no visit {visit_id} in this project, or it has ended.")
        return help


class EnterProjectVisit(OneProjectVisit):
    """Entrance of a visitor."""

    path = "projects/{project}/visits/{visit_id}/enter"
    changers = WORKERS
    admins = False

    @Operation("Open the session of a member who has agreed.", errors=(409,))
    async def on_post(self, project: str, visit_id: str) -> ServerAddress:
        """Open it from the portal's page, as the visitor. The Hub then asks nothing."""
        help = await self.visit(project, visit_id)
        if help.helper != self.person.name or help.state is not HelpState.GRANTED:
            raise Conflict(f"{help.student} has not agreed that you open this session.")
        target = f"session {help.session_id}"
        async with self.audited(ProjectAudit.ENTER_VISIT, target, help.student):
            return await enter(self, help.student, help.server)


class EndProjectVisit(OneProjectVisit):
    """End of a visit."""

    path = "projects/{project}/visits/{visit_id}/end"
    changers = EVERYONE

    @Operation("End a visit, or cancel or refuse the request.", errors=(409,))
    async def on_post(self, project: str, visit_id: str) -> None:
        """End it as the visitor, the owner of the session, an owner of the project or an admin. The
        visitor loses access at once."""
        help = await self.visit(project, visit_id)
        own = self.person.name in (help.student, help.helper)
        helping, target = self.project_parts.visits.helping, f"session {help.session_id}"
        if help.student == self.person.name and help.state is HelpState.ASKED:
            async with self.audited(ProjectAudit.REFUSE_VISIT, target, help.student):
                await helping.refuse(help, time.time())
            return
        if not (own or self.role is Role.OWNER or self.may(PROJECTS_MANAGE)):
            await self.parts.audit(
                self, ProjectAudit.END_VISIT, target, owner=help.student, outcome=Outcome.REFUSED
            )
            raise NotAllowed(
                "Only the visitor, the owner of the session and of the project end it."
            )
        async with self.audited(ProjectAudit.END_VISIT, target, help.student):
            await helping.end(help, self.person.name, time.time())


ENDPOINTS = (ProjectVisits, EnterProjectVisit, EndProjectVisit)
