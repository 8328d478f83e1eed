"""One definition read: the environment, or what is wrong with it. Files, pages, the API and the
commands all read through here."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from pydantic import ValidationError

from portal.models.catalog.environment import Environment

from .document import DocumentError, read_document
from .problems import CatalogError, explained
from .rules import CatalogRules


class Reading(NamedTuple):
    """What came out of a text: an environment, or errors. ``hash``: of its bytes (SHA-256)."""

    environment: Environment | None
    errors: tuple[CatalogError, ...]
    name_line: int | None = None
    hash: str = ""


def hash_of(raw: bytes) -> str:
    """How a file's content is remembered: SHA-256, hexadecimal."""
    return hashlib.sha256(raw).hexdigest()


def read_definition(raw: bytes, file: str, rules: CatalogRules, max_size: int) -> Reading:
    """The environment in the YAML text ``raw`` (at most ``max_size`` bytes); raises nothing."""
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
    """The same for the plain values of a form or a JSON body; no lines."""
    try:
        environment = Environment.model_validate(values)
    except ValidationError as error:
        return Reading(None, explained(error))
    broken = tuple(rules.problems(environment))
    return Reading(None if broken else environment, broken)
