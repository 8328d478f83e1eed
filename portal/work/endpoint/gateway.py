"""The service's side of the gateway: it writes the routes, and reads the state on a socket."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from portal.errors import Unavailable
from portal.gateway.forwarding import REPLICA
from portal.gateway.keys import CERTIFICATE, IDENTITY, client_context

from .keeping.scaling import Demand

_ROUTES, _SOCKET, _VERSION = "routes.json", "gateway.sock", 1
_ANSWER = 5.0  # seconds for the state
_POLL = 60.0  # seconds for changes, which the gateway holds for less
_EXAMPLE = 120.0  # seconds for the answer to an example
_SAID = 300  # characters of such an answer that are shown
_LARGEST = 1024**2  # bytes of it in which a text is looked for
_AWAY = "The gateway of endpoints does not run yet: its state directory has no certificate."


class GatewayAway(Unavailable):
    """Gateway whose state directory cannot be used."""


class GatewayState:
    """Answer of the gateway about its models; what it does not say counts as nothing."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        models = said.get("models")
        self._models: Mapping[str, Any] = models if isinstance(models, dict) else {}
        refusals = said.get("refusals")
        # Requests that it refused, by their status.
        self.refusals: Mapping[str, int] = refusals if isinstance(refusals, dict) else {}
        self.began = float(said.get("since") or 0.0)  # Unix seconds; its counters begin at 0

    @property
    def models(self) -> Mapping[str, Any]:
        """Counters of its models by name."""
        return self._models

    def demand(self, name: str) -> Demand:
        """Return the requests of a model."""
        model = self._models.get(name) or {}
        return Demand(int(model.get("in_flight") or 0), int(model.get("waiting") or 0))

    def requests(self, name: str) -> int:
        """Return the number of its requests since the gateway has started."""
        return int((self._models.get(name) or {}).get("requests") or 0)

    def in_flight(self, name: str, id_: str) -> int:
        """Return the requests that a replica answers."""
        replicas = (self._models.get(name) or {}).get("replicas") or {}
        return int((replicas.get(id_) or {}).get("in_flight") or 0)


class Gateway:
    """The gateway whose state directory this is; "" for none."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self.offered = bool(directory)
        self._written = ""

    async def certificate(self) -> str:
        """Return the certificate that replicas accept. Raises GatewayAway."""
        try:
            return await asyncio.to_thread((self._directory / CERTIFICATE).read_text)
        except OSError:
            raise GatewayAway(_AWAY) from None

    async def write(self, models: Mapping[str, Any]) -> None:
        """Write the routes unless they are the same. Raises GatewayAway."""
        text = json.dumps({"version": _VERSION, "models": models}, sort_keys=True)
        if text != self._written:
            try:
                await asyncio.to_thread(self._replace, text)
            except OSError as error:
                raise GatewayAway(f"The gateway's routes cannot be written: {error}") from None
            self._written = text

    def _replace(self, text: str) -> None:
        new = self._directory / f".{_ROUTES}.{os.getpid()}"
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        new.replace(self._directory / _ROUTES)

    async def state(self) -> GatewayState | None:
        """Return its state; None while it does not answer."""
        said = await self._ask("/state", _ANSWER)
        return None if said is None else GatewayState(said)

    async def changes(self, since: int) -> int | None:
        """Return the number of the last change once there is one after ``since``, or after half a
        minute; None while the gateway does not answer."""
        said = await self._ask(f"/changes?since={since}", _POLL)
        return None if said is None else int(said.get("now") or 0)

    async def _ask(self, path: str, seconds: float) -> dict[str, Any] | None:
        connector = aiohttp.UnixConnector(str(self._directory / _SOCKET))
        timeout = aiohttp.ClientTimeout(total=seconds)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                session.get(f"http://gateway{path}") as answer,
            ):
                said = await answer.json()
        except (OSError, aiohttp.ClientError, TimeoutError, ValueError):
            return None
        return said if isinstance(said, dict) else None

    async def try_example(
        self, id_: str, address: str, certificate: str, example: Mapping[str, Any], health: str
    ) -> str:
        """Send the example to a replica as the gateway would, or ask for its health without one;
        return why that was not answered, a sentence, or "". Raises GatewayAway without a key."""
        try:
            tls = await asyncio.to_thread(client_context, self._directory / IDENTITY, certificate)
        except (OSError, ValueError) as error:
            raise GatewayAway(f"The replica cannot be tried: {error}") from None
        body = example.get("body")
        more = {} if body is None else {"json": body}
        url = f"https://{address}{example.get('path') or health}"
        try:
            async with (
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(ssl=tls),
                    timeout=aiohttp.ClientTimeout(total=_EXAMPLE),
                    cookie_jar=aiohttp.DummyCookieJar(),
                ) as session,
                session.request(
                    str(example.get("method") or "GET"),
                    url,
                    allow_redirects=False,
                    headers={REPLICA: id_},
                    **more,
                ) as answer,
            ):
                needed = str(example.get("contains") or "").encode()
                if needed:
                    said = await _beginning(answer.content, _LARGEST)
                else:
                    said = await answer.content.read(_SAID)
                words = said[:_SAID].decode(errors="replace").strip()
                if 200 <= answer.status < 300:
                    if needed in said:
                        return ""
                    return f"Its answer to the example does not contain what it has to: {words}"
                return f"It answered the example with status {answer.status}: {words}"
        except TimeoutError:
            return f"It did not answer the example within {_EXAMPLE:g} s."
        except (OSError, aiohttp.ClientError, ValueError) as error:
            return f"It did not answer the example: {error}"


async def _beginning(content: aiohttp.StreamReader, most: int) -> bytes:
    """Return the first ``most`` bytes of an answer, which comes in pieces."""
    parts: list[bytes] = []
    while most > 0 and (part := await content.read(most)):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)
