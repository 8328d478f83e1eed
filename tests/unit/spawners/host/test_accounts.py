"""The people's Unix accounts: what is said where NSS has none."""

from __future__ import annotations

import os
import pwd
from typing import Any

import pytest

from portal.errors import NotAllowed, Unavailable
from spawners.host.accounts import home_of
from spawners.host.blocking import Blocking


def nobody_by(_: Any) -> Any:
    raise KeyError


async def test_a_stranger_has_no_account() -> None:
    with pytest.raises(NotAllowed, match="'nobody-here' has no account on this cluster"):
        await home_of("nobody-here", Blocking(), 30)


async def test_where_nss_has_not_even_the_hubs_account_nobody_is_told_to_have_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after the loss of /etc/passwd, or with a directory that answers "not found" to all."""
    monkeypatch.setattr(pwd, "getpwnam", nobody_by)
    monkeypatch.setattr(pwd, "getpwuid", nobody_by)
    with pytest.raises(Unavailable) as said:
        await home_of("ada", Blocking(), 30)
    assert "could not be looked up" in said.value.message and "getent" in said.value.message
    assert "no account on this cluster" not in said.value.message


async def test_service_accounts_have_no_sessions() -> None:
    with pytest.raises(NotAllowed, match="is the name of a service account"):
        await home_of(pwd.getpwuid(os.geteuid()).pw_name, Blocking(), 30)
