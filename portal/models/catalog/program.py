"""Program of an environment, as data: what sessions open instead of JupyterLab or beside it."""

from __future__ import annotations

import re
from typing import Annotated, Self

from packaging.version import InvalidVersion, Version
from pydantic import Field, StringConstraints, field_validator, model_validator

from .. import Frozen

NAME = r"[a-z0-9-]{1,40}"  # as in the ``opens`` of an environment
_WORDS = {"python", "socket", "port", "base", "secret"}
_Word = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
_Software = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._+-]*$", max_length=100)]


class ProgramDefinition(Frozen):
    """Program ``title``, whose ``argv`` runs in the environment, in the user's home.

    In its words {python} is the environment's Python, {socket} the Unix socket or {port} the port
    of 127.0.0.1 on which the program listens, {base} the path that the browser sees (without it,
    the program gets requests without that path), and {secret} a file with a password. Each user of
    a node can reach a port, so a program with {port} must ask for the password: for HTTP's Basic
    authentication, of any user name.

    The environment needs the Python ``package`` or the ``executable`` of the program. ``least``:
    its oldest version that is safe on a node with other users; ``reason``: the fault that older
    ones have. Older ones pass no smoke test and do not start, and `portal doctor` names them.
    """

    name: Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
    title: Annotated[str, StringConstraints(min_length=1, max_length=40)]
    argv: Annotated[tuple[_Word, ...], Field(min_length=1, max_length=100)]
    package: _Software = ""
    executable: _Software = ""
    least: Annotated[str, StringConstraints(max_length=40)] = ""
    reason: Annotated[str, StringConstraints(max_length=200)] = ""

    @property
    def software(self) -> str:
        """The package, or bin/ and the executable: what the guard looks for."""
        return self.package or f"bin/{self.executable}"

    @property
    def needs(self) -> str:
        """The package or the executable."""
        return self.package or self.executable

    @field_validator("argv")
    @classmethod
    def _known_words(cls, argv: tuple[str, ...]) -> tuple[str, ...]:
        words = {word for part in argv for word in re.findall(r"\{(\w+)\}", part)}
        if unknown := sorted(words - _WORDS):
            raise ValueError(
                f"{{{unknown[0]}}} is not known; known are {{python}}, {{socket}}, {{port}}, "
                "{base} and {secret}"
            )
        if ("socket" in words) == ("port" in words):
            raise ValueError("it needs either {socket} or {port}: where the program listens")
        if "port" in words and "secret" not in words:
            raise ValueError(
                "it has {port} without {secret}: every user of a node can reach a port, so the "
                "program must ask for a password"
            )
        return argv

    @field_validator("least")
    @classmethod
    def _a_version(cls, least: str) -> str:
        try:
            Version(least or "0")
        except InvalidVersion:
            raise ValueError("it is not a version, such as 1.2.3") from None
        return least

    @model_validator(mode="after")
    def _one_software(self) -> Self:
        if bool(self.package) == bool(self.executable):
            raise ValueError("it needs either 'package' or 'executable': what it runs")
        if bool(self.least) != bool(self.reason):
            raise ValueError("'least' and 'reason' belong together")
        return self
