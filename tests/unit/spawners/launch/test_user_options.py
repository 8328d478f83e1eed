"""Options of a launch: refusals, as JupyterHub answers them, and what counts as chosen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from portal.errors import InvalidRequest, NotAllowed, PortalError, TooManyRequests
from portal.launch.kinds.program import MARIMO, program_kind
from spawners.launch import user_options
from spawners.launch.refusals import refusal
from spawners.session import SessionSpawner
from spawners.spawner import PortalSpawner


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


class Launched(SimpleNamespace):
    options_again = SessionSpawner.options_again


@pytest.mark.parametrize("automatic", [True, False])
async def test_a_partition_that_the_portal_chose_is_chosen_anew(
    monkeypatch: pytest.MonkeyPatch, automatic: bool
) -> None:
    """It was free then, and would stick to all later launches, also to one by JupyterHub's API
    without options, which takes those of the server before."""
    asked = {"environment": "lab"}
    named = {"environment": "lab", "partition": "cpu"}

    async def launch_request(spawner: Any, options: Any) -> Any:
        return SimpleNamespace(
            options=lambda: named, partition_automatic=automatic, kind=program_kind(MARIMO)()
        )

    monkeypatch.setattr(user_options, "launch_request", launch_request)
    monkeypatch.setattr(user_options, "ensure_set_up", lambda: None)
    spawner: Any = Launched(last_options={}, serves=True)
    await PortalSpawner.validate_options(spawner, asked)
    assert spawner.last_options["partition"] == "cpu", "what the session has"
    assert (spawner.work, spawner.space) == ("marimo", "")
    assert spawner.options_again == spawner.user_options == (asked if automatic else named)
