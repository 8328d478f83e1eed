"""``portal doctor`` on sites whose people log in with something else than LDAP."""

from __future__ import annotations

from pathlib import Path

import pytest
from oidc_provider import oidc_provider
from test_doctor import asked

from portal.demo.daemons.ports import free_port
from portal.doctor.checks import directory
from portal.doctor.finding import Level

OIDC = "c.JupyterHub.authenticator_class = 'portal.directory.oidc.OIDCAuthenticator'\n"
KEPT = "c.OIDCAuthenticator.enable_auth_state = True\n"
COMBINED = """
from jupyterhub.auth import PAMAuthenticator
from portal.directory.course_login import CourseLogin
class SiteLogin(CourseLogin, PAMAuthenticator):
    pass
c.JupyterHub.authenticator_class = SiteLogin
"""


@pytest.mark.parametrize(
    ("config", "level", "words"),
    [
        ("", Level.SKIPPED, "DummyAuthenticator"),
        ("c.JupyterHub.authenticator_class = 'pam'", Level.WARNING, "removes their course groups"),
        (
            "c.JupyterHub.authenticator_class = 'oauthenticator.generic.GenericOAuthenticator'",
            Level.WARNING,
            "users log in with GenericOAuthenticator",
        ),
        (COMBINED, Level.OK, "SiteLogin keeps the groups of courses"),
        (OIDC + KEPT, Level.FAILURE, "token_url is not set"),
        (
            f"{OIDC}c.OIDCAuthenticator.allowed_scopes = ['x']\n",
            Level.FAILURE,
            "OIDCAuthenticator: Allowed scopes must be",
        ),
    ],
)
async def test_courses_and_fresh_groups(
    tmp_path: Path, config: str, level: Level, words: str
) -> None:
    finding = await asked(directory.refresh, tmp_path, config)
    assert finding.level is level, finding
    assert words in finding.found
    assert bool(finding.mend) is (level in (Level.WARNING, Level.FAILURE))


async def test_a_provider_that_answers_and_one_that_is_away(tmp_path: Path) -> None:
    with oidc_provider() as provider:
        config = f"{OIDC}{KEPT}c.OIDCAuthenticator.token_url = '{provider.url}/oauth2/token'\n"
        finding = await asked(directory.refresh, tmp_path, config)
        assert finding.level is Level.OK, finding
        assert "refreshed every 300 s" in finding.found
        finding = await asked(directory.refresh, tmp_path, config.replace(KEPT, ""))
        assert finding.level is Level.WARNING, finding
        assert "only at login" in finding.found and "JUPYTERHUB_CRYPT_KEY" in finding.mend
    finding = await asked(directory.refresh, tmp_path, config)
    assert finding.level is Level.FAILURE, finding
    assert f"{provider.url}/oauth2/token" in finding.found and "curl" in finding.mend
    config = f"{OIDC}{KEPT}c.OIDCAuthenticator.token_url = 'https://127.0.0.1:{free_port()}/'\n"
    assert (await asked(directory.refresh, tmp_path, config)).level is Level.FAILURE
