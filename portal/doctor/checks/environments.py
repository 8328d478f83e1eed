"""Checks of the catalog: the files of the environments and the sources that they name."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from packaging.version import InvalidVersion, Version

from portal.errors import StoreUnavailable
from portal.launch.kinds import program_kinds
from portal.models.catalog.catalog import Verdict
from portal.models.catalog.environment import Environment, EnvironmentKind

from ..finding import Result, check, failure, ok, skipped, warning, worst
from ..site import Site
from .database import opened


@check("environments", "Every environment file is valid")
async def files(site: Site) -> Result:
    await site.catalog.load()
    count = len(site.catalog.environments)
    if not site.catalog.loaded:
        return failure(
            "; ".join(str(error) for error in site.catalog.errors),
            "Create the directory, readable by the Hub's account, or set "
            "c.EnvironmentCatalog.directory.",
        )
    if site.catalog.errors:
        return failure(
            "; ".join(str(error) for error in site.catalog.errors),
            f"Fix these lines; the other {count} load. docs/how-to/add-an-environment.md.",
        )
    if not count:
        return warning(
            f"{site.catalog.directory} has no environment, so no session can start",
            "Add one: docs/how-to/add-an-environment.md.",
        )
    return ok(f"{count} in {site.catalog.directory}")


@check("environment-sources", "Images and virtual environments exist and are readable")
async def sources(site: Site) -> Result:
    await site.catalog.load()
    if not site.catalog.environments:
        return skipped("there are no environments")
    results = await asyncio.gather(
        *(
            asyncio.to_thread(_source, environment)
            for environment in site.catalog.environments.values()
        )
    )
    return worst(results)


def _source(environment: Environment) -> Result:
    if environment.kind is EnvironmentKind.CONTAINER:
        path = Path(environment.image or "")
        usable = path.is_file() or path.is_dir()
    else:
        path = Path(environment.path or "", "bin", "python3")
        usable = os.access(path, os.X_OK)
    if usable and os.access(path, os.R_OK):
        return ok(environment.name)
    return warning(
        f"'{environment.name}': {path} does not exist on this machine, or is not readable",
        "It must be readable by all users on every node. If it exists on the nodes but not on "
        "this machine, ignore this warning.",
    )


@check("environment-programs", "Programs that sessions open are safe on shared nodes")
async def programs(site: Site) -> Result:
    await site.catalog.load()
    with_programs = [
        environment for environment in site.catalog.environments.values() if environment.opens
    ]
    if not with_programs:
        return skipped("no environment opens a program")
    store = await opened(site)
    try:
        verdicts = {} if store.database.address.missing else await store.tests.verdicts()
    except StoreUnavailable:
        verdicts = {}  # another check says so
    finally:
        await store.close()
    results = [
        await asyncio.to_thread(_program, environment, name, verdicts)
        for environment in with_programs
        for name in environment.opens
    ]
    return worst(results)


def _program(
    environment: Environment, name: str, verdicts: Mapping[str, Mapping[str, Verdict]]
) -> Result:
    kind, title = program_kinds().get(name), f"'{environment.name}'"
    if kind is None:
        known = ", ".join(sorted(program_kinds()))
        return warning(f"{title} opens '{name}', which the portal does not know",
                       f"Use one of: {known}.")  # fmt: skip
    program = kind.definition
    if not program.least:
        return ok(f"{title} has {program.title}: every version is safe")
    if program.executable:
        return ok(f"{title}: sessions check the version of {program.title} when they open it")
    versions = _installed(environment, program.package) or {
        package.partition("==")[2]
        for verdict in verdicts.get(environment.fingerprint, {}).values()
        for package in verdict.facts.get("packages") or ()
        if package.partition("==")[0].lower() == program.package.lower()
    }
    if not versions:
        return skipped(f"{title}: the version of {program.title} is known after a test")
    old = sorted(version for version in versions if not _at_least(version, program.least))
    if not old:
        return ok(f"{title} has {program.title} {', '.join(sorted(versions))}")
    return failure(
        f"{title} has {program.title} {', '.join(old)}, which other users of a node can attack "
        f"({program.reason}); sessions do not start it",
        f"Install {program.package} {program.least} or newer, and test the environment again.",
    )


def _installed(environment: Environment, package: str) -> set[str]:
    """Return the versions of a package in a virtual environment that this machine sees."""
    if not environment.path:
        return set()
    folders = [str(path) for path in Path(environment.path).glob("lib*/python3*/site-packages")]
    found = metadata.distributions(name=package, path=folders) if folders else ()
    return {str(distribution.version) for distribution in found}


def _at_least(version: str, least: str) -> bool:
    try:
        return Version(version) >= Version(least)
    except InvalidVersion:
        return False
