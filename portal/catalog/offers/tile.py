"""Tiles of environments, in the catalog and on the launch page."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from portal.gpus import VENDORS
from portal.models import Frozen
from portal.models.catalog.environment import Environment, EnvironmentKind, EnvironmentState
from portal.store import Store

from ..files import EnvironmentCatalog
from .markdown import markdown_line
from .software import Software

HISTORICAL = "historical"  # the tag of environments that lists hide until they are asked for
MANY = 6  # cards of the launch page, above which it has a search (launch_form.html, launch.js)
_TAGS = 14  # the most that are offered as filters
KINDS = {
    EnvironmentKind.CONTAINER: "container",
    EnvironmentKind.MODULES: "modules",
    EnvironmentKind.VENV: "virtual environment",
}
_ICONS = {
    EnvironmentKind.CONTAINER: "cube",
    EnvironmentKind.MODULES: "layer-group",
    EnvironmentKind.VENV: "flask",
}
# JupyterHub ships Font Awesome's solid icons only; brands are shown as their nearest neighbour.
_INSTEAD = {
    "python": "code",
    "docker": "cube",
    "linux": "terminal",
    "r-project": "chart-line",
    "jupyter": "book-open",
    "container": "box",
    "stack": "layer-group",
}
# Facts.versions, in the order in which they are shown: the software first, then what it runs on.
SOFTWARE = {
    "torch": "PyTorch",
    "tensorflow": "TensorFlow",
    "keras": "Keras",
    "mxnet": "MXNet",
    "caffe2": "Caffe2",
    "jax": "JAX",
    "horovod": "Horovod",
    "cudf": "cuDF",
    "cuml": "cuML",
    "r": "R",
    "python": "Python",
    "python2": "Python",
    "cuda": "CUDA",
    "rocm": "ROCm",
}
_BENEATH = {
    "cudnn": "cuDNN",
    "nccl": "NCCL",
    "mpi": "MPI",
    **{vendor.driver: vendor.driver_title for vendor in VENDORS.values()},
    "jupyterlab": "JupyterLab",
    "jupyterhub": "JupyterHub",
    "ipykernel": "ipykernel",
}


class Tile(Frozen):
    """Summary of an environment. ``icon``: a Font Awesome class list; ``line``: one line of plain
    text; ``versions``: "PyTorch 2.9.1"; ``tested_at``: Unix seconds of the newest test that passed,
    ``tested`` the same in words; ``note``: what to know before using it; ``search``: the text that
    a search looks through, in lower case."""

    name: str
    title: str
    kind: str
    icon: str
    line: str = ""
    tags: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    tested_at: float | None = None
    tested: str = ""
    deprecated: bool = False
    historical: bool = False
    note: str = ""
    private: bool = False
    preview: bool = False
    search: str = ""


def tile_of(
    environment: Environment,
    versions: Mapping[str, str] = MappingProxyType({}),
    tested_at: float | None = None,
    failed: bool = False,
    preview: bool = False,
) -> Tile:
    """Build a tile. ``versions``: of the software in it, as ``Facts.versions``; ``failed``: no
    test of it passed; ``preview``: it is not published, and only admins see it."""
    kind = KINDS[environment.kind]
    titles = version_words(versions, SOFTWARE)
    line = markdown_line(environment.description)
    deprecated = environment.state is EnvironmentState.DEPRECATED
    tags = tuple(tag for tag in environment.tags if tag != kind)
    kernels = (kernel.title for kernel in environment.kernels)
    terms = (environment.name, environment.title, line, kind, *tags, *titles, *kernels)
    return Tile(
        name=environment.name,
        title=environment.title,
        kind=kind,
        icon=icon_of(environment.icon, environment.kind),
        line=line,
        tags=tags,
        versions=titles,
        tested_at=tested_at,
        tested=f"tested {day(tested_at)}" if tested_at else "last test failed" * failed,
        deprecated=deprecated,
        historical=HISTORICAL in tags,
        note=environment.message if deprecated else "",
        private=environment.private,
        preview=preview,
        search=" ".join(terms).casefold(),
    )


class Tiles:
    """Cache of a catalog's tiles, each built again only when something in it changes.

    ``patience``: seconds that a page waits for the database; then it shows what was known.
    """

    def __init__(self, catalog: EnvironmentCatalog, store: Store, patience: float = 0.3) -> None:
        self._catalog, self._software = catalog, Software(store, patience)
        self._made: dict[str, tuple[Environment, tuple[Any, ...], Tile]] = {}

    async def refresh(self) -> None:
        """Read the versions again if there are new verdicts of tests. Raises nothing."""
        await self._software.versions(self._catalog.offering.verdicts)

    def tile_for(self, environment: Environment) -> Tile:
        """Return the tile of one of the catalog's environments."""
        name = environment.name
        tested = self._catalog.offering.tested(environment)
        at = max((verdict.at for verdict in tested.values() if verdict.passed), default=None)
        versions = self._software.known.get(environment.fingerprint, {})
        args = (versions, at, bool(tested) and at is None, name in self._catalog.previews)
        known = self._made.get(name)
        if known is None or known[0] is not environment or known[1] != args:
            known = self._made[name] = (environment, args, tile_of(environment, *args))
            for gone in self._made.keys() - self._catalog.environments.keys():
                del self._made[gone]
        return known[2]


def common_tags(tiles: Sequence[Tile], few: int = MANY) -> tuple[str, ...]:
    """Return the tags to filter by: the most common ones; none for at most ``few`` tiles."""
    if len(tiles) <= few:
        return ()
    counts = Counter(tag for tile in tiles for tag in tile.tags)
    common = [tag for tag, number in counts.most_common() if number < len(tiles)]
    return tuple(sorted(common[:_TAGS], key=str.casefold))


def icon_of(icon: str, kind: EnvironmentKind) -> str:
    """Return a Font Awesome class list."""
    name = icon or _ICONS[kind]
    return f"fa-solid fa-{_INSTEAD.get(name, name)}"


def version_words(
    versions: Mapping[str, str], names: Mapping[str, str] = SOFTWARE | _BENEATH
) -> tuple[str, ...]:
    """Return "PyTorch 2.9.1" for each of ``names`` that is there, in their order."""
    return tuple(f"{title} {versions[name]}" for name, title in names.items() if versions.get(name))


def version_rows(versions: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return all versions as (title, version): those that have a title first, in their order."""
    titles = SOFTWARE | _BENEATH
    known = [(titles[name], versions[name]) for name in titles if versions.get(name)]
    return known + sorted((n, v) for n, v in versions.items() if v and n not in titles)


def day(at: float) -> str:
    """Format Unix seconds as "22 Nov 2026"."""
    when = time.localtime(at)
    return f"{when.tm_mday} {time.strftime('%b %Y', when)}"
