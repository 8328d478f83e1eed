"""Models and their replicas, as the web service writes them into ``routes.json``.

The last good content holds while the file is broken, and after a restart while the service is
away. A model or replica that is wrong is left out alone; a model keeps its last good definition.
"""

from __future__ import annotations

import json
import logging
import os
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from .keys import client_context

NAME = r"[a-z0-9-]{2,40}"
VERSION = 1
_LARGEST = 64 * 1024 * 1024  # bytes of the file
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]{1,253}):(?P<port>[0-9]{1,5})")


class _Strict(BaseModel):
    # A newer service may say more than this gateway knows, while the two are upgraded.
    model_config = ConfigDict(frozen=True, extra="ignore", arbitrary_types_allowed=True)


class Limits(_Strict):
    """Limits of one model: ``body`` in bytes; ``seconds`` of one request, ``wake`` of waiting for
    a replica; requests ``in_flight`` at each replica, and ``waiting`` for one."""

    body: Annotated[int, Field(ge=0)] = 10 * 1024 * 1024
    seconds: Annotated[float, Field(gt=0)] = 600
    wake: Annotated[float, Field(ge=0)] = 120
    in_flight: Annotated[int, Field(ge=1)] = 64
    waiting: Annotated[int, Field(ge=0)] = 200


class Replica(_Strict):
    """Job that answers at ``address`` and has the ``certificate`` (PEM)."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    address: str
    certificate: Annotated[str, Field(max_length=10_000)]
    weight: Annotated[float, Field(ge=0, le=1_000_000)] = 100
    draining: bool = False
    version: int = 0

    @field_validator("address")
    @classmethod
    def _has_host_and_port(cls, value: str) -> str:
        match = _ADDRESS.fullmatch(value)
        if match is None or not 0 < int(match["port"]) < 65536:
            raise ValueError("must be HOST:PORT")
        return value


class Model(_Strict):
    """Endpoint that the gateway serves; ``paths``: prefixes of the program, none for all."""

    owner: str
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    everyone: bool = False
    paths: tuple[str, ...] = ()
    limits: Limits = Limits()
    expected: float | None = None
    replicas: tuple[Replica, ...] = ()

    @field_validator("paths")
    @classmethod
    def _begin_with_a_slash(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not all(path.startswith("/") for path in value):
            raise ValueError("must begin with /")
        return value


class RoutesFile:
    """The file, read again when it has changed. ``identity``: files of the gateway's own
    certificate and key, with which it goes to replicas."""

    def __init__(self, path: Path, identity: Path, log: logging.Logger) -> None:
        self._path, self._identity, self._log = path, identity, log
        self._seen: tuple[int, ...] | None = None
        self.written_at = 0.0  # Unix seconds at which the content in use was written
        self._complained: set[str] = set()
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._used: set[str] = set()  # certificates of the last content
        self.models: Mapping[str, Model] = {}

    def changed(self) -> bool:
        """Return True if the file is another one than that of the last `read`."""
        try:
            status = self._path.stat()
        except OSError:
            return False  # the last good one holds
        return (status.st_ino, status.st_mtime_ns, status.st_size) != self._seen

    def read(self) -> bool:
        """Read the file; return False, with the reason in the log, if the last good one holds.
        Blocks."""
        if not self._path.exists():
            self._log.info("%s does not exist yet, so there are no models.", self._path)
            return False
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                self._seen = (status.st_ino, status.st_mtime_ns, status.st_size)
                if status.st_uid != os.getuid() or status.st_mode & 0o022:
                    raise ValueError("another account than the gateway's can write it")
                content = json.loads(file.read(_LARGEST))
            if not isinstance(content, dict) or content.get("version") != VERSION:
                raise ValueError(f"it is not of version {VERSION}")
            rows = content.get("models")
            if not isinstance(rows, dict):
                raise ValueError("it has no models")
        except (OSError, ValueError, RecursionError) as error:
            self._log.error("%s cannot be used, so the last good one holds: %s", self._path, error)
            return False
        before, self._complained = self._complained, set()
        models = {}
        for name, row in rows.items():
            model = self._model(str(name), row, before)
            if model is not None:
                models[str(name)] = model
        self.models, self.written_at = models, status.st_mtime
        used = {replica.certificate for model in models.values() for replica in model.replicas}
        # A request may have a place at a replica that has just been removed.
        kept, self._used = used | self._used, used
        self._contexts = {key: self._contexts[key] for key in kept}
        return True

    def context(self, replica: Replica) -> ssl.SSLContext:
        """Return the TLS context that accepts this replica alone."""
        return self._contexts[replica.certificate]

    def _model(self, name: str, row: Any, before: set[str]) -> Model | None:
        try:
            if not re.fullmatch(NAME, name):
                raise ValueError("the name is not valid")
            model = Model.model_validate(row)
        except (ValidationError, ValueError) as error:
            self._complain(f"Model {name[:60]!r} cannot be served as written: {error}", before)
            return self.models.get(name)
        good = tuple(replica for replica in model.replicas if self._trusts(name, replica, before))
        return model.model_copy(update={"replicas": good})

    def _trusts(self, name: str, replica: Replica, before: set[str]) -> bool:
        if replica.certificate not in self._contexts:
            try:
                context = client_context(self._identity, replica.certificate)
            except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
                words = f"Replica {replica.id!r} of model {name!r} has no usable certificate"
                self._complain(f"{words}: {error}", before)
                return False
            self._contexts[replica.certificate] = context
        return True

    def _complain(self, words: str, before: set[str]) -> None:
        """Log it once, not at each writing of the file."""
        self._complained.add(words)
        if words not in before:
            self._log.error("%s", words)
