"""Rendering of pages that look like the Hub's: same page template, theme, navigation and footer.

Templates are looked up in ``templates/portal``, then among the portal's for the Hub, then in
JupyterHub's own, which are also under the name ``templates/…`` (as the Hub itself does:
jupyterhub.app.JupyterHub.init_tornado_settings).
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import jupyterhub
from jupyterhub._data import DATA_FILES_PATH
from tornado.web import StaticFileHandler
from traitlets.config import LazyConfigValue

from portal import __version__
from portal.models.person import Person
from portal.navigation import FOR_PAGES
from portal.paths import data_path

from ..base.base import PAGE_POLICY
from .assets import Assets

# Every script and style of a page comes from the templates: user input is escaped, and holds no
# "<". So the nonce is added to the tags in one place, for JupyterHub's templates too.
_OWN_TAGS = re.compile(r"<(script|style|link)(?=[\s>])")


@dataclass(frozen=True)
class Viewer:
    """User as the templates see them, under the names that JupyterHub's use."""

    name: str
    admin: bool = False
    groups: tuple[str, ...] = ()

    @property
    def json_escaped_name(self) -> str:
        """Name for a string in a script of JupyterHub's page.html."""
        return json.dumps(self.name)[1:-1].replace("<", "\\u003c")


class Pages:
    """Renderer of pages.

    ``prefix`` and ``hub_prefix`` are paths with slashes at both ends; ``hub_host`` is "" unless
    the Hub gives each user a domain; ``variables`` are the site's own
    (c.JupyterHub.template_vars).
    """

    def __init__(
        self,
        *,
        prefix: str,
        hub_prefix: str,
        hub_host: str = "",
        variables: Mapping[str, Any] | None = None,
    ) -> None:
        self.prefix = prefix
        self.hub = hub_host + hub_prefix
        self.hub_host = hub_host
        self.variables = dict(variables or {})
        self.assets = Assets(data_path("static"))
        own = data_path("templates")
        theirs = Path(DATA_FILES_PATH) / "templates"
        self._environment = jinja2.Environment(
            loader=jinja2.ChoiceLoader(
                [
                    jinja2.PrefixLoader({"templates": jinja2.FileSystemLoader(theirs)}, "/"),
                    jinja2.FileSystemLoader([own / "portal", own, theirs]),
                ]
            ),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._theirs = {"static_path": str(Path(DATA_FILES_PATH) / "static")}

    def load(self) -> None:
        """Compile the templates now, not while the first visitor of each page waits."""
        own = jinja2.FileSystemLoader(data_path("templates") / "portal").list_templates()
        for name in (*own, "page.html", "templates/page.html"):
            self._environment.get_template(name)

    def render(
        self,
        name: str,
        person: Person | None,
        *,
        nonce: str,
        xsrf: str = "",
        groups: tuple[str, ...] = (),
        **variables: Any,
    ) -> str:
        """Return the HTML of the template ``name``, for ``person`` (None: nobody is logged in).

        ``groups`` are those of the Hub that the person is in.
        """
        viewer = Viewer(person.name, person.admin, groups) if person else None
        html = self._environment.get_template(name).render(
            {
                **self.variables,
                "base_url": self.hub,
                "prefix": self.prefix,
                "user": viewer,
                "no_spawner_check": True,
                "login_url": f"{self.hub}login",
                "logout_url": f"{self.hub}logout",
                "static_url": self.static_url,
                "asset_url": self.asset_url,
                "modules": self.assets.modules,
                "version_hash": jupyterhub.__version__,
                "services": [],
                "parsed_scopes": dict.fromkeys(person.scopes) if person else {},
                "xsrf_token": xsrf,
                "portal_prefix": self.prefix,
                "portal_navigation": FOR_PAGES,
                "portal_version": __version__,
                "now": time.time(),
                "person": person,
                **variables,
            }
        )
        return _OWN_TAGS.sub(rf'<\1 nonce="{nonce}"', html)

    def static_url(self, path: str, include_version: bool = True, **_: Any) -> str:
        """Return the address at which the Hub serves this file of JupyterHub's.

        The Hub's own pages use the same one, so that a browser has the file already.
        """
        if not include_version:
            return f"{self.hub}static/{path}"
        at = {**self._theirs, "static_url_prefix": f"{self.hub}static/"}
        return str(StaticFileHandler.make_static_url(at, path))

    def asset_url(self, path: str) -> str:
        """Return the address of this file of the portal's ``static/``."""
        return f"{self.prefix}static/{self.assets.version}/{path}"

    def policy(self, nonce: str) -> str:
        """Return the Content-Security-Policy for this nonce: no script but the portal's."""
        sources = f"'self' {self.hub_host}".strip()
        return (
            f"{PAGE_POLICY}; script-src 'nonce-{nonce}'; style-src {sources} 'nonce-{nonce}'; "
            f"font-src {sources}; img-src {sources} data:; object-src 'none'"
        )


def new_nonce() -> str:
    """Return a nonce for a single response."""
    return secrets.token_urlsafe(16)


def site_variables(hub: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the section c.JupyterHub of the configuration says to the service's pages.

    These are the plain texts among ``template_vars``, e.g. portal_title and portal_notice (the rest
    belongs to the Hub's own pages), whether people may have named servers, and how many, and
    whether admins may open users' sessions from the page of users.
    """
    configured = hub.get("template_vars", {})
    if isinstance(configured, LazyConfigValue):
        configured = configured.get_value({})
    if not isinstance(configured, Mapping):
        configured = {}
    texts = {str(name): value for name, value in configured.items() if isinstance(value, str)}
    most = hub.get("named_server_limit_per_user", 0)
    return {
        **texts,
        "named_servers": bool(hub.get("allow_named_servers", False)),
        "admin_access": bool(hub.get("admin_access", False)),
        "named_server_limit": most if isinstance(most, int) else 0,  # or the Hub's function
    }
