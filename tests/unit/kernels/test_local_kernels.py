"""marimo's language servers, which have ports of their own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from portal_session.kernels.local_kernels import _refuse_language_servers


def lsp(**more: Any) -> Any:
    """Stand-in for marimo._server.lsp."""
    server = type("BaseLspServer", (), {"start": None})
    return SimpleNamespace(
        LspServer=type("LspServer", (), more), BaseLspServer=server, AlertNotification=dict
    )


async def test_they_are_off_in_versions_that_ask_for_no_token() -> None:
    module = lsp()
    _refuse_language_servers(module)
    said = await module.BaseLspServer().start()
    assert "Before version 0.25.1 of marimo, other users" in said["description"]


def test_newer_ones_start_as_they_are() -> None:
    module = lsp(auth_token="secret")
    _refuse_language_servers(module)
    assert module.BaseLspServer.start is None
