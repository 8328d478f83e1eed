"""The people's Unix accounts, asked of NSS (files, sssd, nslcd) without ever blocking the Hub."""

from __future__ import annotations

import os
import pwd

from portal.errors import NotAllowed, Unavailable

from .blocking import Blocking, StillRunning


def _own_account() -> bool:
    """Whether NSS has the account of this process: where not, it can tell nobody's."""
    try:
        return bool(pwd.getpwuid(os.geteuid()))
    except KeyError:
        return False


async def home_of(name: str, blocking: Blocking, seconds: float) -> str:
    """The home directory of the account ``name``, waited for at most ``seconds``.

    Raises NotAllowed when there is no such account, or it is root's or the Hub's own; Unavailable
    when NSS does not answer.
    """
    try:
        account = await blocking.call(f"account-{name}", lambda: pwd.getpwnam(name), seconds)
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
    if account.pw_uid in (0, os.geteuid()):
        # Slurm's commands for this one would not pass sudo, which guards whom the Hub acts for.
        raise NotAllowed(f"'{name}' is a service account: it has no sessions.")
    return str(account.pw_dir)
