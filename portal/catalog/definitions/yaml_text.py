"""YAML as written by pages, the API and ``portal environments export``.

Equal environments give equal texts: keys in the order of the model, defaults left out, long text
as a block. ``portal.catalog.definitions.document`` reads the same values back.
"""

from __future__ import annotations

import sys
from typing import Any

import yaml

from portal.models.catalog.environment import Environment

from .document import CoreSchema

_INLINE = 72  # most characters of a list on one line


def yaml_text(environment: Environment) -> str:
    """Return ``environment`` as the text of a catalog file."""
    return document_text(definition_of(environment))


def definition_of(environment: Environment) -> dict[str, Any]:
    """Return the keys and values of the file: what differs from the defaults, and of ``default``
    what was set (no GPUs, set on purpose, is not the same as unset)."""
    values = environment.model_dump(mode="json", exclude_defaults=True)
    asked = environment.default.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    values.pop("default", None)
    if asked:
        values["default"] = asked
    return {name: values[name] for name in Environment.model_fields if name in values}


def document_text(values: dict[str, Any]) -> str:
    """Return plain values (text, numbers, booleans, null, lists, mappings by text) as YAML."""
    return yaml.dump(
        values,
        Dumper=_Writer,
        allow_unicode=True,
        sort_keys=False,
        default_flow_style=False,
        width=sys.maxsize,
    )


class _Writer(CoreSchema, yaml.SafeDumper):
    """PyYAML's writer; it quotes text that the reader would not take for text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True  # the reader refuses them

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)  # items of a list stand below their key


def _text(writer: _Writer, value: str) -> yaml.Node:
    """Represent several lines as a block, and text with line breaks other than "\\n" with escapes,
    since PyYAML writes those unchanged and reads them back as "\\n"."""
    # A block that begins with blanks needs a number in its head, which PyYAML writes wrongly where
    # the first line is empty.
    block = "\n" in value.rstrip("\n") and "\t" not in value and value[:1] not in (" ", "\n")
    style = '"' if set(value) & {"\r", "\x85", "\u2028", "\u2029"} else "|" if block else None
    return writer.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _list(writer: _Writer, value: list[Any]) -> yaml.Node:
    plain = all(isinstance(item, str) and "\n" not in item for item in value)
    short = sum(len(str(item)) + 2 for item in value) <= _INLINE
    return writer.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=plain and short)


_Writer.add_representer(str, _text)
_Writer.add_representer(list, _list)
