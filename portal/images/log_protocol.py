"""Protocol from a job to the service: lines of the job's log that begin with a mark of its own.

The nonce in the mark is known to the service and to the job, and to no container, so that what an
image prints can never pass for the job's own result. Everything else in the log is plain text.
"""

from __future__ import annotations

import sys
import threading

from pydantic import ValidationError

from ..models.catalog.image_job import Event

MARK = "PORTAL"
MOST = 8 * 2**20  # characters of plain lines that are written; the job's own lines always are
_one_at_a_time = threading.Lock()


def emit(nonce: str, event: Event) -> None:
    """Write ``event`` to standard output, which is the job's log, as one line of its own."""
    line = f"{MARK} {nonce} {event.model_dump_json(exclude_none=True)}\n"
    with _one_at_a_time:
        sys.stdout.write(line)
        sys.stdout.flush()


class _Room:
    """Room that the log still has for plain lines, in characters."""

    left = MOST


def say(line: str) -> None:
    """Write a plain line to the log; of all plain lines, the first `MOST` characters are kept."""
    text = line.rstrip("\r\n") + "\n"
    with _one_at_a_time:
        if _Room.left <= 0:
            return
        _Room.left -= len(text)
        if _Room.left <= 0:
            text = f"(More than {MOST // 2**20} MiB: the rest was omitted.)\n"
        sys.stdout.write(text)
        sys.stdout.flush()


def read_events(text: str, nonce: str) -> tuple[list[Event], list[str]]:
    """Return the events of a log and its other lines, each in their order.

    A line that holds the nonce is never among the others, even if it is malformed: a partial one
    (the job was killed while it wrote, or ``text`` ends there) is left out.
    """
    if not nonce:
        return [], text.splitlines()
    events: list[Event] = []
    plain: list[str] = []
    start = f"{MARK} {nonce} "
    for line in text.split("\n"):
        before, mark, after = line.partition(start)
        if mark:
            # Another program's unfinished line may stand before ours.
            if before:
                plain.append(before)
            try:
                events.append(Event.model_validate_json(after))
            except ValidationError:
                continue
        elif nonce not in line:
            plain.append(line)
    if plain and not plain[-1]:
        plain.pop()  # after the last newline
    return events, plain
