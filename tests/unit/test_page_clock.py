"""Ages and waits on pages go by the service's time and by performance.now(), never by the clock of
the machine that shows the page: that one may be wrong, and may be set. Each script that reads it
stands here with how often, and why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SHOWN = "a time of day, to be shown"
FORM = "the first value of a field, in this machine's own time"
TYPED = "when something was typed in this tab, to be shown there"

WHY: dict[str, tuple[int, str]] = {
    "kernels/labextension/src/words.ts": (2, SHOWN),
    "static/js/announcements.js": (2, FORM),
    "static/js/api.js": (3, "whether it was set, and what outlives a page"),
    "static/js/course/new.js": (1, FORM),
    "static/js/curate/edit.js": (1, TYPED),
    "static/js/draft.js": (1, TYPED),
    "static/js/notify.js": (2, "shared by tabs, each with a beginning of its own"),
    "static/js/words.js": (1, SHOWN),
    "templates/assets/pending.js": (2, SHOWN),
}
_READS = re.compile(r"\bDate\.now\b|\bnew Date\(\)|\bnew Date\b(?!\s*\()|(?<!new )\bDate\(")


def clocks(source: str) -> int:
    """Count how often a script reads the clock of the machine that it runs on."""
    return len(_READS.findall(re.sub(r"^\s*//.*$", "", source, flags=re.MULTILINE)))


FOUND = {
    str(path.relative_to(ROOT)): number
    for folder in ("static/js", "templates", "kernels/labextension/src")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".js", ".ts", ".tsx", ".html")
    and (number := clocks(path.read_text(encoding="utf-8")))
}


@pytest.mark.parametrize("path", sorted({*FOUND, *WHY}))
def test_a_script_that_reads_this_machines_clock_says_why(path: str) -> None:
    number, _ = WHY.get(path, (0, ""))
    assert FOUND.get(path, 0) == number, "now() of api.js or performance.now(); else say why here"


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ("Date.now()", 1),
        ("const t = Date.now;", 1),
        ("new Date()", 1),
        ("new Date;", 1),
        ("Date()", 1),
        ("new Date(at * 1000)", 0),
        ("// Date.now() is wrong", 0),
        ("performance.now()", 0),
        ("now()", 0),
        ("updateDate()", 0),
    ],
)
def test_the_rule_sees_every_spelling(source: str, number: int) -> None:
    assert clocks(source) == number
