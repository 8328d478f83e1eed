"""The pattern of an id that a session chooses stands once in each distribution."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# 8 to 40 digits, and dashes between them.
PATTERN = re.compile(r"\[0-9a-f\][^\"\n]{0,12}\{+7,39\}")


@pytest.mark.parametrize(
    ("parts", "place"),
    [
        (("portal", "spawners"), "portal/models/session/chosen_id.py"),
        (("kernels/portal_session",), "kernels/portal_session/chosen_id.py"),
    ],
)
def test_the_pattern_of_an_id_stands_once(parts: tuple[str, ...], place: str) -> None:
    places = [
        str(path.relative_to(ROOT))
        for part in parts
        for path in sorted((ROOT / part).rglob("*.py"))
        for _ in PATTERN.findall(path.read_text())
    ]
    assert places == [place]
