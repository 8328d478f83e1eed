"""Check of a login other than LDAP: whether courses work with it, and groups stay fresh."""

from __future__ import annotations

from typing import Any

from tornado.httpclient import HTTPClientError

from portal.directory.course_login import CourseLogin
from portal.directory.oauth import OAuthLogin
from portal.errors import ConfigurationError

from ..finding import Result, failure, ok, skipped, warning, worst
from ..site import Site

_HELP = "See docs/how-to/oidc.md."


async def login_service(site: Site) -> Result:
    """Return the result for a site's authenticator that is not the LDAP one."""
    kind = site.authenticator
    name = kind.__name__
    if name == "DummyAuthenticator":
        return skipped(f"users log in with {name}")
    if not issubclass(kind, CourseLogin):
        return warning(
            f"users log in with {name}, which removes their course groups at each login and "
            "does not support instructors",
            f'Set c.JupyterHub.authenticator_class = "portal-oidc", or combine {name}. {_HELP}',
        )
    if not issubclass(kind, OAuthLogin):
        return ok(f"{name} keeps the groups of courses")
    try:
        authenticator: Any = kind(config=site.config, log=site.log)
    except (ConfigurationError, ValueError) as error:
        return failure(f"{name}: {error}", f"Fix the setting. {_HELP}")
    return worst([_fresh(site, authenticator), await _answers(authenticator)])


def _fresh(site: Site, authenticator: Any) -> Result:
    """Check that groups are read again between logins."""
    if not authenticator.enable_auth_state:
        return warning(
            "groups are read only at login: users who leave a group keep its rights until their "
            "next login",
            f"Set c.{type(authenticator).__name__}.enable_auth_state = True, and "
            f"JUPYTERHUB_CRYPT_KEY for the Hub. {_HELP}",
        )
    seconds = site.setting(site.authenticator, "auth_refresh_age")
    return ok(f"groups are refreshed every {seconds} s")


async def _answers(authenticator: Any) -> Result:
    """Check that the login service can be reached from here, even if it refuses the request."""
    url = authenticator.token_url
    if not url:
        return failure("token_url is not set, so no user can log in", _HELP)
    try:
        await authenticator.httpfetch(url, parse_json=False, raise_error=True)
    except HTTPClientError as error:
        if error.code >= 500:
            return failure(f"{url}: {error.message}", f"Test it by hand: curl -i {url}")
    return ok(f"{url} answers")
