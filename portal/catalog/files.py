"""Environments from a directory of YAML files, one environment per file."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, NamedTuple

from traitlets import Bool, Float, Integer, Unicode
from traitlets.config import LoggingConfigurable

from portal.cache import SharedAnswer
from portal.errors import NotFound
from portal.models.catalog.environment import Environment
from portal.models.person import Person
from portal.setting import setting
from portal.store import Store

from .availability import Offer, OfferCache
from .definitions.problems import CatalogError
from .definitions.reading import Reading, read_definition
from .definitions.rules import CatalogRules
from .definitions.yaml_files import Mark, content_of, yaml_files

PREVIEWS, OWN = "previews", "own"  # folders of ``kept_directory``
PREVIEW = ".preview"  # what the name of a preview ends with


class SourceFile(NamedTuple):
    """Source of an environment: the file's name in the directory, the ``hash`` of its bytes, the
    number of the account that owns it, and when it was written (Unix seconds)."""

    file: str
    hash: str
    owner: int
    at: float


class _Seen(NamedTuple):
    """File as last read: the mark that tells whether it changed, its owner, and the result."""

    mark: Mark
    owner: int
    reading: Reading


class EnvironmentCatalog(LoggingConfigurable):
    """The environments of one directory, kept fresh by ``await load()``.

    A file that is wrong is named in ``errors`` and the others still load. When the directory
    itself cannot be read, what was loaded last stays, and ``errors`` says so.

    ``store`` has the verdicts of tests; without one (commands that only read files) everything
    counts as tested.
    """

    directory = setting(
        Unicode("/etc/data-scientist-portal/environments"),
        """Directory of the environment files, ``*.yaml`` or ``*.yml``, one per environment.
        Changed, new and removed files are noticed without a restart.""",
        'c.EnvironmentCatalog.directory = "/srv/portal/environments"',
    ).tag(backup="files")

    kept_directory = setting(
        Unicode("/var/lib/data-scientist-portal/environments"),
        """Directory that only the service writes: previews of unpublished versions (``previews/``,
        for admins) and environments that users registered for themselves (``own/``). The Hub reads
        it.""",
        'c.EnvironmentCatalog.kept_directory = "/srv/portal/kept"',
    ).tag(backup="files")

    offer_untested = setting(
        Bool(False),
        """Offer environments regardless of their test results, including untested ones. Sessions
        may then fail to start.""",
        "c.EnvironmentCatalog.offer_untested = True",
    )

    show_upcoming = setting(
        Bool(False),
        """Show environments that are built or tested for the first time on the catalog page, to
        everyone who will see them, by title and progress. Those who manage environments see
        them always.""",
        "c.EnvironmentCatalog.show_upcoming = True",
    )

    # Seconds for which test results and the state of image files are cached.
    verdicts_age = Float(3.0, min=0.1)

    max_size = setting(
        Integer(65536),
        "Maximum size of an environment file, in bytes. A larger file is an error.",
        "c.EnvironmentCatalog.max_size = 131072",
    )

    # Seconds that ``load()`` waits for the directory, which may be on a network file system, before
    # it continues with the environments that are already loaded; the read goes on.
    timeout = Float(5.0)

    def __init__(self, store: Store | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.environments: dict[str, Environment] = {}
        self.previews: frozenset[str] = frozenset()  # names of those that only admins see
        self.offering = OfferCache(
            store,
            untested=self.offer_untested,
            age=self.verdicts_age,
            patience=min(1.0, self.timeout),
        )
        self.errors: tuple[CatalogError, ...] = ()
        self.rules = CatalogRules(parent=self)
        self.sources: dict[str, SourceFile] = {}  # by the environment's name
        self.loaded = False  # the directory was read at least once
        self._seen: dict[str, _Seen] = {}
        self._looks = SharedAnswer(lambda: asyncio.to_thread(self.load_now), ttl=0.0, keep=False)

    async def load(self) -> None:
        """Read the directory again, off the event loop; concurrent callers share one read.

        Raises nothing for a wrong file or directory: ``errors`` tells.
        """
        try:
            await self._looks.get(patience=self.timeout)
        except TimeoutError:
            self._keep(f"the directory did not answer within {self.timeout:g} s")
        await self.offering.refresh(self.environments)

    def load_now(self) -> None:
        """Read the directory again in the calling thread (for commands without an event loop)."""
        try:
            paths = yaml_files(Path(self.directory))
        except OSError as error:
            self._keep(f"cannot read the directory: {error.strerror}")
            return
        files = {path.name: path for path in paths}
        for folder in (PREVIEWS, OWN):
            with contextlib.suppress(OSError):  # nothing was ever kept there
                extra = yaml_files(Path(self.kept_directory) / folder)
                files |= {f"{folder}/{path.name}": path for path in extra}
        everything = {file: self._read(file, path) for file, path in files.items()}
        environments: dict[str, Environment] = {}
        owner: dict[str, str] = {}
        errors: list[CatalogError] = []
        sources: dict[str, SourceFile] = {}
        for file, seen in everything.items():
            reading = seen.reading
            errors += reading.errors
            environment = reading.environment
            if environment is None:
                continue
            wrong = _wrong_place(file, environment)
            if wrong:
                errors.append(CatalogError(file=file, line=reading.name_line, message=wrong))
                continue
            if environment.name in owner:
                message = (
                    f"the name '{environment.name}' is already taken by {owner[environment.name]}"
                )
                errors.append(CatalogError(file=file, line=reading.name_line, message=message))
                continue
            owner[environment.name] = file
            environments[environment.name] = environment
            written = seen.mark[0] / 1e9
            sources[environment.name] = SourceFile(file, reading.hash, seen.owner, written)
        for problem in errors:
            if problem not in self.errors:
                self.log.warning("Environment file %s", problem)
        self._seen, self.sources = everything, sources
        ordered = dict(
            sorted(environments.items(), key=lambda item: (item[1].order, item[1].title, item[0]))
        )
        if ordered != self.environments:  # else offers that were made from them still hold
            self.environments = ordered
        self.previews = frozenset(
            name for name, file in owner.items() if file.startswith(f"{PREVIEWS}/")
        )
        self.errors = tuple(errors)
        self.loaded = True

    @property
    def offers(self) -> dict[str, Offer]:
        """Offers of all environments, narrowed to what is known to work, or the reason why there
        is none; by name, in the order of the launch page."""
        return self.offering.offers(self.environments)

    def visible_to(self, person: Person) -> list[Environment]:
        """Return the environments that ``person`` may use, in the order of the launch page."""
        return [
            offer.environment
            for name, offer in self.offers.items()
            if offer.environment is not None and self.sees(person, self.environments[name])
        ]

    def get(self, name: str, person: Person) -> Environment:
        """Return the environment called ``name``. Raises NotFound, in the same words, if there is
        none and if there is one that is not for this person or not offered."""
        offer = self.offers.get(name)
        if offer is None or not self.sees(person, self.environments[name]):
            raise NotFound(f"There is no environment '{name[:63]}' that you may use.")
        if offer.environment is None:
            raise NotFound(f"There is no environment '{name[:63]}' that you may use.")
        return offer.environment

    def sees(self, person: Person, environment: Environment) -> bool:
        """Return True if ``person`` may know of an environment of the catalog, offered or not."""
        if environment.name in self.previews and not person.admin:
            return False
        return visible(environment, person)

    def _keep(self, reason: str) -> None:
        """Note a problem with the directory, and keep what was last read from it."""
        problem = CatalogError(file=self.directory, line=None, message=reason)
        if problem not in self.errors:
            self.log.warning("Environments: %s", problem)
            self.errors = (problem, *(e for e in self.errors if e.file != self.directory))

    def _read(self, name: str, path: Path) -> _Seen:
        """Read a file; return the last reading if it did not change."""
        known = self._seen.get(name)
        mark, owner, raw, problem = content_of(
            path, known.mark if known else None, self.max_size + 1
        )
        if raw is None and known is not None:
            return known
        if problem:
            wrong = CatalogError(file=name, line=None, message=problem)
            return _Seen(mark, owner, Reading(None, (wrong,)))
        return _Seen(mark, owner, read_definition(raw or b"", name, self.rules, self.max_size))


def visible(environment: Environment, person: Person) -> bool:
    """Return True if the person may know of the environment: it names no group, or one of theirs.
    Admins see all of these, since they maintain them; a private one is its owner's.
    """
    if environment.private:
        return person.name == environment.owner
    groups = environment.visible_groups
    return not groups or person.admin or not groups.isdisjoint(person.groups)


def _wrong_place(file: str, environment: Environment) -> str:
    """Return why the environment does not belong in a file of this name; "" if it does."""
    folder, _, rest = file.rpartition("/")
    if folder == PREVIEWS and not environment.name.endswith(PREVIEW):
        return f"the name of a preview ends with '{PREVIEW}'"
    if environment.private and folder != OWN:
        # Its tests run as its owner, who asked for them: nobody else registers it.
        return "'private' is only for environments that users register themselves"
    if folder == OWN and (not environment.private or Path(rest).stem != environment.name):
        return "a registered environment must be private and have the name of its file"
    return ""
