"""Docstrings and names of the product: they open with a verb or a noun; names can be found."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("portal", "spawners", "kernels")
SHARE = 0.05  # of the docstrings of each part that may begin with one all the same
CLAUSES = {
    *("and", "as", "because", "but", "he", "how", "if", "it", "nobody", "none", "nothing", "or"),
    *("she", "so", "that", "there", "these", "they", "those", "until", "what", "whatever", "when"),
    *("where", "wherever", "whether", "which", "whichever", "while", "who", "whoever", "whom"),
    *("whose", "why"),
}

BARE_NAMES = {"of", "look", "tell", "add"}


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring, those below attributes too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    if isinstance(statement.value.value, str):
                        yield statement.lineno, statement.value.value.strip()


def opens_with_clause(text: str) -> bool:
    """Return True if the first words of ``text`` begin a clause, e.g. "What" or "The same"."""
    first = text.split(maxsplit=1)[0].strip(".,:;`*\"'()").lower().split("'")[0] if text else ""
    return first in CLAUSES or text.lower().startswith("the same")


def variables_named_one(source: str) -> Iterator[int]:
    """Yield the lines that make a variable or a parameter called ``one``."""
    for node in ast.walk(ast.parse(source)):
        stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == "one"
        if stored or (isinstance(node, ast.arg) and node.arg == "one"):
            yield node.lineno


def functions_with_bare_names(source: str) -> Iterator[int]:
    """Yield the lines of functions and methods whose name cannot be searched for."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in BARE_NAMES:
            yield node.lineno


@pytest.mark.parametrize("part", PRODUCT)
def test_docstrings_begin_with_a_verb_or_a_noun(part: str) -> None:
    texts, clauses = 0, []
    for path in sorted((ROOT / part).rglob("*.py")):
        for line, text in docstrings(path.read_text()):
            texts += 1
            if opens_with_clause(text):
                clauses.append(f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}")
    print(f"{len(clauses)} of {texts} docstrings of {part} begin with a clause")
    assert len(clauses) <= SHARE * texts, "\n".join(clauses)


@pytest.mark.parametrize("part", PRODUCT)
@pytest.mark.parametrize("forbidden", [variables_named_one, functions_with_bare_names])
def test_names_say_what_they_are(part: str, forbidden: Callable[[str], Iterator[int]]) -> None:
    lines = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / part).rglob("*.py"))
        for line in forbidden(path.read_text())
    ]
    assert not lines, f"{forbidden.__name__}: {lines}"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("class A:\n    def look(self): ...", [2]),
        ("def look_up(): ...", []),
        ("of = 1", []),
    ],
)
def test_bare_names_are_found(source: str, lines: list[int]) -> None:
    assert list(functions_with_bare_names(source)) == lines


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("What lies behind it.", True),
        ("Whether it runs.", True),
        ("The same for a class.", True),
        ("``None``: one too many.", True),
        ("Return what lies behind it.", False),
        ("Nodes that take jobs.", False),
        ("Whatsoever's Reader.", False),
        ("", False),
    ],
)
def test_a_clause_is_told_by_its_first_word(text: str, clause: bool) -> None:
    assert opens_with_clause(text) is clause
