"""Doubles of tests: the Hub, and courses and sessions as they are stored, are played once."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

from fake_hub import FakeHub

from .shape import ROOT

# Requests of the service, by which a class is known as a Hub that a test plays.
_REQUESTS = {"begin_server", "start_server", "stop_server", "server_state"}


def _trees() -> Iterator[tuple[str, ast.Module]]:
    for folder in ("unit", "integration", "attacks"):
        for path in sorted((ROOT / "tests" / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def test_the_hub_is_played_once() -> None:
    assert {name for name, _ in inspect.getmembers(FakeHub, inspect.isfunction)} >= _REQUESTS
    others = [
        f"{path}:{node.lineno}"
        for path, tree in _trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and {item.name for item in node.body if isinstance(item, ast.AsyncFunctionDef)} & _REQUESTS
        and "FakeHub" not in {base.id for base in node.bases if isinstance(base, ast.Name)}
    ]
    assert others == []


def test_courses_and_sessions_are_made_once() -> None:
    """A new field of theirs has a default in one place."""
    others = [
        f"{path}:{node.lineno}"
        for path, tree in _trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"StoredCourse", "SessionRecord"}
    ]
    assert others == []
