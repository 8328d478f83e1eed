"""A real mail server on loopback, for tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from typing import Any

from aiosmtpd.controller import Controller

from portal.demo.daemons.ports import free_port


def mail_settings(port: int, **settings: Any) -> dict[str, Any]:
    """Return the settings of notices that are sent to a server on this port."""
    return {
        "smtp_host": "127.0.0.1",
        "smtp_port": port,
        "encryption": "none",
        "sender": "portal@example.org",
        "address": "{username}@example.org",
        "public_url": "https://gpu.example.org",
        **settings,
    }


class Inbox:
    """Receiver of mail; ``answer``: its reply to each message."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.answer = "250 taken"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.answer.startswith("250"):
            self.mails.append(message_from_bytes(envelope.content, policy=SMTP_POLICY))
        return self.answer


@contextlib.contextmanager
def mail_server(inbox: Inbox, port: int = 0, **options: Any) -> Iterator[int]:
    controller = Controller(
        inbox, hostname="127.0.0.1", port=port or free_port(), ready_timeout=120, **options
    )
    controller.start()
    try:
        yield controller.port
    finally:
        controller.stop()
