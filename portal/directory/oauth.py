"""Mixin that applies the portal's rules to ``oauthenticator``: OpenID Connect, GitHub, …

``oauthenticator`` ends a login when the login service is briefly down: a refresh raises, or asks
for a new login. Here, a service that does not answer changes nothing.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from jupyterhub.utils import maybe_future
from tornado import web
from tornado.httpclient import HTTPClientError
from traitlets import Unicode

from ..errors import DirectoryUnavailable
from ..setting import setting
from .course_login import CourseLogin

_NO_ANSWER = 599  # tornado's status of a request without a response
_LATER = (408, 429)  # statuses that say nothing about the person
# Failures of the login service during the current refresh or login; None outside of these.
_troubles: ContextVar[list[str] | None] = ContextVar("troubles", default=None)


class OAuthLogin(CourseLogin):
    """Mixin, placed before an authenticator of ``oauthenticator``.

    Example::

        class SiteLogin(OAuthLogin, GitHubOAuthenticator):
            pass


        c.JupyterHub.authenticator_class = SiteLogin
    """

    # Attributes of oauthenticator's classes, which follow this one in the MRO.
    user_auth_state_key: str
    auth_state_groups_key: Any

    mail_claim = setting(
        Unicode("email"),
        """Claim with the user's mail address, for `c.Notices`; available if `enable_auth_state` is
        on. Addresses that the provider marks as unverified (`email_verified`) are ignored.""",
        'c.OIDCAuthenticator.mail_claim = "mail"',
    )

    async def get_authenticated_user(self, handler: Any, data: Any) -> dict[str, Any] | None:
        """Return the person's Hub model, as CourseLogin does. Raises web.HTTPError 503, shown on
        the page, if the login service does not answer."""
        token = _troubles.set([])
        try:
            return await super().get_authenticated_user(handler, data)
        except HTTPClientError as error:
            if not _troubles.get():
                raise
            raise web.HTTPError(
                503,
                "The login service does not answer, so you cannot sign in at the moment. "
                "Running sessions continue. Try again in a few minutes.",
            ) from error
        finally:
            _troubles.reset(token)

    async def ask_again(self, user: Any, handler: Any) -> bool | dict[str, Any]:
        """Return the login service's current answer about ``user``. Raises DirectoryUnavailable."""
        token = _troubles.set([])
        try:
            response = await super().ask_again(user, handler)
        except HTTPClientError as error:
            if not _troubles.get():
                raise
            raise DirectoryUnavailable(str(error)) from error
        else:
            # oauthenticator treats a failure to renew a token like a refusal to renew it.
            if not response and (troubles := _troubles.get()):
                raise DirectoryUnavailable(troubles[-1])
            return response
        finally:
            _troubles.reset(token)

    async def httpfetch(self, *args: Any, **kwargs: Any) -> Any:
        """Send a request to the login service. Records a missing answer and raises HTTPClientError
        for it."""
        try:
            return await super().httpfetch(*args, **kwargs)
        except HTTPClientError as error:
            if error.code < 500 and error.code not in _LATER:
                raise
            trouble: Exception = error
        except OSError as error:  # connection refused, unknown host, untrusted certificate
            trouble = error
        message = f"the login service does not answer ({trouble})"
        if (troubles := _troubles.get()) is not None:
            troubles.append(message)
        raise HTTPClientError(_NO_ANSWER, message) from trouble

    def user_info_to_username(self, user_info: Any) -> str:
        """Return the user name in the claims. Raises web.HTTPError 403 if there is none."""
        name = None
        if isinstance(user_info, dict):
            try:
                name = super().user_info_to_username(user_info)
            except ValueError:  # oauthenticator has logged what is missing
                name = None
        if not isinstance(name, str) or not name:
            raise web.HTTPError(
                403,
                "The login service did not send your user name. Ask an administrator of this "
                "portal to check `username_claim`.",
            )
        return name

    async def get_user_groups(self, auth_state: dict[str, Any]) -> set[str]:
        """Return the groups in the claims, ignoring values of other types; a plain string is a
        single group, not its letters."""
        key = self.auth_state_groups_key
        if isinstance(key, str):
            claim: Any = auth_state
            for part in key.split("."):
                claim = claim.get(part) if isinstance(claim, dict) else None
            if isinstance(claim, str):
                return {claim}
        groups = await maybe_future(super().get_user_groups(auth_state))
        return {group for group in groups if isinstance(group, str)}

    def mail_in(self, auth_state: Any) -> str | None:
        """Return the mail address in a login's auth state; None if missing or called unverified."""
        claims = auth_state.get(self.user_auth_state_key) if isinstance(auth_state, dict) else None
        if not isinstance(claims, dict) or claims.get("email_verified") in (False, "false"):
            return None
        mail = claims.get(self.mail_claim)
        return mail if isinstance(mail, str) and mail else None
