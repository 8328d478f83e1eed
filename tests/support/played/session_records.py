"""Records of sessions, as the Hub would store them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portal.launch.kinds import Kind, reserved_for
from portal.launch.kinds.kind import OtherLaunch
from portal.models.session.session import SessionRecord
from portal.store.migrations.work import work_and_space


def recorded(**values: Any) -> SessionRecord:
    """Return the record of a session; its work and space are those of its server's name and its
    options if ``values`` name none."""
    work, space = work_and_space(values.get("server", ""), values.get("options", {}))
    return SessionRecord(**{"work": work, "space": space, **values})


def launched(server: str, options: Mapping[str, Any]) -> OtherLaunch:
    """Return a session that waits or runs on a server of this name."""
    return OtherLaunch(*work_and_space(server, options), options)


def owner_of(server: str) -> type[Kind] | None:
    """Return the kind to which a server's name belongs; None if it is free for others."""
    address = reserved_for(server)
    return address.kind if address is not None else None
