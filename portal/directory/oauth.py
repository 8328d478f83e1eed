"""The portal's rules around an authenticator of ``oauthenticator``: OpenID Connect, GitHub, …

That package ends a login when the service that it asks is away for a moment: a refresh raises, or
says that the person must log in again. Here a service that gives no answer changes nothing.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from jupyterhub.utils import maybe_future
from tornado import web
from tornado.httpclient import HTTPClientError
from traitlets import Unicode

from ..errors import DirectoryUnavailable
from .course_login import CourseLogin

_NO_ANSWER = 599  # tornado's status of a question that nobody answered
_LATER = (408, 429)  # answers that say nothing of the person
# What went wrong with the login service during one refresh or login; None outside of these.
_troubles: ContextVar[list[str] | None] = ContextVar("troubles", default=None)


class OAuthLogin(CourseLogin):
    """Mix it in before an authenticator of ``oauthenticator``'s.

    Example::

        class SiteLogin(OAuthLogin, GitHubOAuthenticator):
            pass


        c.JupyterHub.authenticator_class = SiteLogin
    """

    # Of oauthenticator's classes, which come behind this one.
    user_auth_state_key: str
    auth_state_groups_key: Any

    mail_claim = Unicode(
        "email",
        help="""
        The claim that holds a person's mail address, for `c.Notices`; it is known where
        `enable_auth_state` is on. An address that the login service calls unverified
        (`email_verified`) is none. Example: `"mail"`
        """,
    ).tag(config=True)

    async def get_authenticated_user(self, handler: Any, data: Any) -> dict[str, Any] | None:
        """Return the person's Hub model, as CourseLogin does. Raises web.HTTPError 503, for the
        page, where the login service does not answer."""
        token = _troubles.set([])
        try:
            return await super().get_authenticated_user(handler, data)
        except HTTPClientError as error:
            if not _troubles.get():
                raise
            raise web.HTTPError(
                503,
                "The login service does not answer, so nobody can log in at the moment. "
                "Running sessions go on. Try again in a few minutes.",
            ) from error
        finally:
            _troubles.reset(token)

    async def ask_again(self, user: Any, handler: Any) -> bool | dict[str, Any]:
        """Return what the login service says of ``user`` now. Raises DirectoryUnavailable."""
        token = _troubles.set([])
        try:
            answer = await super().ask_again(user, handler)
        except HTTPClientError as error:
            if not _troubles.get():
                raise
            raise DirectoryUnavailable(str(error)) from error
        else:
            # oauthenticator takes a token that could not be renewed for one that must not be.
            if not answer and (troubles := _troubles.get()):
                raise DirectoryUnavailable(troubles[-1])
            return answer
        finally:
            _troubles.reset(token)

    async def httpfetch(self, *args: Any, **kwargs: Any) -> Any:
        """Ask the login service; where it gives no answer, that is noted and HTTPClientError is
        raised."""
        try:
            return await super().httpfetch(*args, **kwargs)
        except HTTPClientError as error:
            if error.code < 500 and error.code not in _LATER:
                raise
            trouble: Exception = error
        except OSError as error:  # nobody listens, no such name, no trust in its certificate
            trouble = error
        words = f"the login service does not answer ({trouble})"
        if (troubles := _troubles.get()) is not None:
            troubles.append(words)
        raise HTTPClientError(_NO_ANSWER, words) from trouble

    def user_info_to_username(self, user_info: Any) -> str:
        """Return the name in the claims. Raises web.HTTPError 403 where there is none."""
        name = None
        if isinstance(user_info, dict):
            try:
                name = super().user_info_to_username(user_info)
            except ValueError:  # oauthenticator has logged what is missing
                name = None
        if not isinstance(name, str) or not name:
            raise web.HTTPError(
                403,
                "The login service does not tell your user name. Ask the people who run this "
                "portal to look at `username_claim`.",
            )
        return name

    async def get_user_groups(self, auth_state: dict[str, Any]) -> set[str]:
        """Return the groups in the claims, of whatever is there; a plain text is one group, not
        its letters."""
        key = self.auth_state_groups_key
        if isinstance(key, str):
            found: Any = auth_state
            for part in key.split("."):
                found = found.get(part) if isinstance(found, dict) else None
            if isinstance(found, str):
                return {found}
        groups = await maybe_future(super().get_user_groups(auth_state))
        return {one for one in groups if isinstance(one, str)}

    def mail_in(self, auth_state: Any) -> str | None:
        """Return the mail address in what the Hub keeps of a login; None where there is none."""
        claims = auth_state.get(self.user_auth_state_key) if isinstance(auth_state, dict) else None
        if not isinstance(claims, dict) or claims.get("email_verified") in (False, "false"):
            return None
        mail = claims.get(self.mail_claim)
        return mail if isinstance(mail, str) and mail else None
