"""Models from a directory of YAML files, one model per file."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from portal.cache import SharedAnswer
from portal.catalog.definitions.document import DocumentError, read_document
from portal.catalog.definitions.problems import CatalogError, explained
from portal.catalog.definitions.yaml_files import Mark, content_of, yaml_files

from .model import CatalogModel

_LARGEST = 65_536  # bytes of a file
_PATIENCE = 5.0  # seconds for the directory, which may be on a network file system
_log = logging.getLogger(__name__)


class _Seen(NamedTuple):
    mark: Mark
    model: CatalogModel | None
    errors: tuple[CatalogError, ...]


class ModelCatalog:
    """The models of one ``directory``, kept fresh by ``await load()``.

    A file that is wrong is named in ``errors`` and the others still load. When the directory cannot
    be read, what was loaded last stays. A site without the directory has no models.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.models: dict[str, CatalogModel] = {}
        self.errors: tuple[CatalogError, ...] = ()
        self._seen: dict[str, _Seen] = {}
        self._looks = SharedAnswer(lambda: asyncio.to_thread(self.load_now), ttl=0.0, keep=False)

    async def load(self) -> None:
        """Read the directory again, off the event loop; raise nothing."""
        try:
            await self._looks.get(patience=_PATIENCE)
        except TimeoutError:
            self._keep("the directory did not answer in time")

    def load_now(self) -> None:
        """Read the directory again in the calling thread."""
        try:
            files = yaml_files(Path(self.directory))
        except FileNotFoundError:
            files = []
        except OSError as error:
            self._keep(f"cannot read the directory: {error.strerror}")
            return
        seen = {path.name: self._read(path) for path in files}
        models: dict[str, CatalogModel] = {}
        errors: list[CatalogError] = []
        for file, each in seen.items():
            errors += each.errors
            if each.model is None:
                continue
            if each.model.name in models:
                words = f"the name '{each.model.name}' is already taken"
                errors.append(CatalogError(file=file, line=None, message=words, field="name"))
                continue
            models[each.model.name] = each.model
        for problem in errors:
            if problem not in self.errors:
                _log.warning("Model file %s", problem)
        self._seen, self.errors = seen, tuple(errors)
        self.models = dict(sorted(models.items(), key=lambda pair: (pair[1].title, pair[0])))

    def _read(self, path: Path) -> _Seen:
        known = self._seen.get(path.name)
        content = content_of(path, known.mark if known else None, _LARGEST + 1)
        if content.raw is None and known is not None:
            return known
        if content.problem:
            wrong = CatalogError(file=path.name, line=None, message=content.problem)
            return _Seen(content.mark, None, (wrong,))
        return _Seen(content.mark, *read_model(content.raw or b"", path.name))

    def _keep(self, reason: str) -> None:
        problem = CatalogError(file=self.directory, line=None, message=reason)
        if problem not in self.errors:
            _log.warning("Models: %s", problem)
            self.errors = (problem, *(e for e in self.errors if e.file != self.directory))


def read_model(raw: bytes, file: str) -> tuple[CatalogModel | None, tuple[CatalogError, ...]]:
    """Read a model from the YAML ``raw``: it, or what is wrong, with lines; raise nothing."""
    if len(raw) > _LARGEST:
        words = f"larger than {_LARGEST} bytes"
        return None, (CatalogError(file=file, line=None, message=words),)
    try:
        document = read_document(raw)
    except DocumentError as error:
        return None, (CatalogError(file=file, line=error.line, message=error.message),)
    try:
        return CatalogModel.model_validate(document.data), ()
    except ValidationError as error:
        return None, explained(error, file, document.line_of, CatalogModel)
