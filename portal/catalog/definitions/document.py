"""Document: a YAML file read into plain values, with the line of each value.

Only the plain part of YAML is read: mappings, lists, text, whole and decimal numbers, true,
false and null (the "core schema" of YAML 1.2, https://yaml.org/spec/1.2.2/#103-core-schema).
PyYAML's own reader follows YAML 1.1, where ``2:00:00`` is the number 7200 and ``no`` is false:
wrong for times and names. Anchors, aliases and tags are refused, so a small file cannot unfold
into a large value, and no class is ever built from one.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from portal.errors import ConfigurationError

MAX_DEPTH = 12

_WHOLE = "tag:yaml.org,2002:int"
_DECIMAL = "tag:yaml.org,2002:float"
_TRUTH = "tag:yaml.org,2002:bool"
_NOTHING = "tag:yaml.org,2002:null"

Location = tuple[str | int, ...]


class DocumentError(ConfigurationError):
    """Error in the text of a document. ``line``: where, from 1; the message is the reason."""

    code = "document_error"

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line


class Document:
    """Document as read. ``data``: its mapping; ``line_of(location)``: the line of a value."""

    def __init__(self, data: dict[str, Any], lines: dict[Location, int]) -> None:
        self.data = data
        self._lines = lines

    def line_of(self, location: Location) -> int:
        """Return the line (from 1) of the value at ``location``, or of the nearest around it."""
        for length in range(len(location), -1, -1):
            line = self._lines.get(tuple(location[:length]))
            if line is not None:
                return line
        return 1


def read_document(raw: bytes) -> Document:
    """Parse the document in ``raw`` (UTF-8). Raises DocumentError with the line that is wrong."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DocumentError("the file is not UTF-8 text", line) from None
    try:
        root = nodes_of(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = error.problem or error.context or "not YAML"
        raise DocumentError(f"not YAML: {reason}", mark.line + 1 if mark else None) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        raise DocumentError(f"not YAML: {error.reason}", line) from None
    except (ValueError, OverflowError):  # PyYAML hands "\UFFFFFFFF" to chr() as it is
        line = next((n for n, row in enumerate(text.split("\n"), 1) if "\\U" in row), 1)
        raise DocumentError("not YAML: invalid character escape", line) from None
    if root is None:
        raise DocumentError("the file is empty", 1)
    lines: dict[Location, int] = {}
    data = _value(root, (), lines)
    if not isinstance(data, dict):
        raise DocumentError("the file must contain 'key: value' lines", lines[()])
    return Document(data, lines)


def nodes_of(text: str) -> yaml.Node | None:
    """Return the root of the nodes of ``text``; None if it is empty. Raises DocumentError and
    PyYAML's errors, but not for what `read_document` accepts."""
    return _Loader(text).get_single_node()


class CoreSchema(yaml.resolver.BaseResolver):
    """Resolver of unquoted text, shared by the reader and the writer (yaml_text.py)."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


class _Loader(CoreSchema, yaml.SafeLoader):
    """PyYAML's parser with the core schema, and without anchors, aliases and tags."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise DocumentError("anchors and aliases ('&', '*') are not allowed here", line)
        if getattr(event, "tag", None):
            raise DocumentError("tags ('!') are not allowed here", line)
        if self._depth >= MAX_DEPTH:
            raise DocumentError(f"nested deeper than {MAX_DEPTH} levels", line)
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


CoreSchema.add_implicit_resolver(
    _NOTHING, re.compile(r"^(~|null|Null|NULL|)$"), ["~", "n", "N", ""]
)
CoreSchema.add_implicit_resolver(
    _TRUTH, re.compile(r"^(true|True|TRUE|false|False|FALSE)$"), [*"tTfF"]
)
CoreSchema.add_implicit_resolver(_WHOLE, re.compile(r"^[-+]?[0-9]{1,18}$"), [*"-+0123456789"])
CoreSchema.add_implicit_resolver(
    _DECIMAL,
    re.compile(r"^[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]{1,3})?$"),
    [*"-+.0123456789"],
)


def _value(node: yaml.Node, location: Location, lines: dict[Location, int]) -> Any:
    """Return the plain value of a node; note the line of each value (of its key, in a mapping)."""
    lines.setdefault(location, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = _value(key_node, (), {})
            if not isinstance(key, str):
                raise DocumentError(f"the key {key!r} must be text: put it in quotes", line)
            if key in values:
                raise DocumentError(f"the key '{key}' is duplicated", line)
            lines[(*location, key)] = line
            values[key] = _value(value_node, (*location, key), lines)
        return values
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*location, i), lines) for i, item in enumerate(node.value)]
    if node.tag == _NOTHING:
        return None
    if node.tag == _TRUTH:
        return node.value.lower() == "true"
    if node.tag == _WHOLE:
        return int(node.value)
    if node.tag == _DECIMAL:
        return float(node.value)
    if any("\ud800" <= letter <= "\udfff" for letter in node.value):
        raise DocumentError("not YAML: invalid character escape", lines[location])
    return node.value
