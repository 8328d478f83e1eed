"""Visits: a member in another member's session of the project, by consent and with an end.

The service's help in spaces (`Helping`) does it: these are its rules, and what pages and sessions
are told. A session of a project has its owner's own home, so a visitor acts as the owner in all of
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from portal.errors import InvalidRequest, NotAllowed, NotFound
from portal.launch.kinds.jupyterlab import JupyterLab
from portal.models.session.session import SessionRecord, SessionState
from portal.models.situation import ProjectSituation
from portal.models.space import Role, StoredSpace
from portal.spaces.help_rules import HelpRules

from ..audit import ProjectAudit
from ..models import WORKERS

if TYPE_CHECKING:
    from portal.assembly import Services


class VisitRules(HelpRules):
    """Rules of projects: the owner of a session is always asked."""

    noun = "project"
    granted, ended = ProjectAudit.GRANT_VISIT, ProjectAudit.END_VISIT
    agreed, refused = ProjectAudit.AGREE_TO_VISIT, ProjectAudit.REFUSE_VISIT
    no_answer = "the owner of the session did not answer"
    no_subdomains = (
        "Visits are off at this site: without subdomains (JupyterHub.subdomain_host), code in a "
        "colleague's session could act with the permissions of the visitor. An admin of the portal "
        "can enable subdomains."
    )
    pause = 300.0  # a colleague who said no is not asked again and again

    def demand(
        self, stored: StoredSpace, roles: Mapping[str, Role], owner: str, helper: str
    ) -> None:
        if owner == helper:
            raise InvalidRequest("This is your own session. Open it on the Sessions page.", "user")
        if roles.get(helper) not in WORKERS:
            raise NotAllowed(
                f"Only members and owners of the {stored.space.called} open a colleague's session. "
                f"Ask its {stored.space.leader} to make you a member."
            )
        if owner not in roles:
            raise NotFound(f"'{owner}' is not a member of this project.")

    def over(self, stored: StoredSpace, roles: Mapping[str, Role], owner: str, helper: str) -> str:
        if roles.get(helper) not in WORKERS:
            return f"{helper} is no longer a member who may visit"
        return "" if owner in roles else f"{owner} is no longer a member of the project"


class Visits:
    """Visits in projects, by the service's one `Helping`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @property
    def helping(self) -> Any:
        """The service's one `Helping`, which takes back what is no help in any space."""
        features = self._services.of_features.values()
        return next(made.helping for made in features if hasattr(made, "helping"))

    async def open_to_questions(self, stored: StoredSpace, person: str) -> list[SessionRecord]:
        """Return the sessions of other members that ``person``, a member, can ask to open now.
        Raises StoreUnavailable."""
        if self.helping.why_off(stored):
            return []
        store = self._services.store
        members = {member.person for member in await store.spaces.members_of(stored.name)}
        return [
            record
            for record in await store.sessions.living()
            if record.space == stored.name
            and record.state is SessionState.RUNNING
            and record.work == JupyterLab.name
            and record.user in members - {person}
        ]

    def status_of(self, record: SessionRecord) -> dict[str, Any]:
        """Return what a session is told of its visits."""
        stored = self._services.memberships.of_type("project").known_space(record.space)
        if stored is None or not (visits := self.helping.of_session(record.id)):
            return {}
        told = ProjectSituation(name=stored.name, title=stored.space.title, help=visits)
        return {"project": told}
