"""Connection between a page and a kernel, whose events Unattended hears."""

from __future__ import annotations

from typing import Any, Protocol

from .kernel_follower import PAST

_GOING_AWAY = (1000, 1001)  # a websocket's close codes of a page that is left on purpose


class Listener(Protocol):
    """Object that hears of the pages (`Unattended`). ``client`` is a page's id in the kernel's
    messages."""

    def came(self, kernel_id: str, client: str) -> None:
        """Note that a page has connected."""

    def asked(self, kernel_id: str, raw: Any, protocol: str | None) -> None:
        """Note a page's message, as its websocket carries it."""

    def went(self, kernel_id: str, client: str, *, back: bool, for_good: bool) -> None:
        """Note that a page's connection has ended. ``back``: it has another one already;
        ``for_good``: the page was left on purpose."""


def followed_connection(base: type, listener: Listener) -> type:
    """Return jupyter_server's class of connections, ``base``, with reports to ``listener``."""

    class FollowedConnection(base):  # type: ignore[misc]
        """Connection of the server that also reports to the listener."""

        def connect(self) -> Any:
            listener.came(self.kernel_id, self.session.session)
            return super().connect()

        def handle_incoming_message(self, incoming_msg: Any) -> None:
            listener.asked(self.kernel_id, incoming_msg, self.subprotocol)
            super().handle_incoming_message(incoming_msg)

        def handle_outgoing_message(self, stream: Any, outgoing_msg: list[Any]) -> None:
            if outgoing_msg[:1] != [PAST.encode()]:  # the page asks for what it missed of that
                super().handle_outgoing_message(stream, outgoing_msg)

        def disconnect(self) -> None:
            code = getattr(self.websocket_handler, "close_code", None)
            client, kernel_id = self.session.session, self.kernel_id
            super().disconnect()
            # A page that reconnects has another connection already, under the same name.
            back = getattr(self, "session_key", "") in getattr(base, "_open_sessions", {})
            listener.went(kernel_id, client, back=back, for_good=code in _GOING_AWAY)

    return FollowedConnection
