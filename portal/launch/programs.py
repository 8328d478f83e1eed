"""Programs that a site defines, and those that sessions of an environment can open."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from traitlets import Dict
from traitlets.config import Configurable

from ..errors import ConfigurationError
from ..models.catalog.environment import Environment
from ..models.catalog.program import ProgramDefinition
from ..setting import setting
from .kinds import Kind, add_kinds, program_kinds
from .kinds.program import ProgramKind, program_kind


class Programs(Configurable):
    """Programs of a site, in addition to the portal's own."""

    definitions = setting(
        Dict(),
        """Programs by name, which environments name in `opens`: what sessions open instead of
        JupyterLab or beside it. Each has a `title` and an `argv`, with {python}, {socket} or {port}
        of 127.0.0.1 (where it listens), {base} (the path in the browser), and {secret} (a file with
        the password that it must ask for if it has a port); what it needs of the environment,
        `package` (of Python) or `executable`; and, if older ones are not safe on a shared node,
        its `least` version and the `reason`. docs/how-to/programs.md.""",
        """c.Programs.definitions = {
    "viewer": {
        "title": "Viewer",
        "argv": ["viewer", "--socket", "{socket}", "--prefix", "{base}"],
        "executable": "viewer",
    },
}""",
    )

    def register(self) -> None:
        """Add their kinds, before this process serves. Raises ConfigurationError."""
        add_kinds(*(program_kind(_read(*item)) for item in self.definitions.items()))


def programs_of(environment: Environment) -> dict[str, type[ProgramKind]]:
    """Return the programs that an environment opens, by name; unknown ones are left out."""
    known = program_kinds()
    return {name: known[name] for name in environment.opens if name in known}


def opened_beside(kind: type[Kind], space: str, environment: Environment | None) -> dict[str, str]:
    """Return the titles of the programs that can be opened beside a running session, by name: none
    in a space, whose members and helpers are let into its sessions."""
    if environment is None or space or not kind.programs:
        return {}
    return {name: program.title for name, program in programs_of(environment).items()}


def session_variables(kind: Kind, environment: Environment) -> dict[str, str]:
    """Return the variable with the programs that such a session opens beside it."""
    opened = opened_beside(type(kind), kind.space_name, environment)
    if not opened:
        return {}
    known = program_kinds()
    return {"PORTAL_OPENS": json.dumps({name: known[name].for_session() for name in opened})}


def _read(name: str, value: Any) -> ProgramDefinition:
    place = f"c.Programs.definitions[{name!r}]"
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{place} must be a dictionary with 'title' and 'argv'.")
    try:
        return ProgramDefinition.model_validate({**value, "name": name})
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in wrong["loc"])
        sentence = wrong["msg"].removeprefix("Value error, ")
        raise ConfigurationError(f"{place}{f', {field}' if field else ''}: {sentence}.") from None
