"""Access to a space's session: for its owner, and for whom the portal lets in at this moment.

JupyterHub caches a login for minutes, and open sockets stay open after a share is revoked. So each
request of another person is let through only while the portal says that they are a live helper
(or, in a course's room, a member of the course), and their connections are cut when that ends. An
admin's right to open servers does not apply to such a session either: whoever enters there is
seen by its owner and recorded in the audit log.

Not an extension of the server, which settings in the home folder could switch off: `guard` changes
JupyterHub's own check of logins before the server starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import time
from collections.abc import Mapping
from typing import Any, Callable
from weakref import WeakSet

from tornado.web import HTTPError
from tornado.websocket import WebSocketHandler

from ..service import Address, Service
from ..situation import in_thread
from .together import is_room

FRESH = 0.5  # seconds for which an answer serves; a guest's page makes hundreds of requests
PACE = 2.0  # seconds between two requests while somebody is in
PATIENCE = 3.0  # seconds that a request waits for an answer
LONGEST = 9.0  # seconds that the last answer counts while the portal gives none
_TICK = 0.5
_LAST_WORDS = 0.3  # seconds that a socket has to close by itself
_UPGRADED = 101  # HTTP became a websocket
_POLICY = 1008  # RFC 6455, 7.4.1: the connection is against a policy
_NO_ENTRY = "Only the owner of this {} session and users with access to it can enter."
_OF_PROGRAMS = (
    "You cannot sign in with the session's own token: programs in the session can read it."
)


class Guests:
    """Guests of a session and their open connections. ``ask`` returns the service's GuestList, and
    blocks; ``clock`` returns monotonic seconds."""

    def __init__(
        self,
        owner: str,
        ask: Callable[[], Mapping[str, Any]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.owner = owner
        self._ask = ask
        self._clock = clock
        self._until: dict[str, float] = {}
        self._asked_at = float("-inf")  # time of the request behind the current list
        self._renewal: asyncio.Task[None] | None = None
        self._renewal_at = float("-inf")
        self._inside: dict[str, WeakSet[Any]] = {}
        self._watching: asyncio.Task[None] | None = None

    def live(self, person: str) -> bool:
        """Return True if ``person`` may be in now, as far as known; a guest may not if the list is
        old."""
        if person == self.owner:
            return True
        now = self._clock()
        return now - self._asked_at <= LONGEST and self._until.get(person, now) > now

    async def may_enter(self, person: str, *, anew: bool = False) -> bool:
        """Return True if ``person`` may be in now. ``anew``: only an answer requested from now on
        counts."""
        asked = self._clock() - (0.0 if anew else FRESH)
        if self._asked_at < asked:
            await self._renewed(asked)
        return self.live(person)

    def outdate(self) -> None:
        """Request a new list: something was changed from here, so the current one no longer counts
        for new requests."""
        self._begin()

    def entered(self, person: str, handler: Any) -> None:
        """Register a request that was let in; it is cut when the person has to leave."""
        self._inside.setdefault(person, WeakSet()).add(handler)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.ensure_future(self._watch())

    def inside(self) -> list[str]:
        """List who has a page open: its sockets are open as long as it is."""
        return sorted(
            person
            for person in self._present()
            if any(isinstance(handler, WebSocketHandler) for handler in self._inside[person])
        )

    # -- the list of guests --------------------------------------------------------------------

    async def _renewed(self, since: float) -> None:
        """Wait a while for the answer to a request made at ``since`` or later."""
        deadline = self._clock() + PATIENCE
        while self._asked_at < since and self._clock() < deadline:
            if self._renewal is None or self._renewal.done():
                self._begin()
            assert self._renewal is not None
            left = max(0.0, deadline - self._clock())
            await asyncio.wait({self._renewal}, timeout=left)
            if self._asked_at < since and self._renewal_at >= since:
                break  # asked, but not answered

    def _begin(self) -> None:
        self._renewal_at = self._clock()
        self._renewal = asyncio.ensure_future(self._renew(self._renewal_at))

    async def _renew(self, asked_at: float) -> None:
        with contextlib.suppress(Exception):  # any error: the current list grows old
            guest_list = await in_thread(self._ask)
            until = {
                str(guest["person"]): asked_at + float(guest["seconds"])
                for guest in guest_list["guests"]
            }
            if asked_at > self._asked_at:
                self._until, self._asked_at = until, asked_at

    # -- open connections ----------------------------------------------------------------------

    async def _watch(self) -> None:
        """Cut the connections of those who may not be in, while anybody is in."""
        while self._present():
            due = self._clock() - max(self._asked_at, self._renewal_at) >= PACE
            if due and (self._renewal is None or self._renewal.done() or self._stuck()):
                self._begin()
            for person in self._present():
                if not self.live(person):
                    for handler in list(self._inside[person]):
                        _cut(handler)
            await asyncio.sleep(_TICK)

    def _stuck(self) -> bool:
        return self._clock() - self._renewal_at > PATIENCE

    def _present(self) -> list[str]:
        for person in list(self._inside):
            for handler in list(self._inside[person]):
                if _over(handler):
                    self._inside[person].discard(handler)
            if not self._inside[person]:
                del self._inside[person]
        return list(self._inside)


def _over(handler: Any) -> bool:
    """Return True if a request is answered, or its socket closed."""
    if isinstance(handler, WebSocketHandler) and handler.get_status() == _UPGRADED:
        return handler.ws_connection is None or _stream(handler).closed()
    stream = _stream(handler)
    return bool(handler._finished) or (stream is not None and stream.closed())


def _stream(handler: Any) -> Any:
    connection = getattr(handler, "ws_connection", None) or handler.request.connection
    return getattr(connection, "stream", None)


def _cut(handler: Any) -> None:
    """End an open connection: no more input is taken from it, and it closes in a moment. The next
    look finds a socket that is still being opened."""
    stream = _stream(handler)
    if isinstance(handler, WebSocketHandler):
        if handler.ws_connection is None:
            return
        handler.on_message = lambda *_: None
        with contextlib.suppress(Exception):
            handler.close(_POLICY, "Help has ended.")
    if stream is not None:
        asyncio.get_running_loop().call_later(_LAST_WORDS, stream.close)


def guard(environ: Mapping[str, str]) -> Guests | None:
    """Change JupyterHub's check of logins in this process if it is a session of a course or a
    project (PORTAL_COURSE, PORTAL_PROJECT); else return None."""
    noun = "course" if environ.get("PORTAL_COURSE") else "project"
    if not environ.get(f"PORTAL_{noun.upper()}"):
        return None
    from jupyterhub.singleuser.extension import JupyterHubIdentityProvider

    address = Address.from_environ(environ)
    service = None if address is None else Service(address, environ)

    def ask() -> Mapping[str, Any]:
        return {"guests": []} if service is None else service.ask("GET", "session/guests")

    guests = Guests(environ.get("JUPYTERHUB_USER", ""), ask)
    checked = JupyterHubIdentityProvider.get_user

    async def get_user(provider: Any, handler: Any) -> Any:
        """Return the login of the owner or of a guest who may be in now. Raises HTTPError for
        others."""
        hub_auth = provider.hub_auth
        user = await checked(provider, handler)
        if user is None:
            user = await _once_more(provider, handler)
        if user is None:
            return None
        sent = (hub_auth.get_token(handler, in_cookie=False), hub_auth._get_token_cookie(handler))
        if any(_same(token, hub_auth.api_token) for token in sent):
            _refuse(handler, _OF_PROGRAMS)
        if user.hub_user.get("kind", "user") == "user" and user.username == guests.owner:
            if is_room(environ):  # everyone in it sees who is there
                guests.entered(user.username, handler)
            return user
        socket = isinstance(handler, WebSocketHandler)
        if not await guests.may_enter(user.username, anew=socket):
            _forget(hub_auth, user.username)
            _refuse(handler, _NO_ENTRY.format(noun))
        handler.portal_guest = user.username
        guests.entered(user.username, handler)
        return user

    async def _once_more(provider: Any, handler: Any) -> Any:
        """Ask the Hub again for a person who may enter: its refusal from before that is cached
        too."""
        cached = getattr(handler, "_cached_hub_user", None)
        name = cached.get("name", "") if isinstance(cached, dict) else ""
        if not name or name == guests.owner or not await guests.may_enter(name):
            return None
        _forget(provider.hub_auth, name)
        for patched in ("_jupyterhub_user", "_cached_hub_user", "redirect"):
            vars(handler).pop(patched, None)
        return await checked(provider, handler)

    JupyterHubIdentityProvider.get_user = get_user
    JupyterHubIdentityProvider.portal_guests = guests
    return guests


def _forget(hub_auth: Any, person: str) -> None:
    """Remove a person's tokens from HubAuth's cache, so that it asks the Hub again."""
    for key, model in list(hub_auth.cache.values.items()):
        if isinstance(model, dict) and model.get("name") == person:
            hub_auth.cache.pop(key, None)


def _same(token: str | None, other: str) -> bool:
    return bool(token and other) and hmac.compare_digest(token.encode(), other.encode())


def _refuse(handler: Any, why: str) -> None:
    """Raise HTTPError 403, with nobody logged in for the error page."""
    handler.current_user = handler._jupyter_current_user = None
    handler._jupyterhub_user = None
    raise HTTPError(403, why)
