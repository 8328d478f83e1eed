"""``portal environments test``: have the service test environments again, and wait for the end."""

from __future__ import annotations

import json
import stat
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

from traitlets import Bool, Unicode

from portal.command import SiteCommand, flag
from portal.errors import ConfigurationError, InvalidRequest, PortalError, Unavailable
from portal.models.catalog.catalog import EnvironmentTest
from portal.models.catalog.image_job import LIVE, WorkState
from portal.setting import setting

_AWAY = 502, 503, 504  # statuses of a proxy and the service while something restarts
_PATIENCE = 300.0  # seconds that the service may be away meanwhile


class TestCommand(SiteCommand):
    """Command that tests one environment, or all."""

    __test__ = False  # not a test of pytest's
    name = "portal-environments-test"
    description = (
        "Test environments again: one by its NAME, or the whole catalog (--all). Wait for the "
        "results; exit status 1 if a test failed."
    )
    aliases = {
        **SiteCommand.aliases,
        "url": "TestCommand.url",
        "token-file": "TestCommand.token_file",
    }
    flags = {
        "all": flag("TestCommand.everything", "Test every environment of the catalog."),
        "no-wait": flag("TestCommand.wait", "Do not wait for the tests to finish.", value=False),
    }

    url = setting(
        Unicode(""),
        "Address of the portal's service; empty: c.PortalSpawner.service_url.",
        "portal environments test --all --url=https://portal.example.org/services/portal/",
    )

    token_file = setting(
        Unicode("/etc/data-scientist-portal/environments-token"),
        """File with a Hub token with the scopes custom:portal:environments:manage and
        access:services!service=portal, readable only by its owner.""",
        "portal environments test --all --token-file=/run/credentials/token",
    )

    everything = setting(
        Bool(False),
        "Test every environment of the catalog.",
        "portal environments test --all",
    )

    wait = setting(
        Bool(True),
        "Wait until the tests have finished.",
        "portal environments test --all --no-wait",
    )

    interval = 2.0  # seconds between checks of a test

    def run(self) -> bool:
        """Run the tests; return True if none failed."""
        if self.everything == bool(self.extra_args) or len(self.extra_args) > 1:
            raise InvalidRequest(
                "Name an environment (portal environments test NAME), or use --all"
            )
        path = "environments/test-all"
        if not self.everything:
            path = f"environments/{quote(self.extra_args[0], safe='')}/test"
        response = self._ask("POST", path, {})
        tests = [EnvironmentTest.model_validate(item) for item in response["items"]]
        for item in response.get("left_out", ()):
            print(f"{item['environment']}: not tested. {item['reason']}")
        if not self.wait:
            print(response.get("message") or f"{len(tests)} tests are under way.")
            return True
        ended = [self._ended(test) for test in tests]
        return all(test.state is WorkState.PASSED for test in ended)

    def _ended(self, test: EnvironmentTest) -> EnvironmentTest:
        """Wait until a test ends, and print how it went."""
        away_since: float | None = None
        while test.state in LIVE:
            time.sleep(self.interval)
            try:
                response = self._ask("GET", f"environment-tests/{test.id}")
            except Unavailable:  # it is being restarted; the test goes on
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > _PATIENCE:
                    raise
                continue
            away_since = None
            test = EnvironmentTest.model_validate(response)
        where = f"on {test.gpu_type}" if test.gpu_type else "without GPUs"
        print(f"{test.name} {where}: {test.state}. {test.message}".rstrip(), flush=True)
        return test

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        base = self.url or str(self.config.PortalSpawner.get("service_url", ""))
        if not base.startswith(("http://", "https://")):
            raise ConfigurationError(
                "The URL of the portal's service is unknown. Use --url, or set "
                "c.PortalSpawner.service_url."
            )
        request = urllib.request.Request(  # noqa: S310  looked at above
            f"{base.rstrip('/')}/api/v1/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"token {self._token()}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
                return json.load(response)
        except urllib.error.HTTPError as error:
            kind = Unavailable if error.code in _AWAY else PortalError
            raise kind(_words(error)) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise Unavailable(f"{base} does not answer: {reason}.") from None

    def _token(self) -> str:
        path = Path(self.token_file)
        try:
            # systemd's credentials are read through an ACL, which shows as a right of the group.
            if path.stat().st_mode & (stat.S_IWGRP | stat.S_IRWXO):
                raise ConfigurationError(
                    f"Other users can read {path}. Run chmod 0600 on it, and create a new token."
                )
            token = path.read_text().strip()
        except OSError as error:
            raise ConfigurationError(
                f"The token in {path} cannot be read: {error.strerror}. Name its file with "
                "--token-file."
            ) from None
        if not token.isascii() or not token.isprintable() or " " in token or not token:
            raise ConfigurationError(f"{path} contains no token.")
        return token


def _words(error: urllib.error.HTTPError) -> str:
    """Return the error message in the service's response."""
    try:
        return str(json.load(error)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"The portal's service answers with status {error.code}."
