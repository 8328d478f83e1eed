"""Route by which the portal's service reports that a user has pressed *Open* on its page."""

from __future__ import annotations

from portal.errors import NotFound

from ..context import HubContext
from .moves import MovesBase


class EntryHandler(MovesBase):
    """``PUT /hub/api/portal/entries/PERSON/USER/SERVER``: let ``PERSON`` enter this server of
    ``USER`` once without a question. Whether they may enter it at all is checked when they come.
    """

    def put(self, person: str, user: str, server: str) -> None:
        owner = self.find_user(user)
        if owner is None or server not in owner.orm_user.orm_spawners:
            self.refuse(NotFound("There is no such session."))
            return
        if person != owner.name:
            HubContext.instance(self.config).entries.admit(person, owner.name, server)
        self.answer({"url": owner.server_url(server)})
