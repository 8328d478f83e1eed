"""``api/v1/servers``: named sessions of the caller that do not run, for the Sessions page."""

from __future__ import annotations

from portal.errors import NotFound
from portal.launch.kinds import reserved_for
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.work.tensorboard.kind import SERVER as TENSORBOARD

from ..base.action import Action, Confirmation
from ..base.endpoint import Endpoint, Operation

_NAME = r"[^/]{1,255}"
_MOST = 500  # live sessions of a person


class NamedServer(Frozen):
    """A named session that does not run.

    ``name`` is the server's, ``title`` what its owner typed.
    """

    name: str
    title: str


class NamedServers(Frozen):
    """Named sessions of a person that do not run, by title."""

    items: tuple[NamedServer, ...]


class OwnServers(Endpoint):
    """Named sessions of the caller."""

    path = "servers"

    @Operation("List your named sessions that are not running.")
    async def on_get(self) -> NamedServers:
        """Leave out those with a purpose, such as kernels: they come and go by themselves."""
        user = self.person.name
        titles = await self.parts.hub.named_servers(user)
        living, _ = await self.parts.store.sessions.find(user=user, ended=False, limit=_MOST)
        busy = {record.server for record in living}
        items = [
            NamedServer(name=name, title=title)
            for name, title in titles.items()
            if name not in busy and name != TENSORBOARD and reserved_for(name) is None
        ]
        return NamedServers(items=tuple(sorted(items, key=lambda item: item.title.casefold())))


class OwnServer(Action):
    """Named session of the caller."""

    path = "servers/{server}"
    parameters = {"server": _NAME}

    @Operation("Remove one of your named sessions.", errors=(409,))
    async def on_delete(self, server: str) -> Confirmation:
        """Keep its files and its ended sessions. A running session must be stopped first."""
        user = self.person.name
        async with self.audited(AuditAction.REMOVE_SERVER, f"server {server}", user):
            if reserved_for(server) is not None:
                raise NotFound("You have no session with that name.")
            await self.parts.hub.remove_server(user, server, on_behalf_of=user)
        return self.done(f"The named session '{server}' is removed.")


ENDPOINTS = (OwnServers, OwnServer)
