"""Routes by which the portal's service lets a helper into one session of a space, and out.

JupyterHub's own route for shares requires a caller who may enter the server itself: the service
would need ``access:servers`` for everyone's, and ``tokens`` for ending a login. Here it needs
neither. Its requests are checked once more: the server is a space's, and its guest may ask for
access to that member's session by the rule of the space's type (``JobSpace.may_help``). The result
is JupyterHub's share of that one server.
"""

from __future__ import annotations

from jupyterhub import orm

from portal.errors import NotAllowed, NotFound, PortalError
from portal.launch.kinds import USUAL
from portal.spaces.registry import SPACES, space_nouns

from ..context import HubContext
from ..session import kind_of_row, space_of_row
from .moves import MovesBase


class GuestsHandler(MovesBase):
    """``GET /hub/api/portal/guests``: every share of a member's server in a space."""

    def get(self) -> None:
        rows = self.db.query(orm.Share).join(orm.Spawner, orm.Share.spawner_id == orm.Spawner.id)
        shares = [
            {
                "user": share.spawner.user.name,
                "server": share.spawner.name,
                "person": share.user.name,
            }
            for share in rows
            if share.user is not None and _space_of(share.spawner)
        ]
        self.answer({"shares": shares})


class GuestHandler(MovesBase):
    """``/hub/api/portal/guests/USER/SERVER/PERSON``: let a person in (PUT), and out (DELETE)."""

    async def put(self, user: str, server: str, person: str) -> None:
        try:
            spawner, guest = self._found(user, server, person)
            if not _space_of(spawner):
                raise _none()
            await self._check(user, spawner, person)
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
        """Return the server, whose session is a space's no longer if another has begun on it, and
        the guest from the Hub's database. Raises NotFound."""
        owner = orm.User.find(self.db, user)
        spawner = owner.orm_spawners.get(server) if owner else None
        guest = orm.User.find(self.db, person)
        if spawner is None:
            raise _none()
        if guest is None:
            raise NotFound(f"The Hub has no user '{person}'.")
        return spawner, guest

    async def _check(self, user: str, spawner: orm.Spawner, person: str) -> None:
        """Raise NotAllowed unless the space's rule lets this guest ask; StoreUnavailable."""
        memberships = HubContext.instance(self.config).memberships
        name, found = _space_of(spawner), {}
        for who in (user, person):
            for member in await memberships.of_user(who, fresh=True):
                if member.space == name:
                    found[who] = member
        owner, guest = found.get(user), found.get(person)
        types = [each for each in SPACES if owner is not None and each.noun == owner.noun]
        if not owner or not guest or not any(t.may_help(guest.role, owner.role) for t in types):
            raise NotAllowed(
                f"'{person}' is not allowed to help '{user}' in the {space_nouns()} '{name}'."
            )


def _none() -> NotFound:
    return NotFound(f"There is no such {space_nouns()} session.")


def _space_of(spawner: orm.Spawner) -> str:
    """Return the space of a member's own session; "" for other servers."""
    return space_of_row(spawner) if kind_of_row(spawner) is USUAL else ""
