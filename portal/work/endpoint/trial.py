"""``api/v1/models/{name}/trial``: one request to a model, from the page, and its answer.

It goes through the gateway like any other, with the token of the requester's own login: the gateway
decides, counts, wakes and limits it. The browser never has that token, and the service no other.
"""

from __future__ import annotations

import time
from typing import Any, Literal

import aiohttp
from yarl import URL

from portal.errors import InvalidRequest, NotFound, Unavailable
from portal.gateway.requests import PREFIX
from portal.handlers.base.endpoint import Operation
from portal.models import Frozen

from .action import EndpointAction, usable_by
from .bodies import RequestPath

_LARGEST = 64 * 1024  # bytes of the answer that are shown
_PATIENCE = 300.0  # seconds for waking and answering
_TOO_LONG = (
    "The model did not answer within {} s. Look at its replicas, or ask it with curl, which may "
    "wait longer."
)


class Trial(Frozen):
    """Request to a model; ``body`` is sent as JSON."""

    method: Literal["GET", "POST"] = "GET"
    path: RequestPath
    body: dict[str, Any] | None = None


class TrialExample(Frozen):
    """Request to begin with: the example of the version with the largest share, else its health
    path. ``paths``: prefixes that are let through, none for all."""

    name: str
    owner: str
    address: str
    paths: tuple[str, ...]
    example: Trial


class TrialAnswer(Frozen):
    """Answer of the model, or of the gateway. ``seconds``: until it was whole; ``body``: its text,
    at most 64 KiB, ``cut``: there was more."""

    status: int
    seconds: float
    type: str
    body: str
    cut: bool


class EndpointTrial(EndpointAction):
    """Trial of an endpoint that the person may use."""

    path = "models/{name}/trial"

    @Operation("Show an example request of an endpoint that you may use.")
    async def on_get(self, name: str) -> TrialExample:
        """Return what the owner has given as an example."""
        endpoint = await self.usable(name)
        versions = {str(each.number): each for each in await self.versions.of_endpoint(name)}
        most = max(endpoint.shares, key=lambda key: endpoint.shares[key], default="")
        version = versions.get(most)
        shown = (version and version.example) or {"path": version.health if version else "/"}
        known = {field: shown[field] for field in Trial.model_fields if field in shown}
        return TrialExample(
            name=name,
            owner=endpoint.user,
            address=self.address(name),
            paths=version.paths if version else (),
            example=Trial.model_validate(known),
        )

    @Operation("Send one request to an endpoint that you may use.", body=Trial)
    async def on_post(self, name: str) -> TrialAnswer:
        """Return its answer. One that sleeps is woken, which takes a while."""
        body: Trial = self.body
        await self.usable(name)
        if ".." in body.path or "#" in body.path:
            raise InvalidRequest("'path' must not contain '..' or '#'.", "path")
        url = f"{self.endpoint_parts.gateway_url}{PREFIX}{name}{body.path}"
        headers = {"Authorization": f"Bearer {self.hub_auth.get_token(self)}"}
        more: dict[str, Any] = {} if body.body is None else {"json": body.body}
        began = time.monotonic()
        try:
            async with (
                aiohttp.ClientSession(
                    cookie_jar=aiohttp.DummyCookieJar(),
                    timeout=aiohttp.ClientTimeout(total=_PATIENCE),
                ) as session,
                session.request(
                    body.method,
                    URL(url, encoded=True),
                    headers=headers,
                    allow_redirects=False,
                    **more,
                ) as answer,
            ):
                said = b""
                async for part in answer.content.iter_any():
                    said += part
                    if len(said) > _LARGEST:
                        break
                return TrialAnswer(
                    status=answer.status,
                    seconds=time.monotonic() - began,
                    type=answer.content_type,
                    body=said[:_LARGEST].decode(errors="replace").replace("\0", "\ufffd"),
                    cut=len(said) > _LARGEST,
                )
        except TimeoutError:
            raise Unavailable(_TOO_LONG.format(round(_PATIENCE))) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self.parts.log.warning("A trial of %s: %s", name, type(error).__name__)
            raise Unavailable(
                "The gateway of endpoints did not answer properly. Try again in a moment."
            ) from None

    async def usable(self, name: str) -> Any:
        """Return an endpoint that the person may use. Raises NotFound."""
        self.check_offered()
        found = await self.table.get(name)
        if not usable_by(self.person, found, await self.projects()):
            raise NotFound(f"There is no endpoint '{name}'.")
        return found


ENDPOINTS = (EndpointTrial,)
