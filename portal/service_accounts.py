"""Service accounts: a person with such a name in the directory is not let in.

The Hub submits jobs as whoever is logged in, and the sudo rule lets it do that as the account of
images too. A person with that name would have that account, and could change everybody's images.
"""

from __future__ import annotations

import os
import pwd
from contextlib import suppress

from traitlets import Set, Unicode
from traitlets.config import Config, Configurable

from .errors import NotAllowed
from .setting import setting


class ServiceAccounts(Configurable):
    """Names of service accounts, besides `c.Images.service_account` and the Hub's own account."""

    names = setting(
        Set(Unicode(), {"root", "slurm", "munge"}),
        """Service accounts of this machine. Users with these names cannot log in, be enrolled
        anywhere or start sessions, whatever the directory says. The account of image builds
        (`c.Images.service_account`) and the Hub's account are always included.""",
        'c.ServiceAccounts.names = {"root", "slurm", "munge", "backup"}',
    )


def service_accounts(config: Config) -> frozenset[str]:
    """Return the names that no person may have at this site."""
    images = config.get("Images", {}).get("service_account", "")
    own = ""
    with suppress(KeyError):  # an account that NSS does not know
        own = pwd.getpwuid(os.geteuid()).pw_name
    names = ServiceAccounts(config=config).names
    return frozenset(name.casefold() for name in (*names, images, own) if name)


def is_service(name: str, accounts: frozenset[str]) -> bool:
    """Return True if ``name`` is one of ``accounts``; case is ignored, as in some directories."""
    return name.casefold() in accounts


def refusal(name: str) -> NotAllowed:
    """Return the error that says why ``name`` cannot use the portal."""
    return NotAllowed(
        f"'{name}' is the name of a service account of this cluster, which cannot log in or have "
        "sessions. Ask an admin of the directory for another user name."
    )
