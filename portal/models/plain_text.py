"""Checks of text that people write for others: no control or bidirectional characters."""

from __future__ import annotations

import unicodedata

from pydantic import AfterValidator, Field

# Unicode categories that are refused: control, format (bidirectional marks, zero-width),
# surrogates, and the separators of lines and paragraphs.
_NO_TEXT = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_FINE = "\n\t\u200c\u200d"  # the joiners belong to some scripts and emoji


def plain_text(text: str) -> str:
    """Return ``text`` if others may see it; newlines and tabs are fine. Raises ValueError."""
    for letter in text:
        if unicodedata.category(letter) in _NO_TEXT and letter not in _FINE:
            raise ValueError(
                f"it contains the character U+{ord(letter):04X}, which is not text; remove it"
            )
    return text


def plain_line(text: str) -> str:
    """Return ``text`` if it is plain, one line and without double quotes. Raises ValueError."""
    if set(text) & {"\n", "\t", '"'}:
        raise ValueError("it must be one line, without tabs and double quotes")
    return plain_text(text)


def escaped(text: str) -> str:
    """Return ``text`` on one line, for a log: what is not text is escaped as in JSON."""
    if text.isprintable():
        return text
    return "".join(
        f"\\u{ord(letter):04x}" if unicodedata.category(letter) in _NO_TEXT else letter
        for letter in text
    )


# Place them after StringConstraints, which strip first. The patterns describe the functions'
# checks in the OpenAPI document, as far as a pattern can.
_CONTROL = r"\u0000-\u0008\u000b-\u001f\u007f-\u009f"
PLAIN_TEXT = (
    AfterValidator(plain_text),
    Field(json_schema_extra={"pattern": rf"^[^{_CONTROL}]*$"}),
)
PLAIN_LINE = (
    AfterValidator(plain_line),
    Field(json_schema_extra={"pattern": rf'^[^{_CONTROL}\t\n"]*$'}),
)
