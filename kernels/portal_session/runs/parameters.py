"""Parameters of a source: what a notebook's cell with the tag "parameters" declares
(https://papermill.readthedocs.io), and the values that a point may give them."""

from __future__ import annotations

import ast
import io
import itertools
import json
import math
import re
import tokenize
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Union

from . import RunError
from .source import PARAMETERS, Source, is_tagged, language_of, text_of

Scalar = Union[str, int, float, bool, None]
Declared = Mapping[str, "Parameter"]

LONGEST = 10_000  # characters of a text
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
# As Python and shells take them; 007 is a text, such as an id.
_NUMBER = re.compile(
    r"[+-]?((0|[1-9][0-9]{0,400})(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,4})?"
)
_WHOLE = re.compile(r"[+-]?[0-9]+")
_MOST_PARSES = 50  # of a cell with IPython's commands, for each at first
_TYPE_COMMENT = re.compile(r"@param\b.*|type:\s*\S+\s*")  # of Colab's forms, of papermill
_WORDS: dict[str, Scalar] = {
    **{"true": True, "True": True, "false": False, "False": False},
    **{"null": None, "None": None},
}
_NUMBERS = frozenset({"int", "float"})


class Parameter(NamedTuple):
    """Parameter that a notebook declares: the ``type`` of its value, such as "int", "" if that is
    no literal; the value as the cell has it; the comment behind it."""

    name: str
    type: str
    value: str
    help: str


class NoParameters(dict[str, Parameter]):
    """Parameters of a notebook that has them in another language than Python: none can be set."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self.language = language


def declared(source: Source) -> dict[str, Parameter] | None:
    """Return the parameters of a notebook by name, in their order; None of a script, which takes
    any. Raises RunError for a cell that cannot be read."""
    if source.notebook is None:
        return None
    for cell in source.notebook["cells"]:
        if is_tagged(cell, PARAMETERS):
            if language_of(source.notebook) != "python":
                return NoParameters(language_of(source.notebook))
            return {parameter.name: parameter for parameter in _read(text_of(cell))}
    return {}


def _read(text: str) -> Iterator[Parameter]:
    """Yield the parameters in the text of a cell."""
    tree, plain, commands = _parsed(text)
    comments = _comments(plain)
    for node in tree.body:
        if isinstance(node, ast.Assign):
            pairs = [pair for target in node.targets for pair in _pairs(target, node.value)]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            pairs = [(node.target, node.value)]
        else:
            continue
        comment = comments.get(node.end_lineno or node.lineno, "")
        for target, value in pairs:
            if not isinstance(target, ast.Name):
                continue
            kind = _type(value)
            if kind == "int" and isinstance(node, ast.AnnAssign):  # lr: float = 1
                named = node.annotation
                kind = "float" if isinstance(named, ast.Name) and named.id == "float" else kind
            value_text = ast.get_source_segment(plain, value) or ""
            if node.lineno in commands:
                kind, value_text = "", commands[node.lineno]
            yield Parameter(target.id, kind, value_text, comment)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the targets of an assignment with their values: ``a, b = 1, 2`` has two."""
    if not isinstance(target, (ast.Tuple, ast.List)):
        yield target, value
        return
    values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
    plain = not any(isinstance(item, ast.Starred) for item in (*target.elts, *values))
    each = plain and len(values) == len(target.elts)
    for number, item in enumerate(target.elts):
        yield from _pairs(item, values[number] if each else value)


def _parsed(text: str) -> tuple[ast.Module, str, dict[int, str]]:
    """Return the tree of a cell; its text, with Python in place of IPython's commands; and the
    commands whose output is assigned, by line. Raises RunError."""
    lines, commands = text.split("\n"), dict[int, str]()
    for tries in itertools.count():
        plain = "\n".join(lines)
        try:
            return ast.parse(plain), plain, commands
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            # A line that begins with % may continue an expression: it is no command there.
            line, every = getattr(error, "lineno", None) or 0, range(1, len(lines) + 1)
            choices = ([line], every) if tries < _MOST_PARSES else (every,)
            if not any(sum(_replaced(lines, n, commands) for n in numbers) for numbers in choices):
                where = f" in line {line}" if line else ""
                raise RunError(
                    f"The cell with the tag '{PARAMETERS}' cannot be read: it is not Python{where}."
                ) from None
    raise AssertionError


def _replaced(lines: list[str], number: int, commands: dict[int, str]) -> bool:
    """Put Python in place of the command in a line, by its number from 1, and of the lines that
    continue it; return True if it has one."""
    line = lines[number - 1] if 0 < number <= len(lines) else ""
    name, _, value = line.partition("=")
    if value.lstrip()[:1] in ("%", "!"):  # files = !ls
        commands[number] = value.strip()
        lines[number - 1] = f"{name}= None"
    elif line.lstrip()[:1] in ("%", "!", "?") or line.rstrip().endswith("?"):
        lines[number - 1] = "pass"
    else:
        return False
    while line.endswith("\\") and number < len(lines):
        line, lines[number] = lines[number], ""
        number += 1
    return True


def _type(value: ast.expr) -> str:
    try:
        return type(ast.literal_eval(value)).__name__
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return ""


def _comments(text: str) -> dict[int, str]:
    """Return the comments by line, without what they say of types."""
    comments = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                comment = token.string.lstrip("# ").strip()
                comments[token.start[0]] = _TYPE_COMMENT.sub("", comment, count=1)
    except (tokenize.TokenError, SyntaxError):
        pass  # those before are known
    return comments


def check_name(name: str, known: Declared | None) -> None:
    """Raise RunError unless a value can be given to ``name``. ``known``: what the notebook
    declares; None of a script."""
    if known is None:
        if not _NAME.fullmatch(name):
            raise RunError(
                f"'{name[:100]}' is not a valid parameter name. Begin with a letter, and use "
                "at most 100 letters, digits, underscores, dots and dashes."
            )
    elif isinstance(known, NoParameters):
        raise RunError(
            "Parameters can only be set in notebooks with a Python kernel; this one's language is "
            f"'{known.language}'."
        )
    elif not known:
        raise RunError(
            f"The notebook declares no parameters, so '{name[:100]}' cannot be set. Give a cell "
            f"the tag '{PARAMETERS}', and assign default values in it."
        )
    elif name not in known:
        raise RunError(
            f"The notebook has no parameter '{name[:100]}'. Its parameters: {', '.join(known)}."
        )


def read_value(name: str, text: str, known: Declared | None) -> Scalar:
    """Return the value of a parameter that is written as text, by the type of what the notebook
    declares; without that, numbers, true, false and null are themselves. Raises RunError."""
    kind = known[name].type if known else ""
    value: Scalar = text
    if kind != "str":
        plain = text.strip()
        if plain in _WORDS:
            value = _WORDS[plain]
        elif _NUMBER.fullmatch(plain):
            value = int(plain) if _WHOLE.fullmatch(plain) else float(plain)
        elif kind in _NUMBERS and plain.lower().lstrip("+-") in ("nan", "inf", "infinity"):
            value = float(plain)
    return check_value(name, value, known)


def written(value: Scalar) -> str:
    """Return a value as an argument has it."""
    return value if isinstance(value, str) else json.dumps(value)


def check_value(name: str, value: Any, known: Declared | None) -> Scalar:
    """Return the value, as a float for a parameter that is one. Raises RunError unless it is a JSON
    scalar of the notebook's type."""
    if isinstance(value, float) and not math.isfinite(value):
        raise RunError(
            f"'{name}' cannot be {value}: JSON has no such number. Pass a string instead, and "
            "convert it in the source."
        )
    if isinstance(value, str):
        _check_text(name, value)
    elif value is not None and not isinstance(value, (int, float)):
        raise RunError(f"Each value of '{name}' must be a number, a string, true, false or null.")
    kind = known[name].type if known else ""
    if value is None or not kind or kind == "NoneType":
        return value
    if kind in _NUMBERS and not isinstance(value, (bool, str)):
        if kind == "int" and isinstance(value, float):
            if not value.is_integer():
                raise RunError(
                    f"'{name}' is a whole number in the notebook, and cannot be {value}. Give it "
                    "a default with a decimal point, such as 1.0, if it takes fractions."
                )
            return int(value)
        return float(value) if kind == "float" and abs(value) < 1e300 else value
    if type(value).__name__ == kind:
        return value
    if kind in ("int", "float", "str", "bool"):
        words = {"int": "a number", "float": "a number", "str": "a string", "bool": "true or false"}
        raise RunError(
            f"'{name}' is {words[kind]} in the notebook, and cannot be {json.dumps(value)[:100]}."
        )
    raise RunError(
        f"'{name}' is a {kind} in the notebook, but points can only set numbers, strings, true and "
        "false. Declare a parameter of such a type, and derive the other from it."
    )


def _check_text(name: str, text: str) -> None:
    if len(text) > LONGEST:
        raise RunError(f"A string of '{name}' is longer than {LONGEST:,} characters. Use a file.")
    try:
        whole = "\0" not in text and bool(text.encode() or True)
    except UnicodeEncodeError:
        whole = False
    if not whole:
        raise RunError(
            f"A string of '{name}' has a character that cannot be passed to programs (NUL, or half "
            "of a surrogate pair)."
        )
