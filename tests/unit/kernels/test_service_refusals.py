"""What a refusal of the portal is to a session: asked again, or final."""

from __future__ import annotations

import io
import json
import time
from email.message import Message
from urllib.error import HTTPError

import pytest
from portal_session.service import _refusal

from portal.errors import HubUnavailable, NotAllowed, SlurmUnavailable, Starting


@pytest.mark.parametrize(
    ("kind", "away"),
    [(HubUnavailable, True), (Starting, True), (SlurmUnavailable, False), (NotAllowed, False)],
)
def test_a_request_is_repeated_only_if_nothing_was_done(kind: type, away: bool) -> None:
    body = json.dumps({"error": {"code": kind.code, "message": "Why."}}).encode()
    error = HTTPError("http://portal", kind.status, "", Message(), io.BytesIO(body))
    refusal = _refusal(error, time.monotonic() + 9)
    assert (str(refusal), refusal.status, refusal.away) == ("Why.", kind.status, away)
