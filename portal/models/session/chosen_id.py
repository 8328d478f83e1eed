"""Ids that a session chooses, of its runs and of its kernels in jobs of their own."""

from __future__ import annotations

# A UUID, with or without dashes, or another such text.
ID = r"[0-9a-f](-?[0-9a-f]){7,39}"
LONGEST_ID = 40  # characters
SHOULD_BE = (
    f"A text of 8 to {LONGEST_ID} characters: 8 or more digits and letters from a to f, and single "
    "dashes between them"
)
