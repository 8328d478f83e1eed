"""Refusals of launches, as JupyterHub answers them."""

from __future__ import annotations

import pytest

from portal.errors import InvalidRequest, NotAllowed, PortalError, TooManyRequests
from spawners.launch.refusals import refusal


def too_many() -> PortalError:
    error = TooManyRequests("Wait.")
    error.details = {"retry_after": 7}
    return error


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (NotAllowed("No such account.", "account"), {"X-Portal-Field": "account"}),
        (NotAllowed("No."), {}),
        (InvalidRequest("'x' is not an option.", "x\r\nSet-Cookie: a=b"), {}),
        (too_many(), {"Retry-After": "7"}),
    ],
)
def test_a_refusal_names_a_field_of_a_launch(error: PortalError, headers: dict[str, str]) -> None:
    refused = refusal(error)
    assert (refused.message, refused.reason) == (error.message, error.code)
    assert refused.headers == headers
