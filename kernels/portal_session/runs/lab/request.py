"""Request of JupyterLab's dialog for a run, as the options of ``portal-run``: one parser reads
both, so they have the same rules and sentences."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import RunError
from ..portal_run.command import parser
from ..portal_run.resources import Fields

_NUMBERS = ("sample", "seed", "at_once")
_TEXTS = ("name", "environment", "after")
_LONGEST = 1000  # characters of a path or name
_LONGEST_VALUES = 10_000  # characters of the values of a parameter
_MOST = 200  # parameters


class _Parser(argparse.ArgumentParser):
    """Parser whose errors name the field, since the dialog shows them there."""

    def error(self, message: str) -> Any:
        option, _, why = message.partition(": ")
        _, argument, name = option.partition("argument --")
        error = RunError(f"{why[:1].upper()}{why[1:]}." if argument else f"{message}.")
        error.field = name.replace("-", "_")
        raise error


def source_path(asked: Any, root: Path) -> Path:
    """Return the path of a source that JupyterLab names: relative to ``root``, the server's folder.
    Raises RunError."""
    path = _text(asked, "source", "The notebook or script").strip("/")
    if not path or ".." in path.split("/"):
        raise _wrong("source", "The path of the notebook or script cannot be used.")
    return root / path


def options_of(body: Mapping[str, Any], source: Path, fields: Fields = ()) -> argparse.Namespace:
    """Return the options of a request, as `command.parser` does. ``body``: of the dialog, with
    ``name``, ``values`` (text by parameter, "0.1, 0.01"), ``file`` (path of a list of points,
    relative to the source's folder), ``sample``, ``seed``, ``at_once``, ``environment``, ``after``
    (name or id of a run) and ``resources``. ``source``: the absolute path of the notebook or
    script; ``fields``: those of resources. Raises RunError, with its field."""
    argv = [f"--set={name}={values}" for name, values in _values(body.get("values"))]
    for key in _TEXTS:
        if body.get(key) not in (None, ""):
            argv.append(f"--{key}={_text(body[key], key, 'The name')}")
    for key in _NUMBERS:
        if body.get(key) is not None:
            argv.append(f"--{key.replace('_', '-')}={_scalar(body[key], key)}")
    if body.get("file") not in (None, ""):
        argv.append(f"--list={_list_path(body['file'], source)}")
    resources = body.get("resources") or {}
    names = [field["name"] for field in fields]
    if not isinstance(resources, dict) or not set(resources) <= set(names):
        raise _wrong("resources", f"'resources' must be an object with {', '.join(names)}.")
    for key, value in resources.items():
        if value not in (None, ""):
            argv.append(f"--{key.replace('_', '-')}={_scalar(value, key)}")
    return parser(fields, _Parser).parse_args([*argv, "--", str(source)])


def _values(values: Any) -> list[tuple[str, str]]:
    """Return the parameters that have values, and these without the spaces between them."""
    if values is None:
        return []
    if not isinstance(values, dict) or len(values) > _MOST:
        raise _wrong("values", f"'values' must be an object with at most {_MOST} names.")
    named = []
    for name, text in values.items():
        field = f"values:{name}"
        if "=" in name:
            raise _wrong(field, f"'{name[:100]}' is not a valid parameter name.")
        if not isinstance(text, str) or len(text) > _LONGEST_VALUES:
            raise _wrong(
                field, f"The values of '{name[:100]}' are longer than {_LONGEST_VALUES:,}."
            )
        text = text.strip()
        if text and not text.startswith("["):
            text = ",".join(part.strip() for part in text.split(","))
        if text:
            named.append((name, text))
    return named


def _list_path(asked: Any, source: Path) -> Path:
    """Return the path of a list of points. Raises RunError."""
    path = _text(asked, "file", "The list of points")
    try:
        return source.parent / Path(path).expanduser()
    except RuntimeError:
        raise _wrong("file", f"There is no file '{path}'. Check the path.") from None


def _text(value: Any, field: str, what: str) -> str:
    """Return a text that can be a path or an argument. Raises RunError."""
    if not isinstance(value, str) or not value.isprintable() or len(value) > _LONGEST:
        raise _wrong(
            field, f"{what} must be a string of at most {_LONGEST:,} printable characters."
        )
    return value


def _scalar(value: Any, field: str) -> str:
    """Return a number or a text as an argument. Raises RunError."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise _wrong(field, f"'{field[:100]}' must be a whole number or a string.")
    return _text(str(value)[:_LONGEST], field, f"'{field[:100]}'")


def _wrong(field: str, sentence: str) -> RunError:
    error = RunError(sentence)
    error.field = field
    return error
