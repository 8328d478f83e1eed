"""What can go wrong, as a tree. Each error carries a sentence for the person who sees it.

    PortalError                    500
    ├── InvalidRequest             400   what was asked for is not well formed
    ├── NotAllowed                 403   well formed, but not for this person, here or now
    ├── NotFound                   404   names a thing that does not exist (or is not theirs to see)
    ├── Conflict                   409   the thing is not (or no longer) in the state for it
    ├── Unavailable                503   a part of the site does not answer
    │   ├── SlurmUnavailable       503   slurmctld (or its client command) does not answer
    │   ├── DirectoryUnavailable   503   no LDAP server answers
    │   ├── StoreUnavailable       503   the portal's database does not answer
    │   ├── RegistryUnavailable    503   a registry of images does not answer, or not now
    │   └── HubUnavailable         503   the Hub does not answer the service
    ├── TooManyRequests            429   more at once than one person may have
    ├── SlurmRefused               400   Slurm answered, and said no
    ├── StartFailed                502   the job was submitted, but its server never answered
    └── ConfigurationError         500   a setting or a file of this site is wrong

The message is complete English, names the thing that is wrong and the way out, and holds no
secret and no markup: it is shown to users as it is.
"""

from __future__ import annotations

from typing import Any


class PortalError(Exception):
    """Base of every error the portal raises on purpose.

    ``message`` (str) is shown to the user; ``code`` is a stable word for programs;
    ``status`` is the HTTP status to answer with. ``details`` is what a page needs beside the
    message, e.g. the two texts of a conflict: plain values, by name.
    """

    code = "error"
    status = 500

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = {}


class InvalidRequest(PortalError):
    """What was asked for is not well formed. ``field`` names the key that is wrong, if one is."""

    code = "invalid_request"
    status = 400

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class NotAllowed(PortalError):
    """Well formed, but not for this person, on this cluster, now."""

    code = "not_allowed"
    status = 403


class NotFound(PortalError):
    """Names a thing that does not exist, or that this person may not know of."""

    code = "not_found"
    status = 404


class Conflict(PortalError):
    """The thing is there, but not, or no longer, in the state that this needs."""

    code = "conflict"
    status = 409


class TooManyRequests(PortalError):
    """More at once than one person may have."""

    code = "too_many_requests"
    status = 429


class Unavailable(PortalError):
    """A part of the site does not answer. Trying again later can help."""

    code = "unavailable"
    status = 503


class SlurmUnavailable(Unavailable):
    """slurmctld, slurmdbd or the client command does not answer."""

    code = "slurm_unavailable"


class DirectoryUnavailable(Unavailable):
    """No server of the site's directory, or of its login service, answers."""

    code = "directory_unavailable"


class StoreUnavailable(Unavailable):
    """The portal's database does not answer, or its schema is not this version's."""

    code = "database_unavailable"


class RegistryUnavailable(Unavailable):
    """A registry of images does not answer, or wants to be asked less often."""

    code = "registry_unavailable"


class HubUnavailable(Unavailable):
    """The Hub does not answer the service."""

    code = "hub_unavailable"


class SlurmRefused(PortalError):
    """Slurm answered, and refused. The message quotes Slurm's own words."""

    code = "slurm_refused"
    status = 400


class StartFailed(PortalError):
    """The job was submitted, but it ended, or its server did not answer in time."""

    code = "start_failed"
    status = 502


class ConfigurationError(PortalError):
    """A setting or a file of this site is wrong; the message names it."""

    code = "configuration_error"
