"""``api/v1/projects/{project}/members`` and below: who is in a project, and who leads it."""

from __future__ import annotations

from portal.errors import InvalidRequest
from portal.handlers.base.endpoint import Operation
from portal.models.scope import PROJECTS_MANAGE

from .access import EVERYONE, ProjectAction
from .audit import ProjectAudit
from .bodies import HandOver, MemberQuery, ProjectDetail, WantedMembers
from .members import MOST


class ProjectPeople(ProjectAction):
    """Members of a project."""

    path = "projects/{project}/members"

    @Operation("Add members, or change their role.", body=WantedMembers, errors=(409,))
    async def on_post(self, project: str) -> ProjectDetail:
        """Give all of these people the role. A member who becomes a reader has a minute to save
        their work; then their sessions of the project are stopped."""
        asked: WantedMembers = self.body
        async with self.audited(ProjectAudit.SET_PROJECT_MEMBERS, f"project {project}") as line:
            parts, free = self.project_parts, self.may(PROJECTS_MANAGE)
            most = MOST if free else parts.settings.largest_members
            new = await parts.members.put(
                self.stored, asked.people, asked.role, self.person.name, most
            )
            line.detail = f"Now {asked.role}: {', '.join(new) or 'nobody new'}."
        return await self.detail(self.stored)

    @Operation("Remove a member.", query=MemberQuery, errors=(409,))
    async def on_delete(self, project: str) -> ProjectDetail:
        """Remove them from the project. Their files stay; their sessions of the project are stopped
        after a warning."""
        person = self.query.person
        async with self.audited(ProjectAudit.REMOVE_PROJECT_MEMBER, f"project {project}", person):
            await self.project_parts.members.remove(self.stored, person)
        return await self.detail(self.stored)


class ProjectLeave(ProjectAction):
    """Leaving of a project."""

    path = "projects/{project}/leave"
    changers = EVERYONE
    admins = False

    @Operation("Leave a project.", status=204, errors=(409,))
    async def on_post(self, project: str) -> None:
        """Stop being a member. The last owner hands it over first."""
        name = self.person.name
        async with self.audited(ProjectAudit.LEAVE_PROJECT, f"project {project}", name):
            await self.project_parts.members.remove(self.stored, name)


class ProjectHandOver(ProjectAction):
    """Handing over of a project."""

    path = "projects/{project}/hand-over"

    @Operation("Hand a project over.", body=HandOver, errors=(409,))
    async def on_post(self, project: str) -> ProjectDetail:
        """Make another user an owner; you stay as a member. An admin names the owner who hands
        over, such as one who left."""
        asked: HandOver = self.body
        giver = asked.giver or self.person.name
        async with self.audited(
            ProjectAudit.HAND_OVER_PROJECT,
            f"project {project}",
            giver,
            f"To {asked.person}.",
        ):
            if giver != self.person.name and not self.may(PROJECTS_MANAGE):
                raise InvalidRequest("You can hand over only what you own yourself.", "giver")
            members = self.project_parts.members
            await members.hand_over(self.stored, giver, asked.person, self.person.name)
        return await self.detail(self.stored)


ENDPOINTS = (ProjectPeople, ProjectLeave, ProjectHandOver)
