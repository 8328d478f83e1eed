"""Handover between the two servers of a session that moves: the old one saves and lists its open
terminals, the new one opens them again.

The route is ``portal/handover`` of portal_session, which an older one in an environment may lack.
So nothing here raises: a move without a handover is a move all the same.
"""

from __future__ import annotations

from typing import Any

from jupyterhub.spawner import Spawner

from ..session_server import ask_server

_ROUTE = "portal/handover"
_ANSWER = 5.0  # seconds that a server may take for an immediate response


async def busy_kernels(spawner: Spawner) -> list[str] | None:
    """Return the kernels that compute now, by the names of their notebooks; None: unknown."""
    report = await _ask(spawner, spawner.server.url, "GET", None, _ANSWER)
    busy = report.get("busy")
    if not isinstance(busy, list):
        return None
    return [name[:200] for name in busy[:100] if isinstance(name, str) and name.isprintable()]


async def hand_over(spawner: Spawner, new_url: str, patience: float) -> None:
    """Let open pages of the session save, for at most ``patience`` seconds, and pass its terminals
    to the server at ``new_url``."""
    old = await _ask(spawner, spawner.server.url, "POST", {"seconds": patience}, patience + _ANSWER)
    if terminals := old.get("terminals"):
        await _ask(spawner, new_url, "PUT", {"terminals": terminals}, _ANSWER)


async def _ask(
    spawner: Spawner, server: str, method: str, body: Any, seconds: float
) -> dict[str, Any]:
    """Return the server's JSON object; {} if it gives none within ``seconds``, for any reason."""
    note = "Change of a session's resources"
    answer = await ask_server(spawner, server, _ROUTE, method, body, seconds=seconds, note=note)
    return answer.content if answer is not None and answer.status < 300 else {}
