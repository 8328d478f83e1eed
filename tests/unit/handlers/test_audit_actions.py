"""The actions of the audit log: one table, which every line that is written and the page go by."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from portal.handlers.pages.pages import AuditPage
from portal.handlers.pages.rendering import Pages
from portal.models.audit import ACTION_WORDS, AuditAction
from portal.models.course.audit import CourseAudit
from portal.models.person import Person
from portal.models.scope import AUDIT_READ
from portal.projects.audit import ProjectAudit
from portal.work.benchmarks.audit import BenchmarkAudit
from portal.work.endpoint.audit import EndpointAudit

TABLES = [
    ROOT / "portal/models/audit.py",
    ROOT / "portal/models/course/audit.py",
    ROOT / "portal/work/benchmarks/audit.py",
    ROOT / "portal/work/endpoint/audit.py",
    ROOT / "portal/projects/audit.py",
]
ACTIONS = [*AuditAction, *CourseAudit, *BenchmarkAudit, *EndpointAudit, *ProjectAudit]
MODULES = {
    str(path.relative_to(ROOT)): ast.parse(path.read_text())
    for room in ("portal", "spawners")
    for path in sorted((ROOT / room).rglob("*.py"))
    if path not in TABLES
}
# Where an action is given, by its position.
WRITERS = {"audited": 0, "audit": 1, "on_session": 2, "failed": 0, "noted": 0, "own_job": 1}


def written(tree: ast.AST) -> Iterator[ast.expr]:
    """The actions that a module gives to what writes the audit log."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            at = WRITERS.get(name, len(node.args))
            yield from node.args[at : at + 1]
            named = {keyword.arg: keyword.value for keyword in node.keywords}
            if "action" in named and "help" not in named:  # argparse has the word too
                yield named["action"]


def foreign(tree: ast.AST) -> list[str]:
    """Actions of a module that are text of its own."""
    texts = [node for node in written(tree) if isinstance(node, ast.Constant | ast.JoinedStr)]
    names = {action.value for action in ACTIONS if "-" in action.value}
    texts += [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and n.value in names]
    return [ast.unparse(node) for node in texts]


@pytest.mark.parametrize("path", MODULES)
def test_no_action_is_written_that_the_table_has_not(path: str) -> None:
    assert foreign(MODULES[path]) == []


@pytest.mark.parametrize(
    "source",
    [
        "self.audited('stop-everything', 'job 1')",
        "self.parts.audit(self, f'{verb}-session', 'job 1')",
        "AuditEntry(at=1, action='new', target='job 1')",
        "verbs = {'stop': 'stop-session'}",
    ],
)
def test_the_rule_sees_every_way_to_write_one(source: str) -> None:
    assert foreign(ast.parse(source))


def test_every_action_of_the_table_is_written() -> None:
    used = {
        node.attr
        for tree in MODULES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and ast.unparse(node.value)
        in ("AuditAction", "CourseAudit", "BenchmarkAudit", "EndpointAudit", "ProjectAudit")
    }
    assert used == {action.name for action in ACTIONS}


def test_the_words_of_each_action_are_its_own() -> None:
    assert ACTION_WORDS["stop-session"] == "Stop session"
    assert ACTION_WORDS["denied"] == "Access denied"
    assert len(set(ACTION_WORDS.values())) == len(ACTIONS)


async def test_the_page_lists_all_actions_by_their_words() -> None:
    page: Any = object()
    html = Pages(prefix="/services/portal/", hub_prefix="/hub/").render(
        AuditPage.template,
        Person(name="grace", scopes=frozenset({AUDIT_READ})),
        nonce="1",
        **await AuditPage.variables(page),
    )
    select = re.search(r'(?s)<select[^>]*id="audit-action".*?</select>', html)
    assert select
    options = re.findall(r'<option value="([^"]*)">([^<]*)</option>', select[0])
    assert options[0] == ("", "All")
    assert dict(options[1:]) == ACTION_WORDS
    assert [words for _, words in options[1:]] == sorted(ACTION_WORDS.values())
    assert re.findall(r'<option value="(done|refused|failed)">', html) == [
        "done",
        "refused",
        "failed",
    ]


def test_entries_of_former_versions_show_their_names() -> None:
    script = (Path(ROOT) / "static/js/audit.js").read_text()
    assert "words.get(line.action) || line.action" in script
