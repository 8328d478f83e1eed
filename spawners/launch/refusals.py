"""Refusals of launches, as JupyterHub answers them."""

from __future__ import annotations

from jupyterhub.spawner import SpawnException

from portal.errors import PortalError
from portal.launch.fields import FIELD_HEADER
from portal.launch.request import option_keys


def refusal(error: PortalError) -> SpawnException:
    """Return the exception whose message JupyterHub shows; every other kind loses it."""
    refused = SpawnException(error.message, reason=error.code, status_code=error.status)
    refused.headers = refusal_headers(error)
    return refused


def refusal_headers(error: PortalError) -> dict[str, str]:
    """Return what the response says beside the message: the field, and when to try again."""
    headers = {}
    if after := error.details.get("retry_after"):
        headers["Retry-After"] = str(after)
    if error.field in option_keys():  # else it is what somebody sent
        headers[FIELD_HEADER] = error.field
    return headers
