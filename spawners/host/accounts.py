"""Unix accounts of people, looked up in NSS (files, sssd, nslcd) without ever blocking the Hub."""

from __future__ import annotations

import os
import pwd
from contextlib import suppress

from portal.errors import NotAllowed, Unavailable
from portal.service_accounts import is_service, refusal

from .blocking import Blocking, StillRunning


def _own_account() -> bool:
    """Return True if NSS has the account of this process; else it cannot tell anybody's."""
    try:
        return bool(pwd.getpwuid(os.geteuid()))
    except KeyError:
        return False


def _account(name: str, services: frozenset[str]) -> tuple[pwd.struct_passwd, bool]:
    """Return the account, and whether it is one of ``services``, under whatever name. Raises
    KeyError."""
    account = pwd.getpwnam(name)
    own = {0, os.geteuid()}
    for service in services:
        with suppress(KeyError):
            own.add(pwd.getpwnam(service).pw_uid)
    same = is_service(name, services) or is_service(account.pw_name, services)
    return account, same or account.pw_uid in own


async def home_of(
    name: str, blocking: Blocking, seconds: float, services: frozenset[str] = frozenset()
) -> str:
    """Return the home directory of the account ``name``; wait for at most ``seconds``.

    Raises NotAllowed if there is no such account, or it is root's, the Hub's own or one of
    ``services``; Unavailable if NSS does not answer.
    """
    if is_service(name, services):
        raise refusal(name)
    try:
        account, service = await blocking.call(
            f"account-{name}", lambda: _account(name, services), seconds
        )
    except KeyError:
        if not await blocking.call("own-account", _own_account, seconds):
            raise Unavailable(
                f"The account of '{name}' could not be looked up: the Hub's machine does not "
                "find even the Hub's own account. Running sessions continue. An admin can "
                "check with 'getent passwd' there."
            ) from None
        raise NotAllowed(
            f"'{name}' has no account on this cluster. Ask an admin to create one."
        ) from None
    except StillRunning:
        raise Unavailable(
            f"The account of '{name}' could not be looked up within {seconds:g} s: the "
            "name service of the Hub's machine does not answer. Running sessions continue. "
            "Try again in a minute; if the problem persists, contact an admin."
        ) from None
    if service:  # sudo lets the Hub act as the account of images, too
        raise refusal(name)
    return str(account.pw_dir)
