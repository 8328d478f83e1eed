"""Parameters as reports have them: few and short, whatever the point was given."""

from __future__ import annotations

import json

from portal_session.runs.execution.shown_values import MOST, shown_values
from pydantic import TypeAdapter

from portal.models.session.run import Parameter, ParameterName

HOSTILE = {
    "text": "a\n\x00b\u202e" + "c" * 300,
    "huge": 10**4000,
    "large": 2**60,
    "rate": 1e-300,
    "on": True,
    "none": None,
    "a" * 101: 1,
    "line\nbreak": 1,
}


def test_what_the_portal_takes_is_reported() -> None:
    shown = shown_values(HOSTILE)
    assert list(shown) == ["text", "huge", "large", "rate", "on", "none"]
    text = str(shown["text"])
    assert len(text) == 200 and text.startswith("a\ufffd\ufffdb\ufffdccc") and text.endswith("…")
    assert (shown["rate"], shown["on"], shown["none"]) == (1e-300, True, None)
    body = json.loads(json.dumps(shown, allow_nan=False))
    taken = TypeAdapter(dict[ParameterName, Parameter]).validate_python(body)
    assert taken == body and taken["on"] is True


def test_at_most_fifty_are_reported() -> None:
    assert len(shown_values({f"p{number}": number for number in range(80)})) == MOST == 50
