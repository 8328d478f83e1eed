"""Numbers in words, for the portal's sentences."""

from __future__ import annotations

import time


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: "1 GPU", "2 GPUs"."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def shortened(text: str, most: int) -> str:
    """Return an error's text with at most ``most`` characters. Of a chain of causes, "a: b: c", the
    first and the last ones are kept, whole; the last one says most."""
    if len(text) <= most:
        return text
    first, *rest = text.split(": ")
    last: list[str] = []
    while rest and len(first) + sum(map(len, last)) + 2 * len(last) + len(rest[-1]) + 5 <= most:
        last.insert(0, rest.pop())
    if last:
        return f"{first}: …: {': '.join(last)}" if rest else f"{first}: {': '.join(last)}"
    return f"{text[: most - 1].rpartition(' ')[0] or text[: most - 1]}…"


def clock(moment: float, now: float) -> str:
    """Return Unix seconds as the server's local time, "10:42", with the day if not today."""
    then = time.localtime(moment)
    if then[:3] == time.localtime(now)[:3]:
        return time.strftime("%H:%M", then)
    return time.strftime("%a %d %b %H:%M", then)


def ordinal(number: int) -> str:
    """Return an ordinal number: "1st", "2nd", "3rd", "11th"."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def duration(seconds: float) -> str:
    """Return seconds in words, at most two units: "45 seconds", "2 hours", "1 day 12 hours"."""
    seconds = int(seconds)
    if seconds < 60:
        return count(max(0, seconds), "second")
    parts = []
    for noun, unit in (("day", 86400), ("hour", 3600), ("minute", 60)):
        number, seconds = divmod(seconds, unit)
        if number:
            parts.append(count(number, noun))
    return " ".join(parts[:2])
