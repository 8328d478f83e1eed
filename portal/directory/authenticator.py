"""Logging in to the Hub with LDAP, and keeping a person's groups fresh."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from tornado import web

from ..errors import (
    ConfigurationError,
    DirectoryUnavailable,
    NotAllowed,
    NotFound,
    PortalError,
)
from ..service_accounts import is_service, refusal, service_accounts
from .login import came_late
from .origin import attempt_of, remember
from .people import DirectoryPerson, People
from .rosters import Rosters
from .servers import NO_ANSWER
from .settings import DirectorySettings
from .throttle import Attempt, LoginThrottle

T = TypeVar("T")

_REFUSAL_KEPT = 5.0  # seconds; so often at most is asked for somebody whom it refused
_LOOKING = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class ServerAnswer:
    """How one server answered a probe: ``seconds`` it took, ``trouble`` in words or None."""

    uri: str
    seconds: float
    trouble: str | None


class LDAPAuthenticator(DirectorySettings):
    """Log in with LDAP: people, nested groups, admins and instructors by group.

    Example::

        c.JupyterHub.authenticator_class = "portal-ldap"
        c.LDAPAuthenticator.servers = ["ldaps://ldap1.example.org", "ldaps://ldap2.example.org"]
        c.LDAPAuthenticator.people_base = "ou=people,dc=example,dc=org"
        c.LDAPAuthenticator.search_bind_dn = "cn=portal,ou=services,dc=example,dc=org"
        c.LDAPAuthenticator.search_password_file = "/etc/data-scientist-portal/ldap-password"
        c.LDAPAuthenticator.groups_base = "ou=groups,dc=example,dc=org"
        c.LDAPAuthenticator.admin_groups = {"portal-admins"}

    ldap3 blocks, so it runs in two small pools of threads: refreshes that wait for a hanging
    server do not stand in the way of logins. Whatever the servers do, a login is answered
    within ``login_timeout`` and a page waits at most ``refresh_patience``; only who changes
    something, or was refused before, waits for the answer itself.

    Raises ConfigurationError when it is made with settings that cannot or must not work.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.check_settings()
        self.people: People = self.make_people()
        self.rosters = Rosters(self.people)
        self._logins = ThreadPoolExecutor(self.threads, "ldap-login")
        self._refreshes = ThreadPoolExecutor(self.threads, "ldap-refresh")
        # Refreshes under way, or answered but not yet used: the answer and when it was asked for.
        self._asked: dict[str, tuple[asyncio.Task[dict[str, Any] | bool], float]] = {}
        # The last answer of those that nobody had used when the next was asked for.
        self._unused: dict[str, dict[str, Any]] = {}
        # Whom the directory refused, and when: that holds until it says something else.
        self._refused: dict[str, float] = {}
        self.throttle = LoginThrottle(
            self.lockout_threshold,
            self.lockout_window,
            self.wrong_passwords_per_address,
            each=max(1, len(self.bind_name_templates)),
        )
        self._services = service_accounts(self.config)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        for text, on in (
            ("server certificates are NOT verified", not self.verify_certificates),
            ("passwords are sent in CLEAR TEXT", not self.use_tls),
            ("groups are refreshed at login only: no search account", not self.can_refresh),
        ):
            if on:
                self.log.warning("LDAP: %s", text)

    @property
    def can_refresh(self) -> bool:
        """Whether groups stay fresh between logins: it takes a search account."""
        return self.people.can_look_up

    # -- login ---------------------------------------------------------------------------------

    async def authenticate(self, handler: Any, data: dict[str, str]) -> dict[str, Any] | None:
        """The person's Hub model, None when name or password is wrong (all alike).

        Raises web.HTTPError, shown on the login form: 503 when no server answers in time, 429
        after too many wrong passwords, with Retry-After, and 403 where the password was right but
        the directory wants something else first, or the name is that of a service account.
        """
        name = (data.get("username") or "").strip().lower()
        password = data.get("password") or ""
        if not password or not self._well_formed(name):
            return None
        attempt = attempt_of(handler, name)
        # One password of a name at a time, those of strangers apart from the person's own: as many
        # wrong ones as may be sent are sent, and not more at once.
        key = f"{bool(self.throttle.known(attempt))} {name}"
        turn = self._turns[key] = self._turns.get(key) or asyncio.Lock()
        try:
            async with asyncio.timeout(self.login_timeout), turn:
                person = await self._try_password(attempt, password)
        except (PortalError, TimeoutError) as error:
            if isinstance(error, NotAllowed):
                raise web.HTTPError(403, error.message) from error
            if isinstance(error, TimeoutError):
                self.log.warning("LDAP: no answer in %g s", self.login_timeout)
            elif not isinstance(error, DirectoryUnavailable):
                self.log.error("LDAP: %s", error.message)
            raise web.HTTPError(503, NO_ANSWER) from error
        if person is None:
            return None
        remember(handler, name)
        model = self._model(person)
        self._forget(model["name"])
        if is_service(model["name"], self._services):
            self.log.warning("User %s has the name of a service account: refused", model["name"])
            raise web.HTTPError(403, refusal(model["name"]).message)
        if self._welcome(model):
            self._refused.pop(model["name"], None)
        return await self._with_more_groups(model)

    async def _try_password(self, attempt: Attempt, password: str) -> DirectoryPerson | None:
        wait = self.throttle.wait(attempt)
        if wait > 0:
            where = attempt.address or "an unknown address"
            self.log.warning(
                "LDAP: %s from %s waits %.0f s after wrong passwords", attempt.name, where, wait
            )
            raise too_many(wait)
        self.throttle.begin(attempt)
        loop = asyncio.get_running_loop()
        deadline = time.monotonic() + self.login_timeout
        asked = self._logins.submit(self.people.log_in, attempt.name, password, deadline)

        # Nobody may wait for it any more when it comes: the directory has counted it all the same.
        def answered(asked: Future[DirectoryPerson | None]) -> None:
            failed = asked.cancelled() or asked.exception() is not None
            right = None if failed else asked.result() is not None
            with suppress(RuntimeError):  # the Hub ends
                loop.call_soon_threadsafe(self.throttle.end, attempt, right)

        asked.add_done_callback(answered)
        return await asyncio.wrap_future(asked)

    def check_allowed(self, username: str, authentication: dict[str, Any] | None = None) -> bool:
        """Whether somebody whose password was right may use this Hub.

        Raises web.HTTPError 403, shown on the login form, when not: the password was right, so
        the sentence tells nothing to a stranger.
        """
        if authentication is None:
            return bool(super().check_allowed(username, None))
        if self._allowed(username, authentication):
            return True
        self.log.warning("User %s is in none of the allowed groups", username)
        raise web.HTTPError(
            403,
            "Your password is right, but your account is not allowed to use this portal. "
            "Ask the people who run it to add you to a group that is.",
        )

    # -- refresh -------------------------------------------------------------------------------

    async def refresh_user(self, user: Any, handler: Any = None) -> bool | dict[str, Any]:
        """Groups and rights as the directory has them now.

        False, which logs the person out and refuses their tokens, when the directory no longer
        knows or allows them, and from then on until it does. True keeps what is known: no search
        account, no answer, or none in time; a later answer is used with the next page.
        """
        if not self.can_refresh:
            return True
        now = time.monotonic()
        if now - self._refused.get(user.name, -_REFUSAL_KEPT) < _REFUSAL_KEPT:
            return False
        refused = user.name in self._refused
        answer, asked = self._asked.get(user.name, (None, now))
        old = now - asked > self.auth_refresh_age + self.login_timeout
        if answer and answer.done() and (refused or old):
            # It waited for its page so long that it is no news any more, unless the next is late.
            last = answer.result()
            if isinstance(last, dict):
                self._unused[user.name] = last
            answer = None
        patient = refused or _changes_something(handler)
        first = answer is None
        if answer is None:
            answer = asyncio.ensure_future(self._judged(user.name))
            self._asked[user.name] = (answer, now)
        if first or patient:
            patience = self.login_timeout if patient else self.refresh_patience
            await asyncio.wait([answer], timeout=patience)
        if not answer.done():
            if first:
                answer.add_done_callback(functools.partial(came_late, user))
            known = self._unused.pop(user.name, None) or not refused
        else:
            self._forget(user.name)
            known = answer.result()
        return known if isinstance(known, bool) else await self._with_more_groups(known)

    async def mail_of(self, name: str) -> str | None:
        """The mail address of somebody with this Hub name; None where the directory has none.

        Raises DirectoryUnavailable, and ConfigurationError without a search account.
        """
        if not self.can_refresh:
            raise ConfigurationError(
                "The directory tells mail addresses to a search account only: set "
                "c.LDAPAuthenticator.search_bind_dn, or c.Notices.address."
            )
        directory_name = self._directory_name(name)
        person = await self._ask(self._refreshes, self.people.look_up, directory_name)
        return person.mail if person else None

    async def known(self, names: Iterable[str]) -> dict[str, DirectoryPerson]:
        """Those of ``names`` that the directory has, by the name that was asked for; the names in
        them are the Hub's. Groups are not read.

        Raises DirectoryUnavailable; ConfigurationError without a search account.
        """
        hub = {self._directory_name(name): name for name in names}
        found = await self._ask_rosters(self.rosters.known, frozenset(hub))
        return {
            hub[name]: dataclasses.replace(one, name=self.normalize_username(one.name))
            for name, one in found.items()
        }

    async def members_of(self, group: str) -> tuple[str, ...]:
        """The Hub names of everyone in a group of the directory, those in groups in it included.

        Raises NotFound where there is no such group, and as ``known`` does.
        """
        return tuple(
            self.normalize_username(name)
            for name in await self._ask_rosters(self.rosters.members, group)
        )

    async def model_of(self, name: str) -> dict[str, Any]:
        """The Hub's model of somebody who need not have logged in, as a login would give it.

        Raises NotFound where the directory has nobody of that Hub name, NotAllowed for who may not
        log in, and as ``known`` does.
        """
        person = None
        if self.validate_username(name):
            person = await self._ask_rosters(self.people.look_up, self._directory_name(name))
        if person is None:
            raise NotFound(f"The directory has nobody with the name '{name[:100]}'.")
        model = self._model(person)
        if is_service(model["name"], self._services):
            raise refusal(model["name"])
        if not self._welcome(model):
            raise NotAllowed(f"'{name}' is not allowed to use this portal.")
        return await self._with_more_groups(model)

    async def may_teach(self, name: str) -> bool:
        """Whether somebody is in one of ``instructor_groups`` or ``admin_groups``. Raises as
        ``known`` does."""
        person = await self._ask_rosters(self.people.look_up, self._directory_name(name))
        groups = () if person is None else person.groups
        return self.is_instructor(groups) or _meets(groups, self.admin_groups)

    async def _ask_rosters(self, work: Callable[..., T], what: Any) -> T:
        if not self.can_refresh:
            raise ConfigurationError(
                "The directory tells who is in it to a search account only: set "
                "c.LDAPAuthenticator.search_bind_dn."
            )
        return await self._ask(self._refreshes, work, what)

    async def _judged(self, name: str) -> bool | dict[str, Any]:
        """The model of somebody with this Hub name, False for who is refused, and True, or False
        where they were refused before, when the directory does not answer."""
        try:
            directory_name = self._directory_name(name)
            person = await self._ask(self._refreshes, self.people.look_up, directory_name)
        except PortalError as error:
            self.log.warning("LDAP: groups of %s stay as they were: %s", name, error.message)
            return name not in self._refused
        why = "in the directory"
        if person is not None:
            why = "allowed"
            model = self._model(person)
            if self._welcome(model):
                self._refused.pop(name, None)
                return model
        if name not in self._refused:
            self.log.warning("User %s is no longer %s: logged out", name, why)
        self._refused[name] = time.monotonic()
        self._unused.pop(name, None)
        return False

    def _forget(self, name: str) -> None:
        """Drop answers about ``name`` that are used, or older than what is known now."""
        self._asked.pop(name, None)
        self._unused.pop(name, None)

    # -- what the directory says, as the Hub wants it ------------------------------------------

    def _model(self, person: DirectoryPerson) -> dict[str, Any]:
        name = self.normalize_username(person.name)
        admin: bool | None = None
        if self.admin_groups:
            admin = _meets(person.groups, self.admin_groups) or name in self.admin_users
        return {
            "name": name,
            "admin": admin,
            "groups": list(person.groups),
            "auth_state": {
                "dn": person.dn,
                "groups": list(person.groups),
                "instructor": self.is_instructor(person.groups),
                "uid": person.uid,
                "gid": person.gid,
                "home": person.home,
            },
        }

    async def _with_more_groups(self, model: dict[str, Any]) -> dict[str, Any]:
        """``model`` with the groups of ``more_groups`` too. Whether the person is an admin, an
        instructor or allowed at all is the directory's to say alone."""
        if self.more_groups is None:
            return model
        groups = {*model["groups"], *await self.more_groups(model["name"])}
        return {**model, "groups": sorted(groups)}

    def is_instructor(self, groups: Iterable[str]) -> bool:
        """Whether one of these groups makes an instructor."""
        return _meets(groups, self.instructor_groups)

    def _allowed(self, name: str, model: dict[str, Any]) -> bool:
        groups = (model.get("auth_state") or model)["groups"]  # without ``more_groups``
        return not is_service(name, self._services) and bool(
            self.allow_all
            or model.get("admin")
            or name in self.admin_users | self.allowed_users
            or _meets(groups, self.allowed_groups)
        )

    def _welcome(self, model: dict[str, Any]) -> bool:
        """Whether somebody may use this Hub: they are allowed, and not blocked."""
        name = model["name"]
        return bool(self.check_blocked_users(name, model)) and self._allowed(name, model)

    def _directory_name(self, hub_name: str) -> str:
        """The name before ``username_map``."""
        return next((a for a, b in self.username_map.items() if b == hub_name), hub_name)

    # -- off the event loop --------------------------------------------------------------------

    async def _ask(self, pool: ThreadPoolExecutor, work: Callable[..., T], *args: Any) -> T:
        """``work(*args, deadline)`` in a thread. Raises DirectoryUnavailable when it is late."""
        deadline = time.monotonic() + self.login_timeout
        call = functools.partial(work, *args, deadline)
        try:
            return await asyncio.wait_for(
                asyncio.get_running_loop().run_in_executor(pool, call), self.login_timeout
            )
        except TimeoutError as error:
            self.log.warning("LDAP: no answer in %g s", self.login_timeout)
            raise DirectoryUnavailable(NO_ANSWER) from error

    async def probe(self) -> list[ServerAnswer]:
        """Ask each server for itself (connection, TLS, search account), for ``portal doctor``."""

        def one(uri: str, _: float) -> ServerAnswer:
            start = time.monotonic()
            trouble = self.people.trouble_with(uri)
            return ServerAnswer(uri, time.monotonic() - start, trouble)

        async def bounded(uri: str) -> ServerAnswer:
            try:
                return await self._ask(self._logins, one, uri)
            except DirectoryUnavailable:
                return ServerAnswer(uri, self.login_timeout, "does not answer")

        return list(await asyncio.gather(*map(bounded, self.servers)))


def _meets(groups: Iterable[str], wanted: Iterable[str]) -> bool:
    """Whether a name is in both; LDAP compares names without regard to case."""
    return bool({g.casefold() for g in groups} & {w.casefold() for w in wanted})


def too_many(seconds: float) -> web.HTTPError:
    """The answer to who has to wait so long before another password is tried."""
    left = math.ceil(seconds)
    wait = f"{left} s" if left < 100 else f"{math.ceil(left / 60)} minutes"
    error = web.HTTPError(
        429,
        f"Too many wrong passwords. Try again in {wait}, "
        "or at once in a browser where you have logged in before.",
    )
    error.headers = {"Retry-After": str(left)}  # type: ignore[attr-defined]
    return error


def _changes_something(handler: Any) -> bool:
    """Whether a request does more than look: a launch, an action, a new token."""
    return handler is not None and handler.request.method not in _LOOKING
