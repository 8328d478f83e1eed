"""Callers: the Hub's answer about a token, held for some seconds, and the models it lets use."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import secrets
import ssl
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import aiohttp

from portal.models.scope import MODELS_USE

from .errors import Refused
from .routes import Model

SCOPE = MODELS_USE
HOLDS = 10.0  # seconds; a revoked token is refused after them
_RENEWS = 5.0  # seconds of age from which an answer in use is asked for again, beside requests
_AGAIN = 1.0  # seconds for which a Hub that does not answer is not asked again about a known token
_HUB = 5.0  # seconds for one answer of the Hub
_PATIENCE = 30.0  # seconds for which an unknown token waits for the Hub
_MOST = 20_000  # tokens whose answer is held
_AT_ONCE = 16  # questions to the Hub
_UNKNOWN = 256  # questions that wait, beyond which strangers' tokens are refused
_LARGEST = 4 * 1024 * 1024  # bytes of the Hub's answer
_INVALID = "The token is not valid, has expired or was revoked. Make one on the page 'Token'."


@dataclass(frozen=True)
class Caller:
    """User to whom a token belongs, and the scopes that it has."""

    name: str
    groups: frozenset[str]
    scopes: frozenset[str]


def may_use(caller: Caller, name: str, model: Model) -> bool:
    """Return True if the model is served to this user. Raises Refused if their token is not for
    models, or for other models."""
    listed = (
        model.everyone
        or caller.name == model.owner
        or caller.name in model.users
        or bool(caller.groups & model.groups)
    )
    if not listed:
        return False
    # JupyterHub knows no filter "model": a token for a single model has !service=NAME.
    good = {SCOPE, *(f"{SCOPE}!{key}" for key in (f"service={name}", f"user={caller.name}"))}
    # A token that can make any token of its user has all that the user has.
    full = {"tokens", f"tokens!user={caller.name}", "admin:users"}
    if not caller.scopes & (good | full):
        words = f"This token does not have the scope '{SCOPE}' for model '{name}'."
        raise Refused(403, f"{words} Make one that has it.")
    return True


@dataclass
class _Known:
    caller: Caller | None  # None: the Hub does not know the token
    asked_at: float
    tried_at: float


class Access:
    """Callers by their tokens. ``url``: the Hub's API; ``session`` asks it."""

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession,
        log: logging.Logger,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._url, self._session, self._log, self._tls = url.rstrip("/"), session, log, tls
        self._key = secrets.token_bytes(32)  # so that tokens are not in the table
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[_Known | None]] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def caller(self, token: str) -> Caller:
        """Return whose token it is. Raises Refused if the Hub does not know it, or does not answer
        and has never been asked about it."""
        key = hashlib.blake2b(token.encode(errors="replace"), key=self._key).digest()
        known = self._known.get(key)
        now = time.monotonic()
        if known is not None:
            self._known.move_to_end(key)
            if now - known.asked_at >= HOLDS:
                if now - known.tried_at >= _AGAIN:
                    known.tried_at = now
                    # The last answer holds while the Hub is away: nobody can revoke a token then.
                    known = await asyncio.shield(self._ask(key, token)) or known
            elif now - known.asked_at >= _RENEWS and now - known.tried_at >= _AGAIN:
                known.tried_at = now
                self._ask(key, token)
        else:
            known = await self._first(key, token)
        if known.caller is None:
            raise Refused(401, _INVALID)
        return known.caller

    async def close(self) -> None:
        """End the questions that are under way."""
        for task in list(self._asking.values()):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _first(self, key: bytes, token: str) -> _Known:
        """Return the Hub's answer about a token that was not seen before, once the Hub answers."""
        if key not in self._asking and len(self._asking) >= _UNKNOWN:
            raise Refused(503, "Too many tokens are being checked. Try again in a moment.", 5)
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            known = await asyncio.shield(self._ask(key, token))
            if known is not None:
                return known
            await asyncio.sleep(0.5)
        words = "The Hub does not answer, so the token cannot be checked. Try again in a moment."
        raise Refused(503, words, 10)

    def _ask(self, key: bytes, token: str) -> asyncio.Task[_Known | None]:
        """Return the question about a token that is under way, or begin it."""
        task = self._asking.get(key)
        if task is None:
            task = asyncio.create_task(self._asked(key, token))
            self._asking[key] = task
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        return task

    async def _asked(self, key: bytes, token: str) -> _Known | None:
        """Ask the Hub; None if it does not answer."""
        began = time.monotonic()
        try:
            async with self._turns, asyncio.timeout(_HUB):
                answered, caller = await self._of_hub(token)
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            self._log.warning("The Hub did not answer about a token: %s", type(error).__name__)
            return None
        if not answered:
            return None
        known = self._known[key] = _Known(caller, began, began)
        self._known.move_to_end(key)
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
        return known

    async def _of_hub(self, token: str) -> tuple[bool, Caller | None]:
        """Return (the Hub answered, whose token it is)."""
        headers = {"Authorization": f"token {token}"}
        async with self._session.get(
            f"{self._url}/user", headers=headers, allow_redirects=False, ssl=self._tls or True
        ) as response:
            if response.status in (401, 403, 404):
                return True, None
            if response.status != 200:
                self._log.warning("The Hub answered about a token with %d", response.status)
                return False, None
            body = await response.content.read(_LARGEST)
        return True, _caller(json.loads(body))


def _caller(user: Any) -> Caller | None:
    """Return the user of the Hub's answer; None for a service. Raises ValueError."""
    if not isinstance(user, dict) or not isinstance(user.get("name"), str):
        raise ValueError("no user")
    if user.get("kind", "user") != "user":
        return None
    groups, scopes = user.get("groups") or [], user.get("scopes") or []
    return Caller(user["name"], frozenset(map(str, groups)), frozenset(map(str, scopes)))
