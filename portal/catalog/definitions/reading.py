"""Reader of definitions, for files, pages, the API and the commands: an environment, or errors."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from pydantic import ValidationError

from portal.models.catalog.environment import Environment

from .document import DocumentError, read_document
from .problems import CatalogError, explained
from .rules import CatalogRules


class Reading(NamedTuple):
    """Result of reading a text: an environment, or errors. ``hash``: SHA-256 of its bytes."""

    environment: Environment | None
    errors: tuple[CatalogError, ...]
    name_line: int | None = None
    hash: str = ""


def hash_of(raw: bytes) -> str:
    """Return the SHA-256 of a file's content, hexadecimal."""
    return hashlib.sha256(raw).hexdigest()


def read_definition(raw: bytes, file: str, rules: CatalogRules, max_size: int) -> Reading:
    """Read an environment from the YAML ``raw``, at most ``max_size`` bytes; raise nothing."""
    if len(raw) > max_size:
        reason = f"larger than {max_size} bytes"
        return Reading(None, (CatalogError(file=file, line=None, message=reason),))
    try:
        document = read_document(raw)
    except DocumentError as error:
        wrong = CatalogError(file=file, line=error.line, message=error.message)
        return Reading(None, (wrong,), hash=hash_of(raw))
    try:
        environment = Environment.model_validate(document.data)
    except ValidationError as error:
        return Reading(None, explained(error, file, document.line_of), hash=hash_of(raw))
    line = document.line_of(("name",))
    broken = tuple(rules.problems(environment, file, document.line_of))
    return Reading(None if broken else environment, broken, line, hash_of(raw))


def check_definition(values: dict[str, Any], rules: CatalogRules) -> Reading:
    """Read an environment from the plain values of a form or a JSON body; errors have no lines."""
    try:
        environment = Environment.model_validate(values)
    except ValidationError as error:
        return Reading(None, explained(error))
    broken = tuple(rules.problems(environment))
    return Reading(None if broken else environment, broken)
