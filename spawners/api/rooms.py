"""Routes by which the portal's service lets the members of a space into its room, and out.

A room is a server of somebody of the space's staff. It is shared with each of the space's
members, by JupyterHub's share of that one server. Not with the space's group: a login (an OAuth
token) has the shares of its owner and not those of the owner's groups (jupyterhub/scopes.py,
get_scopes_for, in 6.1.1).
"""

from __future__ import annotations

import asyncio

from jupyterhub import orm

from portal.errors import NotAllowed, NotFound, PortalError
from portal.launch.kinds import Address, reserved_for
from portal.models.space import STAFF
from portal.spaces.registry import space_nouns

from ..context import HubContext
from .moves import MovesBase


class RoomsHandler(MovesBase):
    """``GET /hub/api/portal/rooms``: rooms that are shared with somebody."""

    def get(self) -> None:
        rows = self.db.query(orm.Share).join(orm.Spawner, orm.Share.spawner_id == orm.Spawner.id)
        rooms = {
            (share.spawner.user.name, share.spawner.name)
            for share in rows
            if _is_room(share.spawner.name)
        }
        self.answer({"rooms": [{"user": user, "server": name} for user, name in sorted(rooms)]})


class RoomHandler(MovesBase):
    """``/hub/api/portal/rooms/USER/SERVER``: read the URL (GET), let the members in (PUT), and out
    (DELETE)."""

    def get(self, user: str, server: str) -> None:
        try:
            self._found(user, server)
        except PortalError as error:
            self.refuse(error)
            return
        self.answer({"url": self.find_user(user).server_url(server)})

    async def put(self, user: str, server: str) -> None:
        try:
            spawner, room = self._found(user, server)
            members = await self._members(user, room.space)
        except PortalError as error:
            self.refuse(error)
            return
        shares = {share.user_id: share for share in spawner.shares}
        for id, share in shares.items():
            if id not in members:
                self.db.delete(share)
        for id, member in members.items():
            if id not in shares:
                orm.Share.grant(self.db, spawner, member)  # commits, so other tasks get a turn
                await asyncio.sleep(0)
        self.db.commit()
        self.answer({"url": self.find_user(user).server_url(server)})

    async def delete(self, user: str, server: str) -> None:
        try:
            spawner, _ = self._found(user, server)
        except PortalError as error:
            self.refuse(error)
            return
        for share in list(spawner.shares):
            self.db.delete(share)
        if spawner.oauth_client is not None:
            # Otherwise the browsers' cookies stay valid for as long as the session remembers them.
            for row in (orm.APIToken, orm.OAuthCode):
                self.db.query(row).filter(
                    row.client_id == spawner.oauth_client.identifier,
                    row.user_id != spawner.user.id,
                ).delete(synchronize_session="fetch")
        self.db.commit()
        self.set_status(204)

    def _found(self, user: str, server: str) -> tuple[orm.Spawner, Address]:
        """Return the server in the Hub's database, and its name in parts. Raises NotFound."""
        owner, room = orm.User.find(self.db, user), reserved_for(server)
        spawner = owner.orm_spawners.get(server) if owner else None
        if spawner is None or room is None or not room.kind.shared:
            raise NotFound(f"There is no such {space_nouns()} room.")
        return spawner, room

    async def _members(self, user: str, space: str) -> dict[int | None, orm.User]:
        """Return the space's members but ``user`` whom the Hub knows, by id in the Hub. Raises
        NotAllowed if this person cannot have a room of this space, StoreUnavailable."""
        shared = HubContext.instance(self.config)
        stored = await shared.memberships.space(space, fresh=True)
        members = await shared.store.members.of_space(space)
        staff = {member.person for member in members if member.role in STAFF}
        if user not in staff or not stored.space.together:
            raise NotAllowed(f"'{user}' cannot have a room of the {stored.space.noun} '{space}'.")
        names = [member.person for member in members if member.person != user]
        users = self.db.query(orm.User).filter(orm.User.name.in_(names))
        return {member.id: member for member in users}


def _is_room(server: str) -> bool:
    address = reserved_for(server)
    return address is not None and address.kind.shared
