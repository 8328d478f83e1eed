"""Checks of the LDAP directory: its servers, its certificates, its search account."""

from __future__ import annotations

from functools import lru_cache

from portal.directory import LDAPAuthenticator
from portal.errors import ConfigurationError, PortalError
from portal.service_accounts import service_accounts

from ..finding import Result, check, failure, ok, skipped, warning, worst
from ..site import Site
from .login_service import login_service


@lru_cache(maxsize=4)
def _authenticator(site: Site) -> LDAPAuthenticator:
    """Return the site's authenticator, created as the Hub creates it. Raises
    ConfigurationError."""
    return site.authenticator(config=site.config, log=site.log)  # type: ignore[return-value]


def _stranger(site: Site) -> Result | None:
    """Return the result for a site that does not use LDAP; None if it does."""
    kind = site.authenticator
    if issubclass(kind, LDAPAuthenticator):
        return None
    if kind.__name__ == "DummyAuthenticator":
        return failure(
            "c.JupyterHub.authenticator_class is 'dummy': anyone can log in as any user",
            'Set c.JupyterHub.authenticator_class = "portal-ldap".',
        )
    return skipped(f"users log in with {kind.__name__}")


@check("ldap", "Every LDAP server answers with a verified certificate")
async def servers(site: Site) -> Result:
    if stranger := _stranger(site):
        return stranger
    try:
        authenticator = _authenticator(site)
    except ConfigurationError as error:
        return failure(error.message, "Fix the setting: docs/how-to/existing-cluster.md.")
    results = []
    for answer in await authenticator.probe():
        if answer.trouble is None:
            results.append(ok(f"{answer.uri} answers in {answer.seconds:.2f} s"))
        else:
            results.append(
                failure(
                    f"{answer.uri}: {answer.trouble}",
                    "Test it by hand: ldapwhoami -H URI -ZZ -x -D SEARCH_DN -W "
                    "(without -ZZ for ldaps://).",
                )
            )
    if not authenticator.verify_certificates:
        results.append(
            warning(
                "certificates are not verified: anyone who can impersonate a server can read "
                "every password",
                "Set c.LDAPAuthenticator.ca_file and remove verify_certificates = False.",
            )
        )
    if not authenticator.use_tls:
        results.append(
            warning("passwords cross the network in clear text", "Remove use_tls = False.")
        )
    return worst(results)


@check("ldap-refresh", "Groups are refreshed between logins")
async def refresh(site: Site) -> Result:
    if _stranger(site):
        return await login_service(site)
    try:
        authenticator = _authenticator(site)
    except ConfigurationError:
        return skipped("the LDAP settings have an error")
    if not authenticator.groups_base:
        return warning(
            "no groups are read, so groups make no user an admin or instructor",
            "Set c.LDAPAuthenticator.groups_base.",
        )
    if authenticator.can_refresh:
        seconds = site.setting(site.authenticator, "auth_refresh_age")
        return ok(f"a search account refreshes them every {seconds} s")
    return warning(
        "there is no search account, so groups are refreshed only at login: users who leave a "
        "group keep its rights until their next login",
        "Set c.LDAPAuthenticator.search_bind_dn and search_password_file.",
    )


@check("service-names", "No user in the directory has the name of a service account")
async def service_names(site: Site) -> Result:
    if stranger := _stranger(site):
        return stranger
    try:
        authenticator = _authenticator(site)
        if not authenticator.can_refresh:
            return skipped("no search account, so the directory cannot be searched")
        names = sorted(service_accounts(site.config))
        known = await authenticator.known(names)
    except PortalError as error:
        return skipped(error.message)
    if not known:
        return ok(f"no user is named {', '.join(names)}")
    return warning(
        f"the directory has users with names of service accounts: {', '.join(sorted(known))}. "
        "These users cannot log in",
        "Give these users other names, or the service another account "
        "(c.Images.service_account, c.ServiceAccounts.names).",
    )
