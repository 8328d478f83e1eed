"""Settings of all authenticators: user names, instructors by group, further groups."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from jupyterhub.auth import Authenticator
from jupyterhub.utils import maybe_future
from tornado import web
from traitlets import Callable, Unicode, default
from traitlets import Set as SetTrait

from ..setting import setting


class PortalLogin(Authenticator):
    """Settings shared by the portal's authenticators, configured on the class in use, as
    ``c.LDAPAuthenticator.…``."""

    instructor_groups = setting(
        SetTrait(Unicode()),
        "Groups whose members are instructors.",
        'c.PortalLogin.instructor_groups = {"portal-instructors"}',
    )

    more_groups = setting(
        Callable(None, allow_none=True),
        """Async function that receives a user's Hub name and returns names of groups in addition to
        those of the directory. It is called at each login and refresh. It must be fast and must not
        raise. The portal sets it to the groups of the rosters that the user is on.""",
        """async def project_groups(name):
            return await projects.groups_of(name)


        c.PortalLogin.more_groups = project_groups""",
    )

    @default("username_pattern")
    def _username_pattern(self) -> str:
        # Names that useradd accepts, and dots: a session runs as the Unix user of this name.
        # Capital letters: ``account_of`` of the LDAP directory.
        return r"[a-zA-Z_][a-zA-Z0-9_.-]{0,31}"

    def validate_username(self, username: str) -> bool:
        """Return True if all of ``username`` matches ``username_pattern`` (JupyterHub checks only
        its start)."""
        return self._well_formed(username) and bool(super().validate_username(username))

    def _well_formed(self, name: str) -> bool:
        return bool(name) and re.fullmatch(self.username_pattern or ".*", name) is not None


async def may_log_in(login: Authenticator, user: Any) -> bool:
    """Return False if the authenticator ``login`` is sure to refuse this user of the Hub. What only
    a login itself can show (a password, an expired refresh token) counts as shown."""
    try:
        await maybe_future(login.refresh_user(user, None))
        if getattr(login, "is_refused", lambda name: False)(user.name):
            return False
        groups = [group.name for group in user.groups]
        facts = {"name": user.name, "groups": groups, "admin": user.admin}
        facts["auth_state"] = await user.get_auth_state()
        if not await maybe_future(login.check_blocked_users(user.name, facts)):
            return False
        # Rules of other classes may need groups that the Hub does not have.
        decides = login.manage_groups or type(login).check_allowed.__module__ == "jupyterhub.auth"
        if login.allow_all or user.admin or not decides:
            return True
        return bool(await maybe_future(login.check_allowed(user.name, facts)))
    except Exception as error:  # of any kind: such as a rule that needs what is not kept of a login
        if isinstance(error, web.HTTPError) and error.status_code < 500:
            return False  # how some authenticators refuse; 500 and above is a fault of their own
        login.log.warning("Whether %s may log in is not known", user.name, exc_info=True)
        return True


def came_late(user: Any, answer: asyncio.Task[dict[str, Any] | bool]) -> None:
    """Make the next page refresh again, so that it uses this late answer."""
    if not answer.cancelled() and answer.exception() is None:
        # Reset JupyterHub's time of the last refresh; otherwise auth_refresh_age would have to
        # pass again first.
        user._auth_refreshed = None
