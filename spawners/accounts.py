"""The people's Unix accounts, asked of NSS (files, sssd, nslcd) without ever blocking the Hub."""

from __future__ import annotations

import contextlib
import os
import pwd

from jupyterhub.auth import Authenticator

from portal.errors import NotAllowed, Unavailable
from portal.images.settings import Images

from .blocking import Blocking, StillRunning


def _own_account() -> bool:
    """Whether NSS has the account of this process: where not, it can tell nobody's."""
    try:
        return bool(pwd.getpwuid(os.geteuid()))
    except KeyError:
        return False


def service_accounts(images: Images) -> frozenset[str]:
    """Return the names of the accounts that are nobody's: root's, the Hub's, and that of builds and
    tests. A person of the directory with such a name would act as them."""
    own = []
    with contextlib.suppress(KeyError):
        own.append(pwd.getpwuid(os.geteuid()).pw_name)
    return frozenset({"root", *own, images.service_account} - {""})


def block(authenticator: Authenticator, names: frozenset[str]) -> None:
    """Let nobody with one of these names log in or stay."""
    authenticator.blocked_users = {*authenticator.blocked_users, *names}


def _looked_up(name: str, services: frozenset[str]) -> tuple[pwd.struct_passwd, set[int]]:
    """Return the account ``name`` and the user ids of ``services``. Raises KeyError."""
    account, nobodys = pwd.getpwnam(name), {0, os.geteuid()}
    for service in services:
        with contextlib.suppress(KeyError):
            nobodys.add(pwd.getpwnam(service).pw_uid)
    return account, nobodys


async def home_of(
    name: str, blocking: Blocking, seconds: float, services: frozenset[str] = frozenset()
) -> str:
    """Return the home directory of the account ``name``, waited for at most ``seconds``.

    Raises NotAllowed when there is no such account, or it has the user id of root, of the Hub or
    of one of ``services``; Unavailable when NSS does not answer.
    """
    try:
        account, nobodys = await blocking.call(
            f"account-{name}", lambda: _looked_up(name, services), seconds
        )
    except KeyError:
        if not await blocking.call("own-account", _own_account, seconds):
            raise Unavailable(
                f"The account of '{name}' could not be looked up: the Hub's machine knows not even "
                "the Hub's own account. Sessions that run go on. An admin can look with "
                "'getent passwd' there."
            ) from None
        raise NotAllowed(
            f"'{name}' has no account on this cluster. Ask an admin to make one."
        ) from None
    except StillRunning:
        raise Unavailable(
            f"The account of '{name}' could not be looked up within {seconds:g} seconds: the "
            "service that knows the accounts does not answer on the Hub's machine. Sessions that "
            "run go on. Try again in a minute; if it lasts, tell an admin."
        ) from None
    if account.pw_uid in nobodys:
        # sudo lets the Hub act for the account of builds, and would here for who is called so.
        raise NotAllowed(f"'{name}' is a service account: it has no sessions.")
    return str(account.pw_dir)
