"""Base class of endpoints for a single project: who may use them."""

from __future__ import annotations

from typing import ClassVar

from portal.handlers.base.space_action import SpaceAction
from portal.models.scope import PROJECTS_MANAGE
from portal.models.space import Role

from .bodies import ProjectDetail
from .models import PROJECT, StoredProject
from .parts import ProjectParts
from .view import detail_of

EVERYONE = frozenset({Role.OWNER, Role.MEMBER, Role.READER})
OWNERS = frozenset({Role.OWNER})
NOBODY: frozenset[Role] = frozenset()  # admins alone, by their scope


class ProjectAction(SpaceAction):
    """Base class below ``projects/{project}``: all in it may GET, and owners change, unless it says
    otherwise."""

    noun = "project"
    manages = PROJECTS_MANAGE
    parameters: ClassVar[dict[str, str]] = {"project": PROJECT}
    roles: ClassVar[frozenset[Role]] = EVERYONE
    changers: ClassVar[frozenset[Role] | None] = OWNERS

    stored: StoredProject

    async def detail(self, stored: StoredProject) -> ProjectDetail:
        """Return the project as this person sees it."""
        return await detail_of(self.project_parts, self.parts.store, stored, self.person)

    @property
    def project_parts(self) -> ProjectParts:
        """Objects for projects."""
        return self.parts_for(ProjectParts)
