"""Any authenticator of JupyterHub, with the portal's rules around it.

JupyterHub replaces a person's groups with the authenticator's at each login and refresh
(``manage_groups``), so those of courses must be among them. And what another login service says of
a person is taken for what it is: it names them and their groups, and gives nobody a course.
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
    """One question to the login service, and when it was asked (monotonic)."""

    answer: asyncio.Task[dict[str, Any] | bool]
    at: float


class CourseLogin(PortalLogin):
    """Mix it in before an authenticator of JupyterHub's, which then knows courses and instructors.

    Example::

        class SiteLogin(CourseLogin, PAMAuthenticator):
            pass


        c.JupyterHub.authenticator_class = SiteLogin

    For those of ``oauthenticator`` it is ``portal.directory.oauth.OAuthLogin``.
    """

    refresh_patience = Float(
        2.0,
        min=0.0,
        help="""
        Seconds that a page waits for a refresh of the person's groups. A slower answer is used
        with the next page. Example: `1`
        """,
    ).tag(config=True)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._services = service_accounts(self.config)
        # Refreshes under way, or answered but not yet used; pages of one person share one.
        self._asked: dict[str, _Asked] = {}
        # Whom a refresh refused, and whether for good (they may not use this Hub any more) or until
        # they log in again: that holds until the login service says something else.
        self._refused: dict[str, bool] = {}

    @default("manage_groups")
    def _manage_groups(self) -> bool:
        return True

    def normalize_username(self, username: str) -> str:
        """Return the Hub's name. One that is not ASCII stays as it is, and so is no valid name,
        but for ``username_map``: ``str.lower`` makes a "k", and somebody else, of the Kelvin sign.
        """
        if not username.isascii():
            return str(self.username_map.get(username, username))
        return str(super().normalize_username(username))

    # -- login ---------------------------------------------------------------------------------

    async def get_authenticated_user(self, handler: Any, data: Any) -> dict[str, Any] | None:
        """Return the person's Hub model, with the groups of their courses; None for who is not
        let in.

        It is added here, after JupyterHub has asked who is allowed: nobody is let in, and nobody
        is an admin, because of a course. Raises web.HTTPError 403 for a service account's name.
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
        said = [*(model.get("groups") or ())]
        given = {*groups_given(said)}
        if left := [one for one in said if not (isinstance(one, str) and one in given)]:
            self.log.warning("%d groups of %s are left out, as %.100r", len(left), name, left[0])
        return await self._with_courses(model)

    # -- refresh -------------------------------------------------------------------------------

    async def refresh_user(self, user: Any, handler: Any = None) -> bool | dict[str, Any]:
        """Return groups and rights as the login service has them now, and the courses of today.

        False, with which a browser is asked to log in again, where the login is over or the person
        may no longer use this Hub; in the second case their tokens, and launches that others ask
        for, are refused with web.HTTPError 403. While the login service is away, or slow, everyone
        stays what they were.
        """
        name = user.name
        if is_service(name, self._services):
            self._refused[name] = True
            return self._turned_away(name, user, handler)
        now = time.monotonic()
        asked = self._asked.get(name)
        if asked and asked.answer.done() and now - asked.at > self.auth_refresh_age + 60:
            asked = None  # it waited for its page so long that it is no news any more
        first = asked is None
        if asked is None:
            answer = asyncio.ensure_future(self._judged(user, handler))
            asked = self._asked[name] = _Asked(answer, now)
        await asyncio.wait([asked.answer], timeout=self.refresh_patience)
        if not asked.answer.done():
            if first:
                asked.answer.add_done_callback(functools.partial(came_late, user))
            return await self._kept(user)
        if self._asked.get(name) is asked:
            del self._asked[name]
        known = asked.answer.result()
        if known is False:
            return self._turned_away(name, user, handler)
        if known is True:
            return await self._kept(user)
        if known.get("groups") is None:  # JupyterHub: as they were
            known = {**known, "groups": _held(user)}
        return await self._with_courses({**known, "name": name})

    async def ask_again(self, user: Any, handler: Any) -> bool | dict[str, Any]:
        """Return what the authenticator itself says at a refresh.

        Raises DirectoryUnavailable where its login service gives no answer; every other exception
        is taken for a refusal.
        """
        return await maybe_future(super().refresh_user(user, handler))

    async def _judged(self, user: Any, handler: Any) -> bool | dict[str, Any]:
        """The model of somebody who is still welcome, without courses; True, or False where they
        were refused before, while nobody answers. Raises nothing."""
        name = user.name
        try:
            model = await self.ask_again(user, handler)
        except DirectoryUnavailable as error:
            self.log.warning("Groups of %s stay as they were: %s", name, error.message)
            return name not in self._refused
        except Exception:  # a wrong answer, of whichever kind, is no reason to let somebody in
            self.log.exception("The refresh of %s failed: they log in again", name)
            model = False
        if model is True:
            return name not in self._refused
        if model is False or not self._same(name, model):
            return self._refuse(name, "must log in again", for_good=False)
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
        """False, which is a browser's way to the login. JupyterHub lets requests with tokens and
        other people's launches pass all the same (``auth_refresh_strict`` is off: a session that
        waited in the queue overnight must come up). Raises web.HTTPError for those where it is for
        good."""
        if handler is None:
            return False
        if not hasattr(handler, "_token_authenticated"):  # JupyterHub 6.1.1 asks for it unset
            handler._token_authenticated = False
        own = getattr(handler, "_jupyterhub_user", user) is user
        if self._refused.get(name) and (handler._token_authenticated or not own):
            raise web.HTTPError(403, f"'{name}' is no longer allowed to use this portal.")
        return False

    def _same(self, name: str, model: dict[str, Any]) -> bool:
        """Check that the answer is about the same person; JupyterHub takes it for theirs."""
        said = model.get("name", name)
        if isinstance(said, str) and self.normalize_username(said) == name:
            return True
        self.log.warning("The login service now calls %s %.100r", name, said)
        return False

    async def _welcome(self, name: str, model: dict[str, Any]) -> bool:
        """Return whether somebody may still use this Hub."""
        judged = {"admin": None, **model}
        try:
            if not await maybe_future(self.check_blocked_users(name, judged)):
                return False
            return bool(self.allow_all or await maybe_future(self.check_allowed(name, judged)))
        except web.HTTPError:  # some authenticators refuse so
            return False

    async def _kept(self, user: Any) -> bool | dict[str, Any]:
        """Return what is known of somebody, with today's courses; True where that is the same."""
        if not self.manage_groups:
            return True
        before = _held(user)
        model = await self._with_courses({"name": user.name, "groups": before})
        return True if before == set(model["groups"]) else model

    async def _with_courses(self, model: dict[str, Any]) -> dict[str, Any]:
        """``model`` with the groups that the login service may give, and those of courses."""
        groups = {*groups_given(model.get("groups") or ())}
        if self.more_groups is not None:
            groups |= {*await self.more_groups(model["name"])}
        return {**model, "groups": sorted(groups)}


def groups_given(groups: Iterable[Any]) -> list[str]:
    """Return those of ``groups``, whatever is in them, that can be a person's, sorted.

    One that is called like a course's says nothing of that course: its roster alone says who is
    in it. Case does not count, since some databases compare without regard to it.
    """
    fit = {
        one
        for one in groups
        if isinstance(one, str) and one.isprintable() and 0 < len(one) <= _LONGEST
    }
    return sorted(one for one in fit if not one.casefold().startswith(_COURSES))[:_MOST]


def _held(user: Any) -> set[str]:
    return {group.name for group in user.groups}
