"""Pages for curating the catalog.

Like all pages they hold no data of their own; who may not curate sees none of them.
"""

from __future__ import annotations

from typing import Any

from portal.models import scope

from .pages import Page

_NAME = r"[a-z0-9][a-z0-9._-]{0,62}"


class CuratePage(Page):
    """Overview for curators: requests, environments, builds."""

    template = "curate.html"
    needs = scope.ENVIRONMENTS_MANAGE


class CurateNewPage(CuratePage):
    """New environment, from an image, a path or a definition file."""

    template = "curate_new.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        return {"fields": self.form_fields()}


class CurateEnvironmentPage(CuratePage):
    """An environment in tabs: overview, tests, versions, edit."""

    template = "curate_environment.html"

    def template_of(self, *segments: str | None) -> str:
        tab = segments[1] if len(segments) > 1 else None
        return f"curate_environment_{tab}.html" if tab else self.template

    async def variables(self, *segments: str) -> dict[str, Any]:
        return {"environment": segments[0], "fields": self.form_fields()}


class CurateBuildPage(CuratePage):
    """Build and its progress."""

    template = "curate_build.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        return {"build_id": int(segments[0])}


class CurateRegistriesPage(CuratePage):
    """Registries and their credentials."""

    template = "curate_registries.html"


# An environment may have the name of a page: its own page is then below environments/ only.
CURATE_PAGES = (
    (r"curate/?", CuratePage),
    (r"curate/new/?", CurateNewPage),
    (r"curate/registries/?", CurateRegistriesPage),
    (r"curate/builds/([0-9]{1,18})/?", CurateBuildPage),
    (
        rf"curate/environments/({_NAME})(?:/(tests|versions|edit))?/?",
        CurateEnvironmentPage,
    ),
    (rf"curate/({_NAME})/?", CurateEnvironmentPage),
)
