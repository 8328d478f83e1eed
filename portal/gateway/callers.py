"""Requests of callers: checked, counted, given to a replica and, if that fails, to another."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Iterator

from aiohttp import web

from ..logs.request import HEADER, begin_request, note_fields, request_id
from .access import Access, Caller, may_use
from .bodies import Body
from .errors import Refused, ReplicaFailed, answer
from .forwarding import CallerGone, Forwarding
from .places import Places, Served
from .requests import IDEMPOTENT, check_form, target, token

_TRIES = 3  # replicas for one request
_OTHERS = "There is no model '{}', or you may not use it."


class Callers:
    """Handler of all requests. ``per_user`` and ``per_address``: most requests at once;
    ``proxies``: addresses whose X-Forwarded-For is believed."""

    def __init__(
        self,
        places: Places,
        access: Access,
        forwarding: Forwarding,
        log: logging.Logger,
        *,
        per_user: int,
        per_address: int,
        proxies: frozenset[str],
    ) -> None:
        self._places, self._access, self._forwarding = places, access, forwarding
        self._log, self._proxies = log, proxies
        self._per_user, self._per_address = per_user, per_address
        self._users: Counter[str] = Counter()
        self._addresses: Counter[str] = Counter()
        self.refusals: Counter[int] = Counter()
        self.in_flight = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        begin_request(request.headers.get(HEADER))
        self.in_flight += 1
        try:
            check_form(request)
            name, path = target(request.raw_path)
            address = self._address(request)
            words = "Too many requests at once from this address. Try again in a moment."
            with _counted(self._addresses, address, self._per_address, words):
                caller = await self._access.caller(token(request.headers))
                note_fields(user=caller.name)
                served = self._served(caller, name, path)
                words = f"You have {self._per_user} requests at once. Try again in a moment."
                with _counted(self._users, caller.name, self._per_user, words):
                    return await self._answered(request, served, path, caller)
        except Refused as refused:
            self.refusals[refused.status] += 1
            refusal = answer(refused)
            refusal.headers[HEADER] = request_id()
            refusal.force_close()
            return refusal
        except CallerGone:
            # An error of the connection is what aiohttp's server ends without a word.
            raise ConnectionResetError from None
        finally:
            self.in_flight -= 1

    def _served(self, caller: Caller, name: str, path: str) -> Served:
        """Return the model. Raises Refused if there is none for this caller, or not this path."""
        served = self._places.models.get(name)
        if served is None or not may_use(caller, name, served.model):
            raise Refused(404, _OTHERS.format(name))
        paths = served.model.paths
        if paths and not path.partition("?")[0].startswith(paths):
            raise Refused(404, f"Model '{name}' answers only below {', '.join(paths)}.")
        return served

    async def _answered(
        self, request: web.BaseRequest, served: Served, path: str, caller: Caller
    ) -> web.StreamResponse:
        body = Body(request, served.model.limits.body)
        await body.read_beginning()
        began = time.monotonic()
        served.requests += 1
        failed: ReplicaFailed | None = None
        but: set[str] = set()
        for _ in range(_TRIES):
            try:
                async with self._places.taken(served, but) as place:
                    try:
                        response = await self._forwarding.forward(
                            request, served, place, path, caller.name, body
                        )
                        served.latencies.add_seconds(time.monotonic() - began)
                        return response
                    except ReplicaFailed as error:
                        failed = error
                        but.add(place.replica.id)
                        self._log.warning("Replica %s %s", place.replica.id, error.words)
            except Refused:
                if failed is None:
                    raise
                break  # no other replica came; the first failure says more
            again = not failed.sent or request.method in IDEMPOTENT
            if not again or not body.repeatable or failed.status == 504:
                break
        served.errors += 1
        assert failed is not None
        words = f"A replica of model '{served.name}' {failed.words}."
        raise Refused(failed.status, words, 5 if failed.status == 503 else None)

    def _address(self, request: web.BaseRequest) -> str:
        """Return the caller's address: of a proxy's requests, the last that the proxy has added;
        "" for a request from the proxy's machine itself."""
        peer = request.remote or ""
        if peer in self._proxies:
            forwarded = request.headers.getall("X-Forwarded-For", [""])
            return forwarded[-1].rpartition(",")[2].strip()[:64]
        return peer


@contextlib.contextmanager
def _counted(counter: Counter[str], key: str, most: int, words: str) -> Iterator[None]:
    """Count a request while it lasts; an unknown ``key`` ("") is not counted. Raises Refused with
    ``words`` beyond ``most``."""
    if not key:
        yield
        return
    if counter[key] >= most:
        raise Refused(429, words, 1)
    counter[key] += 1
    try:
        yield
    finally:
        counter[key] -= 1
        if not counter[key]:
            del counter[key]
