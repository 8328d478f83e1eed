"""Questions on a terminal: only about what was neither given nor found."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable
from typing import Any

from portal.errors import InvalidRequest

from .answers import QUESTIONS, Question

Input = Callable[[str], str]


def ask_missing(
    given: dict[str, Any], found: dict[str, Any], read: Input = input
) -> dict[str, Any]:
    """Return ``given`` with the answers of the terminal: a found value is the default of a question
    that is needed, and what is neither needed nor found is not asked."""
    answers = dict(given)
    for key, question in QUESTIONS.items():
        if key in answers or not _is_asked(question, answers, found):
            continue
        default = found.get(key, question.default)
        while True:
            try:
                line = read(f"{question.words}{_shown(default)}: ").strip()
                value = question.read(line) if line else default
            except InvalidRequest as error:
                print(error.message, file=sys.stderr)
                continue
            except EOFError:
                raise InvalidRequest(f"{key} is not answered. Nothing was changed.") from None
            if value or not question.needed:
                answers[key] = value
                break
            print(f"{key} is needed.", file=sys.stderr)
    return answers


def ask_password(words: str) -> str:
    """Return a password that is typed, hidden; "" without a terminal."""
    return getpass.getpass(words) if sys.stdin.isatty() else ""


def agreed(words: str, read: Input = input) -> bool:
    """Return True if the reader agrees."""
    try:
        return read(f"{words} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        raise InvalidRequest("There is no terminal to ask. Add --yes.") from None


def _is_asked(question: Question, answers: dict[str, Any], found: dict[str, Any]) -> bool:
    if question.key == "ldap_password_file":  # typed, hidden, or found
        return False
    if question.when:
        return answers.get(question.when, "none") not in ("", "none")
    if question.key in ("https", "environment", "test_user", "admin_groups", "allowed_groups"):
        return True  # nothing on the machine tells them
    if question.key == "ldap_bind_dn":
        return question.key not in found
    return question.needed and question.key not in ("account", "ports")


def _shown(default: Any) -> str:
    text = "; ".join(default) if isinstance(default, list) else str(default)
    return f" [{text}]" if text else ""
