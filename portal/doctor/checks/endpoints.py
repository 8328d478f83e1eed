"""Checks of endpoints: their gateway, and the catalog of models."""

from __future__ import annotations

import asyncio
import os

from portal.work.endpoint.catalog.files import ModelCatalog, beside
from portal.work.endpoint.gateway import Gateway
from portal.work.endpoint.parts import STATE

from ..finding import Result, check, failure, ok, skipped, warning
from ..site import Site

_PAGE = "docs/how-to/endpoints.md"
_MOST = 5  # problems that are named


@check("gateway", "The gateway of endpoints answers")
async def gateway(site: Site) -> Result:
    directory = os.environ.get(STATE, "")
    if not directory:
        return skipped(f"endpoints are not offered ({STATE} is not set)", f"See {_PAGE}.")
    state = await Gateway(directory).state()
    if state is None:
        return failure(
            f"the gateway in {directory} does not answer on its socket, so models do not answer",
            "Run 'systemctl status data-scientist-portal-gateway' and look at its journal. The "
            "doctor, too, must run as the Hub's account to reach the socket.",
        )
    return ok(f"it answers, with {len(state.models)} models")


@check("models", "The files of the catalog of models are right")
async def models(site: Site) -> Result:
    catalog = ModelCatalog(beside(site.catalog.directory))
    await asyncio.to_thread(catalog.load_now)
    if catalog.errors:
        named = "; ".join(str(error) for error in catalog.errors[:_MOST])
        return warning(named, f"Mend the files in {catalog.directory}: see {_PAGE}.")
    return ok(f"{len(catalog.models)} models in {catalog.directory}")


CHECKS = (gateway, models)
