"""Templates of projects: the site's files, in ``projects`` beside its environments."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

from portal.catalog import EnvironmentCatalog
from portal.catalog.definitions.yaml_files import content_of, yaml_files
from portal.errors import InvalidRequest, NotFound, Unavailable

from .document import LONGEST, ProjectFile, read_project

_MOST = 50
_LARGEST = 4 * LONGEST  # bytes
_PATIENCE = 5.0  # seconds that a page waits for the file system


class Template(NamedTuple):
    """Template by its name, that of its file; ``problem``: why it cannot be used, or ""."""

    name: str
    file: ProjectFile | None
    problem: str = ""


class ProjectTemplates:
    """Templates, read anew for each dialog from beside the ``catalog``'s directory."""

    def __init__(self, catalog: EnvironmentCatalog) -> None:
        self._catalog = catalog

    async def all(self) -> list[Template]:
        """Return all templates, by name; none without the folder. Raises Unavailable."""
        try:
            return await asyncio.wait_for(asyncio.to_thread(self._read_all), _PATIENCE)
        except FileNotFoundError:
            return []
        except (OSError, TimeoutError) as error:
            reason = getattr(error, "strerror", None) or "it does not answer"
            raise Unavailable(f"The folder of the templates cannot be read: {reason}.") from None

    async def get(self, name: str) -> ProjectFile:
        """Return a template. Raises NotFound, InvalidRequest if it cannot be used, Unavailable."""
        for template in await self.all():
            if template.name == name:
                if template.file is None:
                    words = f"The template '{name}' cannot be used. {template.problem}"
                    raise InvalidRequest(words, "template")
                return template.file
        raise NotFound(f"There is no template '{name[:100]}'.")

    def _read_all(self) -> list[Template]:
        folder = Path(self._catalog.directory).parent / "projects"
        return [_read(path) for path in yaml_files(folder)[:_MOST]]


def _read(path: Path) -> Template:
    content = content_of(path, None, _LARGEST)
    if content.problem:
        return Template(path.stem, None, f"It is {content.problem}.")
    try:
        return Template(path.stem, read_project((content.raw or b"").decode("utf-8", "replace")))
    except InvalidRequest as error:
        return Template(path.stem, None, error.message)
