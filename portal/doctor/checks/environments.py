"""Checks of the catalog: the files of the environments and the sources that they name."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from portal.models.catalog.environment import Environment, Kind

from ..finding import Result, check, failure, ok, skipped, warning, worst
from ..site import Site


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
    if environment.kind is Kind.CONTAINER:
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
