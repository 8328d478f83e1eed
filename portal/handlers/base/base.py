"""Base classes of all handlers: authentication by the Hub, readable errors, security headers.

Login is JupyterHub's: a token of the Hub in ``Authorization: token …``, or the cookie that its
OAuth leaves in the browser. For anything but a plain visit, a cookie counts only together with the
matching ``X-XSRFToken`` header or ``_xsrf`` argument: HubOAuth checks that when it reads the
cookie (jupyterhub.services.auth.HubOAuth._get_user_cookie). Tornado's own ``xsrf_cookies`` would
refuse requests with a token and stays off.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, TypeVar

from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated, UserNotAllowed
from tornado.web import HTTPError, RequestHandler

from portal.assembly import Services
from portal.disk import FULL, DiskFull, no_space
from portal.errors import HubUnavailable, NotAllowed, NotFound, PortalError
from portal.logs.request import request_id
from portal.models.person import Person

_Parts = TypeVar("_Parts")
_SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
PAGE_POLICY = "default-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
API_POLICY = "default-src 'none'; frame-ancestors 'none'"


class NotLoggedIn(NotAllowed):
    """Request without a login that the Hub knows."""

    code = "not_logged_in"


class SafeHandler(RequestHandler):
    """Handler with security headers and readable errors."""

    _refused_method = False

    @classmethod
    def methods(cls) -> list[str]:
        """Return the HTTP methods that this handler supports."""
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
        """Write the error as a plain sentence, never a traceback."""
        _, message = explain(status_code, kwargs.get("exc_info"))
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(message + "\n")

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log an error without the query, which may carry a token (tornado logs all of it)."""
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
    """Base class of pages and API: asks the Hub, without blocking, who the person is.

    ``self.person`` is set before ``get``, ``post``… run.
    """

    person: Person

    @property
    def parts(self) -> Services:
        """Services that the handlers work with."""
        return self.settings["parts"]

    def parts_for(self, parts: type[_Parts]) -> _Parts:
        """Return the objects of the feature with this class of ``parts``."""
        made: _Parts = self.parts.of_features[parts]
        return made

    async def hub_model(self) -> Any:
        """Return the Hub's model of the requester, None for nobody; it may be some seconds old."""
        return await self.hub_auth.get_user(self, sync=False)

    async def prepare(self) -> None:
        try:
            model = await self.hub_model()
        except HTTPError as error:
            # HubAuth's own words name the Hub's inner address: they stay in the log.
            self.log_exception(type(error), error, error.__traceback__)
            raise HubUnavailable("The Hub does not answer. Try again in a moment.") from None
        # get_current_user would ask the Hub again, and block meanwhile: it reads this instead.
        self._hub_auth_user_cache = None
        if model:
            try:
                self._hub_auth_user_cache = self.check_hub_user(model)
            except UserNotAllowed:
                raise NotAllowed(
                    "Your account or this token is not allowed to use the portal's service."
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
        """Redirect a request without a login to the Hub's login page."""
        self.redirect(self.get_login_url())


class PageHandler(PortalHandler):
    """Base class of pages."""


class APIHandler(PortalHandler):
    """Base class of ``api/v1/…``: JSON in and out, errors included."""

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Content-Security-Policy", API_POLICY)
        self.set_header("Content-Type", "application/json")

    def compute_etag(self) -> str | None:
        """Return None: each response is new, and none is stored (no-store)."""
        return None

    def refuse_stranger(self) -> None:
        """Answer 403, as the Hub's own API does; lead a browser's visit through the login."""
        visit = "text/html" in self.request.headers.get("Accept", "")
        if visit and self.request.method == "GET":
            super().refuse_stranger()
            return
        raise NotLoggedIn(
            "Send a Hub token in the header 'Authorization: token …', or sign in. With a cookie, "
            "also send the header X-XSRFToken."
        )

    def write_json(self, value: Any) -> None:
        self.finish(json.dumps(value, separators=(",", ":"), ensure_ascii=False))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Write ``{"error": {"code": …, "message": …}}`` for every error; some add their field and
        details."""
        code, message = explain(status_code, kwargs.get("exc_info"))
        error = (kwargs.get("exc_info") or (None, None, None))[1]
        details: dict[str, Any] = {}
        if isinstance(error, PortalError):
            details = {"field": error.field, **error.details} if error.field else error.details
        if self.get_status() >= HTTPStatus.INTERNAL_SERVER_ERROR and (id_ := request_id()):
            details = {**details, "request_id": id_}
        self.write_json({"error": {"code": code, "message": message, **details}})


class NotFoundMixin:
    """Mixin that answers 404 to every method and every person, logged in or not."""

    async def prepare(self) -> None:
        raise NotFound("There is nothing at this address.")


class APINotFoundHandler(NotFoundMixin, APIHandler):
    """Unknown addresses under ``api/``."""


class CallbackHandler(HubOAuthCallbackHandler, SafeHandler):
    """Callback of the Hub's OAuth."""

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish("Signing in was not completed. Open the page again to retry.\n")


def explain(status_code: int, exc_info: Any) -> tuple[str, str]:
    """Return code and message of an error for the client; no internals of the service."""
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
        return code, (
            f"The portal's service failed. Ask an administrator, and name request {request_id()}."
        )
    return code, f"{phrase}."
