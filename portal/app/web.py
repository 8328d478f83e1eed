"""The tornado application: routes, settings for handlers, and a log line for each request."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from http import HTTPStatus
from typing import Any

from tornado.web import Application

from portal.assembly import Services
from portal.handlers.admin.openapi import document_bytes
from portal.handlers.base.body_limit import LargeHandler
from portal.handlers.cluster.metrics import Metrics
from portal.handlers.pages.pages import NoPage
from portal.handlers.pages.rendering import Pages
from portal.handlers.routes import endpoints, routes
from portal.web.application import BoundedApplication


class PortalApplication(BoundedApplication):
    """Application of the service; a body that is too large is refused like other API errors."""

    def body_refused(self, request: Any, limit: int) -> Any:
        """Return the handler that refuses a body larger than ``limit`` bytes."""
        return self.get_handler_delegate(request, LargeHandler, {"limit": limit})


def web_application(
    parts: Services, pages: Pages, ending: asyncio.Event, max_body: int, metrics: Metrics
) -> Application:
    """Build the application with all routes. ``ending`` is set when the service is about to end;
    ``max_body`` is the largest body in bytes."""
    token = os.environ["JUPYTERHUB_API_TOKEN"].encode()
    return PortalApplication(
        routes(parts.prefix),
        default_handler_class=NoPage,
        # Signs this service's cookies; the same as long as the Hub gives the same token.
        cookie_secret=hashlib.sha256(b"portal service cookies\0" + token).digest(),
        parts=parts,
        pages=pages,
        ending=ending,
        openapi=document_bytes(endpoints(), parts.prefix),
        metrics=metrics,
        log=parts.log,
        log_function=answered,
        max_body=max_body,
    )


def answered(handler: Any) -> None:
    """Count and log a request in one line; no query, which may carry a code or a token."""
    handler.settings["metrics"].count(handler)
    status = handler.get_status()
    level = logging.INFO if status < 500 else logging.ERROR
    if status == HTTPStatus.SERVICE_UNAVAILABLE:  # something else is away, and says so itself
        level = logging.WARNING
    person = getattr(handler, "person", None)
    handler.settings["log"].log(
        level,
        "%d %s %s (%s) %.1f ms",
        status,
        handler.request.method,
        handler.request.path,
        person.name if person else "-",
        1000 * handler.request.request_time(),
        extra={"user": person.name if person else ""},
    )
