"""Parameters of a source: what a notebook's cell with the tag "parameters" declares
(https://papermill.readthedocs.io), and the values that a point may give them."""

from __future__ import annotations

import ast
import io
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
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,400})(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,4})?")
_TYPE_COMMENT = re.compile(r"type:\s*\S+\s*")
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


def declared(source: Source) -> dict[str, Parameter] | None:
    """Return the parameters of a notebook by name, in their order; None of a script, which takes
    any. Raises RunError for a cell that cannot be read."""
    if source.notebook is None:
        return None
    for cell in source.notebook["cells"]:
        if is_tagged(cell, PARAMETERS):
            if language_of(source.notebook) != "python":
                raise RunError(
                    "Parameters can only be set in notebooks with a Python kernel; this one's "
                    f"language is '{language_of(source.notebook)}'."
                )
            return {parameter.name: parameter for parameter in _read(text_of(cell))}
    return {}


def _read(text: str) -> Iterator[Parameter]:
    """Yield the parameters in the text of a cell."""
    comments = _comments(text)
    for node in _tree(text).body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            target, value = node.target, node.value
        else:
            continue
        if isinstance(target, ast.Name):
            comment = comments.get(node.end_lineno or node.lineno, "")
            written = ast.get_source_segment(text, value) or ""
            yield Parameter(target.id, _type(value), written, comment)


def _tree(text: str) -> ast.Module:
    """Parse a cell, at first with IPython's magics. Raises RunError."""
    plain = "\n".join("" if line.lstrip()[:1] in ("%", "!") else line for line in text.split("\n"))
    try:
        return ast.parse(plain)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        where = f" in line {line}" if line else ""
        raise RunError(
            f"The cell with the tag '{PARAMETERS}' cannot be read: it is not Python{where}."
        ) from None


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
                said = token.string.lstrip("# ").strip()
                comments[token.start[0]] = _TYPE_COMMENT.sub("", said, count=1)
    except (tokenize.TokenError, SyntaxError):
        pass  # magics: the comments before them are known
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
        if text in _WORDS:
            value = _WORDS[text]
        elif _NUMBER.fullmatch(text):
            value = json.loads(text)
        elif kind in _NUMBERS and text.strip().lower().lstrip("+-") in ("nan", "inf", "infinity"):
            value = float(text)
    return check_value(name, value, known)


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
