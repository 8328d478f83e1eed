"""The Hub's LDAP authenticator: logins, and refreshes of people's groups."""

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
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from tornado import web

from ..errors import (
    ConfigurationError,
    DirectoryUnavailable,
    NotAllowed,
    NotFound,
    PortalError,
)
from ..models.words import duration
from ..service_accounts import is_service, refusal, service_accounts
from .login import came_late
from .origin import attempt_of, remember
from .refusal import NO_ANSWER
from .settings import DirectorySettings
from .throttle import Attempt, LoginThrottle

if TYPE_CHECKING:
    from .people import DirectoryPerson, People

T = TypeVar("T")

_REFUSAL_AGE = 5.0  # seconds between two queries about a refused person
_LOOKING = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class ServerAnswer:
    """Result of probing a server: ``seconds`` it took, ``trouble`` in words or None."""

    uri: str
    seconds: float
    trouble: str | None


class LDAPAuthenticator(DirectorySettings):
    """LDAP authenticator: people, nested groups, admins and instructors by group.

    Example::

        c.JupyterHub.authenticator_class = "portal-ldap"
        c.LDAPAuthenticator.servers = ["ldaps://ldap1.example.org", "ldaps://ldap2.example.org"]
        c.LDAPAuthenticator.people_base = "ou=people,dc=example,dc=org"
        c.LDAPAuthenticator.search_bind_dn = "cn=portal,ou=services,dc=example,dc=org"
        c.LDAPAuthenticator.search_password_file = "/etc/data-scientist-portal/ldap-password"
        c.LDAPAuthenticator.groups_base = "ou=groups,dc=example,dc=org"
        c.LDAPAuthenticator.admin_groups = {"portal-admins"}

    ldap3 blocks, so it runs in two small thread pools: refreshes that wait for a hanging server do
    not delay logins. Whatever the servers do, a login is answered within ``login_timeout`` and a
    page waits at most ``refresh_patience``; only requests that change something, and people who
    were refused before, wait for the answer itself.

    Raises ConfigurationError if created with settings that cannot or must not work.
    """

    def __init__(self, **kwargs: Any) -> None:
        from .rosters import Rosters

        super().__init__(**kwargs)
        self.check_settings()
        self.people: People = self.make_people()
        self.rosters = Rosters(self.people)
        self._logins = ThreadPoolExecutor(self.threads, "ldap-login")
        self._refreshes = ThreadPoolExecutor(self.threads, "ldap-refresh")
        # Refreshes running, or finished but not yet used, with their start (monotonic).
        self._asked: dict[str, tuple[asyncio.Task[dict[str, Any] | bool], float]] = {}
        # Results of refreshes that no page had used when the next one started.
        self._unused: dict[str, dict[str, Any]] = {}
        self._capitals: set[str] = set()  # accounts of people, as far as they have capitals
        # People refused by the directory, and when; they stay refused until it answers otherwise.
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
        """True if groups are refreshed between logins, which requires a search account."""
        return self.people.can_look_up

    # -- login ---------------------------------------------------------------------------------

    async def authenticate(self, handler: Any, data: dict[str, str]) -> dict[str, Any] | None:
        """Return the person's Hub model; None if name or password is wrong, whichever it is.

        Raises web.HTTPError, shown on the login form: 503 if no server answers in time, 429 with
        Retry-After after too many wrong passwords, and 403 if the password was right but the
        directory requires something else first, or if the name is a service account's or has
        another realm than the site's.
        """
        name = self._without_realm((data.get("username") or "").strip().lower())
        password = data.get("password") or ""
        if not password or not self._well_formed(name):
            return None
        attempt = attempt_of(handler, name)
        # Passwords of a name are tried one after another, separately for strangers and for known
        # places, so that parallel attempts cannot exceed the limit of wrong ones.
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

    def normalize_username(self, username: str) -> str:
        """Return the Hub's name: in lower case, unless the account is known to have capitals."""
        if username in self._capitals:
            return str(self.username_map.get(username.lower(), username))
        return str(super().normalize_username(username))

    def check_blocked_users(
        self, username: str, authentication: dict[str, Any] | None = None
    ) -> bool:
        """Return True if the person is not blocked; the setting's names are in lower case."""
        allowed = super().check_blocked_users(username, authentication)
        return bool(allowed) and not _meets([username], self.blocked_users)

    def _hub_name(self, account: str) -> str:
        """Return the Hub's name of the directory's person with this account."""
        if account != account.lower():
            self._capitals.add(account)
        return self.normalize_username(account)

    def _without_realm(self, typed: str) -> str:
        """Return a typed name without the site's realm: "ada" of "ada@example.org". Raises
        web.HTTPError for another realm."""
        name, at, realm = typed.partition("@")
        if not at or self._well_formed(typed):
            return typed
        if realm not in self.realms:
            raise web.HTTPError(
                403, "Sign in with your user name alone, without '@' and what follows it."
            )
        return name

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
        future = self._logins.submit(self.people.log_in, attempt.name, password, deadline)

        # The result counts even if nobody waits for it any more: the directory has counted it too.
        def answered(future: Future[DirectoryPerson | None]) -> None:
            failed = future.cancelled() or future.exception() is not None
            right = None if failed else future.result() is not None
            with suppress(RuntimeError):  # the Hub ends
                loop.call_soon_threadsafe(self.throttle.end, attempt, right)

        future.add_done_callback(answered)
        return await asyncio.wrap_future(future)

    def check_allowed(self, username: str, authentication: dict[str, Any] | None = None) -> bool:
        """Return True if the person, whose password was right, may use this Hub.

        Raises web.HTTPError 403, shown on the login form, if not: the password was right, so the
        message tells nothing to a stranger.
        """
        if authentication is None:
            return bool(super().check_allowed(username, None))
        if self._allowed(username, authentication):
            return True
        self.log.warning("User %s is not in an allowed group", username)
        raise web.HTTPError(
            403,
            "Your password is correct, but your account is not allowed to use this portal. "
            "Ask an administrator of the portal to add you to an allowed group.",
        )

    # -- refresh -------------------------------------------------------------------------------

    async def refresh_user(self, user: Any, handler: Any = None) -> bool | dict[str, Any]:
        """Return the person's groups and rights as the directory has them now.

        False, which logs the person out and refuses their tokens, if the directory no longer knows
        or allows them, until it does again. True, which changes nothing, if there is no search
        account, no answer, or none in time; a late answer is used with the next page.
        """
        if not self.can_refresh:
            return True
        now = time.monotonic()
        if now - self._refused.get(user.name, -_REFUSAL_AGE) < _REFUSAL_AGE:
            return False
        refused = user.name in self._refused
        task, started = self._asked.get(user.name, (None, now))
        old = now - started > self.auth_refresh_age + self.login_timeout
        if task and task.done() and (refused or old):
            # Outdated, since no page used it in time; needed only if the next answer is late.
            last = task.result()
            if isinstance(last, dict):
                self._unused[user.name] = last
            task = None
        patient = refused or _changes_something(handler)
        first = task is None
        if task is None:
            task = asyncio.ensure_future(self._checked(user.name))
            self._asked[user.name] = (task, now)
        if first or patient:
            patience = self.login_timeout if patient else self.refresh_patience
            await asyncio.wait([task], timeout=patience)
        if not task.done():
            if first:
                task.add_done_callback(functools.partial(came_late, user))
            result = self._unused.pop(user.name, None) or not refused
        else:
            self._forget(user.name)
            result = task.result()
        return result if isinstance(result, bool) else await self._with_more_groups(result)

    async def mail_of(self, name: str) -> str | None:
        """Return the mail address of the person with this Hub name; None if there is none.

        Raises DirectoryUnavailable, and ConfigurationError without a search account.
        """
        if not self.can_refresh:
            raise ConfigurationError(
                "Mail addresses can only be read with a search account: set "
                "c.LDAPAuthenticator.search_bind_dn, or c.Notices.address."
            )
        directory_name = self._directory_name(name)
        person = await self._ask(self._refreshes, self.people.look_up, directory_name)
        return person.mail if person else None

    async def known(self, names: Iterable[str]) -> dict[str, DirectoryPerson]:
        """Return the people among ``names`` whom the directory has, by the requested name.

        The names in them are the Hub's. Groups are not read. Raises DirectoryUnavailable;
        ConfigurationError without a search account.
        """
        hub = {self._directory_name(name): name for name in names}
        people = await self._ask_rosters(self.rosters.known, frozenset(hub))
        return {
            hub[name]: dataclasses.replace(person, name=self._hub_name(person.name))
            for name, person in people.items()
        }

    async def members_of(self, group: str) -> tuple[str, ...]:
        """Return the Hub names of all members of a directory group, nested groups included.

        Raises NotFound if there is no such group, and as ``known`` does.
        """
        return tuple(
            self._hub_name(name) for name in await self._ask_rosters(self.rosters.members, group)
        )

    async def model_of(self, name: str) -> dict[str, Any]:
        """Return the Hub model of a person, as a login would; they need not have logged in.

        Raises NotFound if the directory has nobody of that Hub name, NotAllowed if they may not
        log in, and as ``known`` does.
        """
        person = None
        if self.validate_username(name):
            person = await self._ask_rosters(self.people.look_up, self._directory_name(name))
        if person is None:
            raise NotFound(f"The directory has no user with the name '{name[:100]}'.")
        model = self._model(person)
        if is_service(model["name"], self._services):
            raise refusal(model["name"])
        if not self._welcome(model):
            raise NotAllowed(f"'{name}' is not allowed to use this portal.")
        return await self._with_more_groups(model)

    async def may_teach(self, name: str) -> bool:
        """Return True if the person is in one of ``instructor_groups`` or ``admin_groups``.

        Raises as ``known`` does.
        """
        person = await self._ask_rosters(self.people.look_up, self._directory_name(name))
        groups = () if person is None else person.groups
        return self.is_instructor(groups) or _meets(groups, self.admin_groups)

    async def _ask_rosters(self, work: Callable[..., T], what: Any) -> T:
        if not self.can_refresh:
            raise ConfigurationError(
                "The directory can only be searched with a search account: set "
                "c.LDAPAuthenticator.search_bind_dn."
            )
        return await self._ask(self._refreshes, work, what)

    async def _checked(self, name: str) -> bool | dict[str, Any]:
        """Return the model of the person with this Hub name; False if they are refused. If the
        directory does not answer: True, or False if they were refused before."""
        try:
            directory_name = self._directory_name(name)
            person = await self._ask(self._refreshes, self.people.look_up, directory_name)
        except PortalError as error:
            self.log.warning("LDAP: groups of %s were not refreshed: %s", name, error.message)
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
        """Drop answers about ``name`` that are used or outdated."""
        self._asked.pop(name, None)
        self._unused.pop(name, None)

    # -- what the directory says, as the Hub wants it ------------------------------------------

    def _model(self, person: DirectoryPerson) -> dict[str, Any]:
        name = self._hub_name(person.name)
        admin: bool | None = None
        if self.admin_groups:
            admin = _meets(person.groups, self.admin_groups) or _meets([name], self.admin_users)
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
        """Return ``model`` with the groups of ``more_groups`` added. The directory alone decides
        whether the person is an admin, an instructor or allowed at all."""
        if self.more_groups is None:
            return model
        groups = {*model["groups"], *await self.more_groups(model["name"])}
        return {**model, "groups": sorted(groups)}

    def is_instructor(self, groups: Iterable[str]) -> bool:
        """Return True if one of these groups makes a person an instructor."""
        return _meets(groups, self.instructor_groups)

    def _allowed(self, name: str, model: dict[str, Any]) -> bool:
        groups = (model.get("auth_state") or model)["groups"]  # without ``more_groups``
        return not is_service(name, self._services) and bool(
            self.allow_all
            or model.get("admin")
            or _meets([name], self.admin_users | self.allowed_users)
            or _meets(groups, self.allowed_groups)
        )

    def _welcome(self, model: dict[str, Any]) -> bool:
        """Return True if the person may use this Hub: allowed and not blocked."""
        name = model["name"]
        return bool(self.check_blocked_users(name, model)) and self._allowed(name, model)

    def _directory_name(self, hub_name: str) -> str:
        """Return the name before ``username_map``."""
        return next((a for a, b in self.username_map.items() if b == hub_name), hub_name)

    # -- off the event loop --------------------------------------------------------------------

    async def _ask(self, pool: ThreadPoolExecutor, work: Callable[..., T], *args: Any) -> T:
        """Run ``work(*args, deadline)`` in a thread. Raises DirectoryUnavailable if it is late."""
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
        """Probe each server (connection, TLS, search account), for ``portal doctor``."""

        def probe_server(uri: str, _: float) -> ServerAnswer:
            start = time.monotonic()
            trouble = self.people.trouble_with(uri)
            return ServerAnswer(uri, time.monotonic() - start, trouble)

        async def bounded(uri: str) -> ServerAnswer:
            try:
                return await self._ask(self._logins, probe_server, uri)
            except DirectoryUnavailable:
                return ServerAnswer(uri, self.login_timeout, "does not answer")

        return list(await asyncio.gather(*map(bounded, self.servers)))


def _meets(groups: Iterable[str], wanted: Iterable[str]) -> bool:
    """Return True if a name is in both; LDAP compares names case-insensitively."""
    return bool({g.casefold() for g in groups} & {w.casefold() for w in wanted})


def too_many(seconds: float) -> web.HTTPError:
    """Build the 429 for a login that must wait ``seconds`` before another password is tried."""
    left = math.ceil(seconds)
    wait = duration(left if left < 60 else 60 * math.ceil(left / 60))
    error = web.HTTPError(
        429,
        f"Too many wrong passwords. Try again in {wait}, or now in a browser where you have "
        "signed in before.",
    )
    error.headers = {"Retry-After": str(left)}  # type: ignore[attr-defined]
    return error


def _changes_something(handler: Any) -> bool:
    """Return True if a request changes something: a launch, an action, a new token."""
    return handler is not None and handler.request.method not in _LOOKING
