"""Environments that have the Python modules a notebook imports, for the session that lacks them."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated

from pydantic import Field, StringConstraints

from portal.errors import InvalidRequest
from portal.handlers.base.endpoint import Operation, Query
from portal.models import Frozen
from portal.models.catalog.environment import Environment
from portal.models.person import Person

from .endpoints import JobKernelAction

_MOST = 50
_END = re.compile(r" @ |==")  # of a package's name, as pip freeze writes it
_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
# Packages of modules with other names.
_PACKAGES = {
    "bs4": ("beautifulsoup4",),
    "cv2": ("opencv-python", "opencv-python-headless", "opencv"),
    "dateutil": ("python-dateutil",),
    "PIL": ("pillow",),
    "skimage": ("scikit-image",),
    "sklearn": ("scikit-learn",),
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-gpu"),
    "yaml": ("pyyaml",),
}


class ModulesQuery(Query):
    """Modules that an environment must have."""

    names: Annotated[
        str,
        StringConstraints(max_length=5000),
        Field(description="Names of top-level modules, separated by commas.", examples=["torch"]),
    ]


class EnvironmentWith(Frozen):
    """Environment that has all of the modules."""

    environment: str
    title: str


class EnvironmentsWith(Frozen):
    """Environments that have all of the modules, in the order of the launch page."""

    items: tuple[EnvironmentWith, ...]


class OwnModules(JobKernelAction):
    """Environments that have what a notebook of the asking session imports."""

    path = "session/modules"

    @Operation("List the environments that have some Python modules.", query=ModulesQuery)
    async def on_get(self) -> EnvironmentsWith:
        """Use the session's own token only; none in a space, whose environment is set.

        What an environment has is known from its newest test. A package is taken to have its
        module's name, but for a few well-known ones.
        """
        names = self.query.names.split(",")
        if len(names) > _MOST or not all(_MODULE.fullmatch(name) for name in names):
            raise InvalidRequest(f"'names' must be up to {_MOST} names of modules.")
        record = await self.asker()
        if record.space:
            return EnvironmentsWith(items=())
        await self.parts.catalog.load()
        asker = Person(name=record.user, groups=record.groups)
        environments = self.parts.catalog.visible_to(asker)
        installed = await asyncio.gather(*(self._packages(known) for known in environments))
        return EnvironmentsWith(
            items=tuple(
                EnvironmentWith(environment=environment.name, title=environment.title)
                for environment, packages in zip(environments, installed, strict=True)
                if all(_packages_of(name) & packages for name in names)
            )
        )

    async def _packages(self, environment: Environment) -> set[str]:
        """Return the names of the packages that its tests have found."""
        verdicts = await self.parts.store.tests.verdicts_of(environment.fingerprint)
        found = (verdict.facts.get("packages", ()) for verdict in verdicts.values())
        return {_normal(_END.split(str(package))[0]) for names in found for package in names}


def _packages_of(module: str) -> set[str]:
    return set(_PACKAGES.get(module, (_normal(module),)))


def _normal(name: str) -> str:
    """Return the name of a package as the package index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


ENDPOINTS = (OwnModules,)
