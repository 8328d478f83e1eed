"""Routes by which the portal's service lets a helper into one session of a course, and out.

JupyterHub's own route for shares requires a caller who may enter the server itself: the service
would need ``access:servers`` for everyone's, and ``tokens`` for ending a login. Here it needs
neither. Its requests are checked once more: the server is a course's, of a student of that course,
and the guest is of its staff. The result is JupyterHub's share of that one server.
"""

from __future__ import annotations

from jupyterhub import orm

from portal.errors import NotAllowed, NotFound, PortalError
from portal.models.course.course import STAFF, Role

from ..context import HubContext
from .moves import MovesBase

_PREFIX = "course-"


class GuestsHandler(MovesBase):
    """``GET /hub/api/portal/guests``: every share of a course's server."""

    def get(self) -> None:
        rows = self.db.query(orm.Share).join(orm.Spawner, orm.Share.spawner_id == orm.Spawner.id)
        shares = [
            {
                "user": share.spawner.user.name,
                "server": share.spawner.name,
                "person": share.user.name,
            }
            for share in rows.filter(orm.Spawner.name.startswith(_PREFIX, autoescape=True))
            if share.user is not None
        ]
        self.answer({"shares": shares})


class GuestHandler(MovesBase):
    """``/hub/api/portal/guests/USER/SERVER/PERSON``: let a person in (PUT), and out (DELETE)."""

    async def put(self, user: str, server: str, person: str) -> None:
        try:
            spawner, guest = self._found(user, server, person)
            await self._judge(user, server, person)
        except PortalError as error:
            self.refuse(error)
            return
        orm.Share.grant(self.db, spawner, guest)
        url = self.find_user(user).server_url(server)
        self.answer({"url": url})

    async def delete(self, user: str, server: str, person: str) -> None:
        try:
            spawner, guest = self._found(user, server, person)
        except PortalError as error:
            self.refuse(error)
            return
        orm.Share.revoke(self.db, spawner, guest)
        if spawner.oauth_client is not None:
            # Otherwise the browser's cookie stays valid for as long as the session remembers it.
            for row in (orm.APIToken, orm.OAuthCode):
                self.db.query(row).filter(
                    row.client_id == spawner.oauth_client.identifier, row.user_id == guest.id
                ).delete(synchronize_session="fetch")
            self.db.commit()
        self.set_status(204)

    def _found(self, user: str, server: str, person: str) -> tuple[orm.Spawner, orm.User]:
        """Return the server and the guest from the Hub's database. Raises NotFound."""
        owner = orm.User.find(self.db, user)
        spawner = owner.orm_spawners.get(server) if owner else None
        guest = orm.User.find(self.db, person)
        if spawner is None or not server.startswith(_PREFIX):
            raise NotFound("There is no such course session.")
        if guest is None:
            raise NotFound(f"The Hub has no user '{person}'.")
        return spawner, guest

    async def _judge(self, user: str, server: str, person: str) -> None:
        """Raise NotAllowed unless the course's staff helps a student of it; StoreUnavailable."""
        memberships = HubContext.instance(self.config).memberships
        name = server.removeprefix(_PREFIX)
        roles = {
            (member.person, member.role)
            for who in (user, person)
            for member in await memberships.of_user(who, fresh=True)
            if member.course == name
        }
        if (user, Role.STUDENT) not in roles or not roles & {(person, role) for role in STAFF}:
            raise NotAllowed(f"'{person}' is not allowed to help '{user}' in the course '{name}'.")
