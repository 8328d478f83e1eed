"""Findings on a submit host, for the answers that need not be given."""

from __future__ import annotations

from typing import Any

from portal.errors import InvalidRequest

from ..answers import QUESTIONS
from ..place import Place
from .directory import find_directory
from .machine import find_machine
from .slurm import find_slurm


class Found:
    """Findings: ``answers`` by key, ``notes`` for the reader, and the search account's
    ``password``, which is never printed."""

    def __init__(self, answers: dict[str, Any], notes: list[str], password: str) -> None:
        self.answers, self.notes, self.password = answers, notes, password


def find(place: Place) -> Found:
    """Look around on this machine; nothing is changed, and what fails is not found."""
    slurm, notes = find_slurm(place)
    directory, password, where = find_directory(place)
    machine, more = find_machine(place)
    if where:
        notes.append(f"LDAP from {where}.")
    answers: dict[str, Any] = {}
    for key, value in {**machine, **slurm, **directory}.items():
        try:
            answers[key] = QUESTIONS[key].read(value)
        except InvalidRequest:
            continue  # not as it must be here: it is asked
    found = {key: value for key, value in answers.items() if value}
    return Found(found, notes + more, password)
