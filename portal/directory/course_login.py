"""Mixin that applies the portal's rules to any authenticator of JupyterHub.

JupyterHub replaces a person's groups with the authenticator's at each login and refresh
(``manage_groups``), so the groups of courses must be among them. A login service only names a
person and their groups; it cannot put anybody into a course.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from jupyterhub.utils import maybe_future
from tornado import web
from traitlets import Float, default

from ..errors import DirectoryUnavailable
from ..models.course.course import group_of
from ..service_accounts import is_service, refusal, service_accounts
from .login import PortalLogin, came_late

_COURSES = group_of("")
_LONGEST = 255  # characters of a group's name, as the Hub's database has them
_MOST = 1000  # groups of one person


class _Asked(NamedTuple):
    """Question to the login service, and the time at which it was asked (monotonic)."""

    answer: asyncio.Task[dict[str, Any] | bool]
    at: float


class CourseLogin(PortalLogin):
    """Mixin, placed before an authenticator of JupyterHub, that adds courses and instructors.

    Example::

        class SiteLogin(CourseLogin, PAMAuthenticator):
            pass


        c.JupyterHub.authenticator_class = SiteLogin

    For those of ``oauthenticator``, use ``portal.directory.oauth.OAuthLogin``.
    """

    # Seconds that a page waits for a refresh of the user's groups; a slower result is used for the
    # next page.
    refresh_patience = Float(2.0)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._services = service_accounts(self.config)
        # Refreshes running, or finished but not yet used; the pages of a person share one.
        self._asked: dict[str, _Asked] = {}
        # People refused by a refresh: for good (True: they may no longer use this Hub), or until
        # they log in again (False). They stay refused until the login service answers otherwise.
        self._refused: dict[str, bool] = {}

    @default("manage_groups")
    def _manage_groups(self) -> bool:
        return True

    def normalize_username(self, username: str) -> str:
        """Return the Hub's name. A non-ASCII name is left as it is, and so invalid, unless it is in
        ``username_map``: ``str.lower`` would turn the Kelvin sign into "k", another person's name.
        """
        if not username.isascii():
            return str(self.username_map.get(username, username))
        return str(super().normalize_username(username))

    # -- login ---------------------------------------------------------------------------------

    async def get_authenticated_user(self, handler: Any, data: Any) -> dict[str, Any] | None:
        """Return the person's Hub model with their courses' groups; None if they are not let in.

        The groups are added here, after JupyterHub has checked who is allowed: a course lets
        nobody in and makes nobody an admin. Raises web.HTTPError 403 for a service account's name.
        """
        model = await super().get_authenticated_user(handler, data)
        if model is None:
            return None
        name = model["name"]
        if is_service(name, self._services):
            self.log.warning("User %s has the name of a service account: refused", name)
            raise web.HTTPError(403, refusal(name).message)
        self._asked.pop(name, None)
        self._refused.pop(name, None)
        groups = [*(model.get("groups") or ())]
        fit = {*groups_given(groups)}
        if left := [group for group in groups if not (isinstance(group, str) and group in fit)]:
            self.log.warning("%d groups of %s are left out, as %.100r", len(left), name, left[0])
        return await self._with_courses(model)

    # -- refresh -------------------------------------------------------------------------------

    async def refresh_user(self, user: Any, handler: Any = None) -> bool | dict[str, Any]:
        """Return the groups and rights that the login service now gives, and today's courses.

        False, which asks a browser to log in again, if the login is over or the person may no
        longer use this Hub; in the second case, their tokens, and launches that others request, are
        refused with web.HTTPError 403. While the login service is down or slow, everyone keeps
        their groups and rights.
        """
        name = user.name
        if is_service(name, self._services):
            self._refused[name] = True
            return self._turned_away(name, user, handler)
        now = time.monotonic()
        asked = self._asked.get(name)
        if asked and asked.answer.done() and now - asked.at > self.auth_refresh_age + 60:
            asked = None  # outdated: no page used it in time
        first = asked is None
        if asked is None:
            task = asyncio.ensure_future(self._checked(user, handler))
            asked = self._asked[name] = _Asked(task, now)
        await asyncio.wait([asked.answer], timeout=self.refresh_patience)
        if not asked.answer.done():
            if first:
                asked.answer.add_done_callback(functools.partial(came_late, user))
            return await self._unchanged(user)
        if self._asked.get(name) is asked:
            del self._asked[name]
        result = asked.answer.result()
        if result is False:
            return self._turned_away(name, user, handler)
        if result is True:
            return await self._unchanged(user)
        if result.get("groups") is None:  # JupyterHub: unchanged
            result = {**result, "groups": _held(user)}
        return await self._with_courses({**result, "name": name})

    def is_refused(self, name: str) -> bool:
        """Return True if a refresh has shown that this user may no longer use the Hub."""
        return self._refused.get(name, False)

    async def ask_again(self, user: Any, handler: Any) -> bool | dict[str, Any]:
        """Return the result of the authenticator's own refresh.

        Raises DirectoryUnavailable if its login service does not answer; any other exception
        counts as a refusal.
        """
        return await maybe_future(super().refresh_user(user, handler))

    async def _checked(self, user: Any, handler: Any) -> bool | dict[str, Any]:
        """Return the model of a person who is still allowed, without courses; False if refused. If
        nobody answers: True, or False if they were refused before. Raises nothing."""
        name = user.name
        try:
            model = await self.ask_again(user, handler)
        except DirectoryUnavailable as error:
            self.log.warning("Groups of %s were not refreshed: %s", name, error.message)
            return name not in self._refused
        except Exception:  # an error of any kind must not let anybody in
            self.log.exception("The refresh of %s failed: the user must sign in again", name)
            model = False
        if model is True:
            return name not in self._refused
        if model is False or not self._same(name, model):
            return self._refuse(name, "must sign in again", for_good=False)
        if not await self._welcome(name, model):
            return self._refuse(name, "is no longer allowed", for_good=True)
        self._refused.pop(name, None)
        return model

    def _refuse(self, name: str, why: str, *, for_good: bool) -> bool:
        if self._refused.get(name) is not for_good:
            self.log.warning("User %s %s", name, why)
        self._refused[name] = for_good
        return False

    def _turned_away(self, name: str, user: Any, handler: Any) -> bool:
        """Return False, which sends a browser to the login.

        JupyterHub lets requests with tokens and other people's launches pass nonetheless
        (``auth_refresh_strict`` is off: a session that waited in the queue overnight must come up).
        For those, raises web.HTTPError 403 if the person is refused for good.
        """
        if handler is None:
            return False
        if not hasattr(handler, "_token_authenticated"):  # JupyterHub 6.1.1 may read it unset
            handler._token_authenticated = False
        own = getattr(handler, "_jupyterhub_user", user) is user
        if self._refused.get(name) and (handler._token_authenticated or not own):
            raise web.HTTPError(403, f"'{name}' is no longer allowed to use this portal.")
        return False

    def _same(self, name: str, model: dict[str, Any]) -> bool:
        """Check that the model names the same person, which JupyterHub takes for granted."""
        claimed = model.get("name", name)
        if isinstance(claimed, str) and self.normalize_username(claimed) == name:
            return True
        self.log.warning("The login service has another name for %s now: %.100r", name, claimed)
        return False

    async def _welcome(self, name: str, model: dict[str, Any]) -> bool:
        """Return True if the person may still use this Hub."""
        complete = {"admin": None, **model}
        try:
            if not await maybe_future(self.check_blocked_users(name, complete)):
                return False
            return bool(self.allow_all or await maybe_future(self.check_allowed(name, complete)))
        except web.HTTPError:  # how some authenticators refuse
            return False

    async def _unchanged(self, user: Any) -> bool | dict[str, Any]:
        """Return the person's known groups with today's courses; True if nothing changes."""
        if not self.manage_groups:
            return True
        before = _held(user)
        model = await self._with_courses({"name": user.name, "groups": before})
        return True if before == set(model["groups"]) else model

    async def _with_courses(self, model: dict[str, Any]) -> dict[str, Any]:
        """Return ``model`` with the groups that a login service may give, and those of courses."""
        groups = {*groups_given(model.get("groups") or ())}
        if self.more_groups is not None:
            groups |= {*await self.more_groups(model["name"])}
        return {**model, "groups": sorted(groups)}


def groups_given(groups: Iterable[Any]) -> list[str]:
    """Return the entries of ``groups``, whatever it holds, that can be a person's groups, sorted.

    Groups named like a course's are left out: only the course's roster says who is in it. Case is
    ignored, since some databases ignore it when comparing.
    """
    fit = {
        group
        for group in groups
        if isinstance(group, str) and group.isprintable() and 0 < len(group) <= _LONGEST
    }
    return sorted(group for group in fit if not group.casefold().startswith(_COURSES))[:_MOST]


def _held(user: Any) -> set[str]:
    return {group.name for group in user.groups}
