"""Pages of the service.

They hold no numbers of their own: scripts fetch those from ``api/v1``, with the person's login;
what a page shows at once is what the dashboard has in memory.
"""

from __future__ import annotations

import contextlib
from http import HTTPStatus
from typing import Any, ClassVar, get_args

from portal.errors import NotAllowed, StoreUnavailable
from portal.launch.choices.form_fields import form_fields
from portal.logs.request import request_id
from portal.models import scope
from portal.models.audit import ACTION_WORDS, AuditAction, Outcome
from portal.models.cluster.dashboard import page_facts
from portal.models.session.usage import KEY_WORDS, UsageKey

from ..base.base import NotFoundMixin, PageHandler, explain
from .assets import AssetHandler
from .rendering import Pages, new_nonce


class Page(PageHandler):
    """Base class that renders ``template``; ``needs`` is the scope required to see the page."""

    template: ClassVar[str]
    needs: ClassVar[str] = ""

    async def get(self, *segments: str) -> None:
        if self.needs and not self.person.may(self.needs):
            await self.refused(self.request.path.removeprefix(self.parts.prefix))
            right = scope.right(self.needs)
            raise NotAllowed(
                f"You are not allowed to see this page. It takes the right to {right}."
            )
        with contextlib.suppress(StoreUnavailable):  # for the links to spaces in the menu
            await self.parts.memberships.of_user(self.person.name)
        self.show(self.template_of(*segments), **await self.variables(*segments))

    head = get

    def form_fields(self) -> list[dict[str, Any]]:
        """Return the fields of a form for resources."""
        view = self.parts.dashboard.view
        fields = form_fields(view.snapshot if view else None)
        return [field.model_dump() for field in fields]

    def template_of(self, *segments: str | None) -> str:
        """Return the template of this address; a page with tabs has one for each."""
        return self.template

    async def variables(self, *segments: str) -> dict[str, Any]:
        """Return the template's variables besides the person; ``segments`` are the address's."""
        return {}

    async def refused(self, target: str, owner: str = "") -> None:
        """Record in the audit log that this person asked for a page that is not theirs."""
        outcome, detail = Outcome.REFUSED, "A page of the portal."
        await self.parts.audit(
            self, AuditAction.DENIED, target, owner=owner, outcome=outcome, detail=detail
        )

    def show(self, template: str, **variables: Any) -> None:
        """Answer with this page."""
        pages: Pages = self.settings["pages"]
        person = getattr(self, "person", None)
        nonce = new_nonce()
        if person is not None:
            variables["groups"] = self.parts.groups_of(person)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Content-Security-Policy", pages.policy(nonce))
        # Reading the token sets its cookie.
        xsrf = self.xsrf_token.decode("ascii") if person else ""
        html = pages.render(template, person, nonce=nonce, xsrf=xsrf, **variables)
        self.finish(html)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Write the sentence in a page with a way on."""
        _, message = explain(status_code, kwargs.get("exc_info"))
        try:
            phrase = HTTPStatus(status_code).phrase
        except ValueError:
            phrase = "Error"
        try:
            self.show(
                "problem.html",
                message=message,
                phrase=phrase,
                status_code=status_code,
                request_id=request_id(),
            )
        except Exception:  # a page template that is broken: the sentence goes out all the same
            self.settings["log"].exception("The error page could not be rendered")
            super().write_error(status_code, **kwargs)


class ClusterPage(Page):
    """Every node, GPU and job."""

    template = "cluster.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        dashboard = self.parts.dashboard
        view = dashboard.view  # None: Slurm has not answered yet
        known = None
        if view is not None:
            known = {
                "summary": view.summary.model_dump(mode="json"),
                "taken_at": view.taken_at,
                "error": view.error,
                "simulated": view.simulated,
            }
        return {"view": known, "interval": dashboard.refresh_interval, "items": page_facts()}


class UsagePage(Page):
    """GPU-hours: one's own, and for those who may see them, everybody's."""

    template = "usage.html"

    async def variables(self, *segments: str) -> dict[str, Any]:
        return {"keys": [(key, KEY_WORDS.get(key, key)) for key in get_args(UsageKey)]}


class AnnouncementsPage(Page):
    """Messages to all."""

    template = "announcements.html"
    needs = scope.ANNOUNCEMENTS_MANAGE


class AuditPage(Page):
    """Audit log."""

    template = "audit.html"
    needs = scope.AUDIT_READ

    async def variables(self, *segments: str) -> dict[str, Any]:
        return {"actions": ACTION_WORDS, "outcomes": [outcome.value for outcome in Outcome]}


class UsersPage(Page):
    """Users that the Hub knows."""

    template = "users.html"
    needs = scope.USERS_MANAGE


class DesignPage(Page):
    """The pages' components in each state (docs/explanation/design.md)."""

    template = "design.html"
    needs = scope.AUDIT_READ


class NoPage(NotFoundMixin, Page):
    """Addresses that name no page."""


# Addresses below the service's prefix, as tornado reads them, and their pages.
PAGES = (
    (r"static/([^/]+)/(.+)", AssetHandler),
    (r"usage/?", UsagePage),
    (r"announcements/?", AnnouncementsPage),
    (r"audit/?", AuditPage),
    (r"users/?", UsersPage),
    (r"design/?", DesignPage),
    ("", ClusterPage),
)
