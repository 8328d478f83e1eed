"""Edits of an environment's file: only what a new version changes is written anew.

All other text stays as an admin wrote it: comments, the order of keys, the spelling of values. The
places of values are those of PyYAML's nodes. A comment above a removed key stays.
"""

from __future__ import annotations

import json
import re
from difflib import SequenceMatcher
from typing import Any

import yaml
from pydantic import ValidationError

from portal.models.catalog.environment import Environment

from .document import DocumentError, nodes_of, read_document
from .yaml_text import definition_of, document_text, yaml_text

# What may stand between a key, or a value, and the comment at the end of its line.
_COMMENT = re.compile(r"[:|>+\-0-9]*[ \t]+(#[^\n]*)")


class _Unsuitable(Exception):
    """Form of a collection in which a single entry cannot be replaced."""


def edited_text(raw: bytes, environment: Environment) -> str:
    """Return the text of the file ``raw`` with ``environment`` in place of what it defines; the
    text of a new file if its form, such as one in braces, does not allow that."""
    fresh = yaml_text(environment)
    try:
        text = raw.decode("utf-8-sig")
        line_end = "\r\n" if "\r\n" in text else "\n"
        text = text.replace("\r\n", "\n")
        text += "" if text.endswith("\n") else "\n"
        old = definition_of(Environment.model_validate(read_document(raw).data))
        edits = _Edits(text)
        edits.change_mapping(nodes_of(text), old, definition_of(environment))
        edited = edits.result().replace("\n", line_end)
        again = Environment.model_validate(read_document(edited.encode()).data)
    except (DocumentError, UnicodeDecodeError, ValidationError, _Unsuitable):
        return fresh
    return edited if yaml_text(again) == fresh else fresh


class _Edits:
    """Replacements in ``text``: (start, end, what stands there instead)."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._edits: list[tuple[int, int, str]] = []

    def result(self) -> str:
        """Return the text with all replacements; those at one place are in the order given."""
        parts, at = [], 0
        for start, end, new in sorted(self._edits, key=lambda edit: edit[0]):
            parts += [self._text[at:start], new]
            at = end
        return "".join([*parts, self._text[at:]])

    def change_mapping(
        self, node: yaml.Node | None, old: dict[str, Any], new: dict[str, Any]
    ) -> None:
        """Write what differs between ``old``, which ``node`` stands for, and ``new``. A key that is
        in neither stays. Raises _Unsuitable."""
        if not isinstance(node, yaml.MappingNode) or node.flow_style:
            raise _Unsuitable
        entries = {key.value: (key, value) for key, value in node.value}
        before = None  # the entry that a new key follows
        for name, value in new.items():
            entry = entries.get(name)
            if name not in old or old[name] != value:
                fresh = _indented(document_text({name: value}), node.start_mark.column)
                if entry is None:
                    at = self._after(before[1]) if before else self._above(node.value[0][0])
                    self._edits.append((at, at, fresh))
                else:
                    self._change(*entry, old.get(name), value, fresh)
            before = entry or before
        for name in old.keys() - new.keys() & entries.keys():
            key, value = entries[name]
            self._edits.append((self._line(key), self._after(value), ""))

    def _change_items(self, node: yaml.Node, old: list[Any], new: list[Any]) -> None:
        """Write the items of a list that differ. Raises _Unsuitable."""
        if len(node.value) != len(old):
            raise _Unsuitable
        column = node.start_mark.column
        known, wanted = (
            [json.dumps(item, sort_keys=True) for item in items] for items in (old, new)
        )
        for kind, i, end, j, new_end in SequenceMatcher(None, known, wanted).get_opcodes():
            if kind == "equal":
                continue
            pairs = min(end - i, new_end - j)
            for n in range(pairs):
                fresh = _indented(_item(new[j + n]), column)
                self._change(None, node.value[i + n], old[i + n], new[j + n], fresh)
            for item in node.value[i + pairs : end]:
                self._edits.append((self._line(item, "-"), self._after(item), ""))
            added = "".join(_indented(_item(item), column) for item in new[j + pairs : new_end])
            at = self._after(node.value[end - 1]) if end else self._above(node.value[0], "-")
            self._edits.append((at, at, added))

    def _change(
        self, key: yaml.Node | None, node: yaml.Node, old: Any, new: Any, fresh: str
    ) -> None:
        """Replace the value ``node`` of ``key``, or of an item of a list; ``fresh``: the lines of
        the whole entry. Raises _Unsuitable."""
        number = len(self._edits)
        try:
            if _is_block(node) and isinstance(old, dict) and isinstance(new, dict):
                self.change_mapping(node, old, new)
                return
            if _is_block(node) and isinstance(old, list) and isinstance(new, list):
                self._change_items(node, old, new)
                return
        except _Unsuitable:
            del self._edits[number:]
        start, end = node.start_mark.index, self._end(node)
        inline = document_text({"x": new}).removeprefix("x: ").removesuffix("\n")
        if not _is_block(node) and "\n" not in inline:
            self._edits.append((start, end, inline if end > start else f" {inline}"))
            return
        place = end
        if _is_block(node):
            place = start if isinstance(node, yaml.ScalarNode) or not key else key.end_mark.index
        if comment := _COMMENT.match(self._text, place):
            at = len(fresh) - 1 if inline[:1] in ("'", '"') else fresh.index("\n")
            fresh = f"{fresh[:at]}  {comment[1]}{fresh[at:]}"
        self._edits.append((self._line(key or node, "" if key else "-"), self._after(node), fresh))

    def _line(self, node: yaml.Node, before: str = "") -> int:
        """Return where the line of ``node`` begins, which has only ``before`` and blanks before
        it. Raises _Unsuitable."""
        start = self._text.rfind("\n", 0, node.start_mark.index) + 1
        if self._text[start : node.start_mark.index].strip() != before:
            raise _Unsuitable
        return start

    def _above(self, node: yaml.Node, before: str = "") -> int:
        """Return where the comments above ``node`` begin. Raises _Unsuitable."""
        start = self._line(node, before)
        while (line := self._text.rfind("\n", 0, start - 1) + 1) < start:
            if not self._text[line:start].lstrip().startswith("#"):
                break
            start = line
        return start

    def _end(self, node: yaml.Node) -> int:
        """Return where the value ends. PyYAML's marks of blocks are after the comments below."""
        if not _is_block(node):
            return int(node.end_mark.index)
        if isinstance(node, yaml.ScalarNode):
            return len(self._text[: node.end_mark.index].rstrip())
        last = node.value[-1]
        return self._end(last[1] if isinstance(node, yaml.MappingNode) else last)

    def _after(self, node: yaml.Node) -> int:
        """Return where the line after the value begins."""
        return self._text.find("\n", self._end(node)) + 1


def _is_block(node: yaml.Node) -> bool:
    if isinstance(node, yaml.ScalarNode):
        return node.style in ("|", ">")
    return isinstance(node, yaml.CollectionNode) and not node.flow_style


def _item(value: Any) -> str:
    """Return the lines of an item of a list."""
    first, _, rest = document_text({"x": value}).partition("\n")
    return f"- {rest[2:]}" if first == "x:" else f"- {first.removeprefix('x: ')}\n{rest}"


def _indented(text: str, columns: int) -> str:
    return "".join(
        f"{' ' * columns}{line}" if line.strip() else line for line in text.splitlines(True)
    )
