"""Tree of the portal's errors. Each carries a sentence for the person who sees it.

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
    """Base class of every error that the portal raises on purpose.

    ``message`` (str) is shown to the user; ``code`` is a stable word for programs;
    ``status`` is the HTTP status to answer with; ``field`` names the key that is wrong, if it is
    one. ``details`` is what a page needs beside the message, e.g. the two texts of a conflict:
    plain values, by name.
    """

    code = "error"
    status = 500

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.message, self.field = message, field
        self.details: dict[str, Any] = {}


class InvalidRequest(PortalError):
    """Malformed request."""

    code = "invalid_request"
    status = 400


class NotAllowed(PortalError):
    """Well-formed request that is not allowed for this person, on this cluster, now."""

    code = "not_allowed"
    status = 403


class NotFound(PortalError):
    """Request for a thing that does not exist, or that this person may not know of."""

    code = "not_found"
    status = 404


class Conflict(PortalError):
    """Request for a thing that is not, or no longer, in the required state."""

    code = "conflict"
    status = 409


class TooManyRequests(PortalError):
    """Request for more at once than one person may have."""

    code = "too_many_requests"
    status = 429


class Unavailable(PortalError):
    """No answer from a part of the site. A later retry can help."""

    code = "unavailable"
    status = 503


class SlurmUnavailable(Unavailable):
    """No answer from slurmctld, slurmdbd or the client command."""

    code = "slurm_unavailable"


class Starting(Unavailable):
    """No answer from Slurm since the service began: nothing was done, and a session asks again."""

    code = "starting"


class DirectoryUnavailable(Unavailable):
    """No answer from any server of the site's directory or of its login service."""

    code = "directory_unavailable"


class StoreUnavailable(Unavailable):
    """No answer from the portal's database, or a schema that is not this version's."""

    code = "database_unavailable"


class RegistryUnavailable(Unavailable):
    """No answer from a registry of images, or its rate limit."""

    code = "registry_unavailable"


class HubUnavailable(Unavailable):
    """No answer from the Hub to the service."""

    code = "hub_unavailable"


class SlurmRefused(PortalError):
    """Refusal by Slurm. The message quotes Slurm's own words."""

    code = "slurm_refused"
    status = 400


class StartFailed(PortalError):
    """Failed start: the submitted job ended, or its server did not answer in time."""

    code = "start_failed"
    status = 502


class ConfigurationError(PortalError):
    """Wrong setting or file of this site; the message names it."""

    code = "configuration_error"
