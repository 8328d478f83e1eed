"""What every handler has: who asks (by the Hub's word), errors in words, safe headers.

Login is JupyterHub's: a token of the Hub in ``Authorization: token …``, or the cookie that its
OAuth leaves in the browser. Cookies are believed for anything but a plain visit only together
with the matching ``X-XSRFToken`` header or ``_xsrf`` argument: HubOAuth checks that while it
reads the cookie (jupyterhub.services.auth.HubOAuth._get_user_cookie), so tornado's own
``xsrf_cookies`` stays off, which would refuse requests with a token.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated, UserNotAllowed
from tornado.web import HTTPError, RequestHandler

from portal.disk import FULL, DiskFull, no_space
from portal.errors import NotAllowed, NotFound, PortalError, Unavailable
from portal.models.person import Person
from portal.services.services import Parts

_SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
PAGE_POLICY = "default-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
API_POLICY = "default-src 'none'; frame-ancestors 'none'"


class NotLoggedIn(NotAllowed):
    """The request carries no login that the Hub knows."""

    code = "not_logged_in"


class SafeHandler(RequestHandler):
    """Safe headers, and errors in words."""

    _refused_method = False

    @classmethod
    def methods(cls) -> list[str]:
        """The HTTP methods that this handler answers."""
        return [
            name
            for name in cls.SUPPORTED_METHODS
            if getattr(cls, name.lower()) is not RequestHandler._unimplemented_method
        ]

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        if self._refused_method:  # RFC 9110, 15.5.6: a 405 names the methods that are there
            self.set_header("Allow", ", ".join(self.methods()))
        for name, value in _SAFE_HEADERS.items():
            self.set_header(name, value)
        self.set_header("Content-Security-Policy", PAGE_POLICY)

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        error = (kwargs.get("exc_info") or (None, None, None))[1]
        if isinstance(error, PortalError):
            status_code = error.status
        elif no_space(error):
            status_code = DiskFull.status
        self._refused_method = status_code == HTTPStatus.METHOD_NOT_ALLOWED
        super().send_error(status_code, **kwargs)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """A plain sentence; never a traceback."""
        _, message = explain(status_code, kwargs.get("exc_info"))
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(message + "\n")

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """tornado's would write the whole request, whose query may carry a token."""
        log = self.settings["log"]
        if isinstance(value, PortalError):
            log.info("%s: %s", self._request_summary(), value)
        elif isinstance(value, HTTPError):
            log.warning("%s: %s", self._request_summary(), value)
        else:
            log.error("%s", self._request_summary(), exc_info=(typ, value, tb))

    def _request_summary(self) -> str:
        # tornado's has the query too, which may carry a code or a token.
        return f"{self.request.method} {self.request.path}"


class PortalHandler(HubOAuthenticated, SafeHandler):
    """Base of pages and API: asks the Hub, without blocking the event loop, who the person is.

    ``self.person`` is set before ``get``, ``post``… run.
    """

    person: Person

    @property
    def parts(self) -> Parts:
        """What the handlers work with."""
        return self.settings["parts"]

    async def hub_model(self) -> Any:
        """The Hub's model of who asks; None for nobody. It may be some seconds old."""
        return await self.hub_auth.get_user(self, sync=False)

    async def prepare(self) -> None:
        try:
            model = await self.hub_model()
        except HTTPError as error:
            # HubAuth's own words name the Hub's inner address: they stay in the log.
            self.log_exception(type(error), error, error.__traceback__)
            raise Unavailable("The Hub does not answer. Try again in a moment.") from None
        # get_current_user would ask the Hub again, and block meanwhile: it reads this instead.
        self._hub_auth_user_cache = None
        if model:
            try:
                self._hub_auth_user_cache = self.check_hub_user(model)
            except UserNotAllowed:
                raise NotAllowed(
                    "Your account or this token may not use the portal's service."
                ) from None
        if not self._hub_auth_user_cache:
            self.refuse_stranger()
            return
        self.person = Person(
            name=model["name"],
            admin=bool(model.get("admin", False)),
            groups=tuple(model.get("groups", ())),
            scopes=frozenset(model.get("scopes", ())),
        )

    def refuse_stranger(self) -> None:
        """Answer a request without a login: by the Hub's login page."""
        self.redirect(self.get_login_url())


class PageHandler(PortalHandler):
    """Base of pages."""


class APIHandler(PortalHandler):
    """Base of ``api/v1/…``: JSON in and out, errors too."""

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Content-Security-Policy", API_POLICY)
        self.set_header("Content-Type", "application/json")

    def compute_etag(self) -> str | None:
        """None: what is asked for is new each time, and nothing keeps it (no-store)."""
        return None

    def refuse_stranger(self) -> None:
        """403, as the Hub's own API answers; a person who opens the address in a browser is led
        through the login."""
        visit = "text/html" in self.request.headers.get("Accept", "")
        if visit and self.request.method == "GET":
            super().refuse_stranger()
            return
        raise NotLoggedIn(
            "Send a token of the Hub in the header 'Authorization: token …', or log in; a cookie "
            "needs the header X-XSRFToken too."
        )

    def write_json(self, value: Any) -> None:
        self.finish(json.dumps(value, separators=(",", ":"), ensure_ascii=False))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """``{"error": {"code": …, "message": …}}`` for every error; some have details beside."""
        code, message = explain(status_code, kwargs.get("exc_info"))
        error = (kwargs.get("exc_info") or (None, None, None))[1]
        details = error.details if isinstance(error, PortalError) else {}
        self.write_json({"error": {"code": code, "message": message, **details}})


class NotFoundMixin:
    """Answers 404 to every method and every person, logged in or not."""

    async def prepare(self) -> None:
        raise NotFound("There is nothing at this address.")


class APINotFoundHandler(NotFoundMixin, APIHandler):
    """Every address under ``api/`` that names nothing."""


class CallbackHandler(HubOAuthCallbackHandler, SafeHandler):
    """Where the Hub's OAuth comes back to."""

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish("The login did not come to its end. Open the page again to repeat it.\n")


def explain(status_code: int, exc_info: Any) -> tuple[str, str]:
    """Code and message of an error for the one who asked; nothing of the inside of the service."""
    error = exc_info[1] if exc_info else None
    if isinstance(error, PortalError):
        return error.code, error.message
    if no_space(error):
        return DiskFull.code, FULL
    try:
        phrase = HTTPStatus(status_code).phrase
    except ValueError:
        phrase = "Error"
    code = phrase.lower().replace(" ", "_").replace("-", "_")
    if status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return code, "Something went wrong in the portal's service; its log tells what."
    return code, f"{phrase}."
