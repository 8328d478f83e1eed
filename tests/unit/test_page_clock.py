"""Ages and waits on pages go by the service's time and by performance.now(), never by the clock of
the machine that shows the page: that one may be wrong, and may be set. Each script that reads it
stands here with how often, and why."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT

READS: dict[str, dict[str, int]] = {
    "a time of day, to be shown": {
        "kernels/labextension/src/words.ts": 2,
        "static/js/words.js": 1,
        "templates/assets/pending.js": 2,
    },
    "the first value of a field, in this machine's own time": {
        "static/js/announcements.js": 2,
        "static/js/course/new.js": 1,
    },
    "when something was typed in this tab, to be shown there": {
        "static/js/curate/edit.js": 1,
        "static/js/draft.js": 1,
    },
    "whether it was set, and what outlives a page": {"static/js/api.js": 3},
    "shared by tabs, each with a beginning of its own": {"static/js/notify.js": 2},
}
EXPECTED = {path: number for files in READS.values() for path, number in files.items()}
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


@pytest.mark.parametrize("path", sorted({*FOUND, *EXPECTED}))
def test_a_script_that_reads_this_machines_clock_says_why(path: str) -> None:
    assert FOUND.get(path, 0) == EXPECTED.get(path, 0), (
        "now() of api.js or performance.now(); else say why here"
    )


def test_the_rule_sees_every_spelling_and_nothing_else() -> None:
    for source in ("Date.now()", "const t = Date.now;", "new Date()", "new Date;", "Date()"):
        assert clocks(source) == 1, source
    others = ("new Date(at * 1000)", "// Date.now() is wrong", "performance.now()", "now()")
    for source in (*others, "updateDate()"):
        assert clocks(source) == 0, source
