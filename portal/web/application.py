"""Tornado application that bounds headers and bodies, and says so in words."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, HTTPServerRequest
from tornado.web import Application, OutputTransform

from portal.logs import request as logged

from . import cookies
from .refusal import DRAINED, Refusal, length_of

_COOKIES = (
    "Your browser sent {size} KB of cookies; at most {most} KB are accepted. A page below this "
    "address has set too many. They have been deleted. Reload this page."
)
_ADDRESS = 64 * 1024  # bytes of the address, as tornado has it
_HEADERS = 64 * 1024  # bytes of headers, without cookies that are too large
_BODY = "The request is too large: at most {limit} bytes are accepted."


class BoundedApplication(Application):
    """Application with a limit on bodies: the setting ``max_body``, in bytes.

    A handler's class may set its own ``max_body``, or ``takes_files`` if it bounds the body
    itself.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.add_transform(_NamedResponse)

    def start_request(self, server_conn: object, request_conn: Any) -> HTTPMessageDelegate:
        """Accept headers as large as a browser can make them.

        The limit is the server's, and JupyterHub makes its server without one. Tornado's default
        is 64 KiB, above which it closes the connection without a word.
        """
        request_conn.params.max_header_size = cookies.HEADERS
        return super().start_request(server_conn, request_conn)

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> Any:
        """Return the handler of ``request``, or one that says that it is too large.

        From here on, all that runs for it logs its id.
        """
        given = request.headers.get(logged.HEADER), request.headers.get(logged.TRACE_PARENT)
        request.portal_id = logged.begin_request(*given)  # type: ignore[attr-defined]
        if len(request.uri or "") > _ADDRESS:
            request.uri = (request.uri or "")[:200]  # it goes into the log
            return self.refusal(request, 414, "The address is longer than 64 KB.")
        size = cookies.size_of(request.headers)
        if size > cookies.MOST:
            sentence = _COOKIES.format(size=round(size / 1024), most=cookies.MOST // 1024)
            secure = request.protocol == "https"
            ends = cookies.forget(request.headers, request.host_name, request.path, secure)
            return self.refusal(request, 431, sentence, {"Set-Cookie": ends})
        if sum(len(name) + len(value) for name, value in request.headers.get_all()) > _HEADERS:
            return self.refusal(request, 431, "The request's headers are larger than 64 KB.")
        handler = super().find_handler(request, **kwargs)
        kind = getattr(handler, "handler_class", None)
        if getattr(kind, "takes_files", False) or issubclass(kind or object, Refusal):
            return handler
        limit = getattr(kind, "max_body", self.settings["max_body"])
        if length_of(request) > limit:
            return self.body_refused(request, limit)
        connection: Any = request.connection
        if "Transfer-Encoding" in request.headers:
            # Its size shows as it comes; tornado would close the connection without a word.
            connection.set_max_body_size(limit + DRAINED)
            return _Counted(handler, limit, self, request)
        connection.set_max_body_size(limit)
        return handler

    def body_refused(self, request: HTTPServerRequest, limit: int) -> Any:
        """Return a handler that answers that the body is larger than ``limit`` bytes."""
        return self.refusal(request, 413, _BODY.format(limit=limit))

    def refusal(
        self,
        request: HTTPServerRequest,
        status: int,
        sentence: str,
        headers: Mapping[str, str | list[str]] | None = None,
    ) -> Any:
        """Return a handler that answers ``status`` with ``sentence``."""
        arguments = {"status": status, "sentence": sentence, "headers": headers}
        return self.get_handler_delegate(request, Refusal, arguments)


class _NamedResponse(OutputTransform):
    """Header of each response with its request's id."""

    def __init__(self, request: HTTPServerRequest) -> None:
        self._id = str(getattr(request, "portal_id", ""))

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        headers[logged.HEADER] = self._id
        return status_code, headers, chunk


class _Counted(HTTPMessageDelegate):
    """Delegate that passes on a body of undeclared size until it exceeds ``limit`` bytes."""

    def __init__(
        self, inner: Any, limit: int, application: BoundedApplication, request: HTTPServerRequest
    ) -> None:
        self.inner = inner
        self.left = limit
        self.limit = limit
        self.application = application
        self.request = request
        self.start: tuple[Any, Any] = (None, None)
        self.streamed = bool(getattr(inner, "stream_request_body", False))

    def headers_received(self, start_line: Any, headers: Any) -> Awaitable[None] | None:
        self.start = (start_line, headers)
        received: Awaitable[None] | None = self.inner.headers_received(start_line, headers)
        return received

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        self.left -= len(chunk)
        if self.left < 0 and not self.streamed:
            self.streamed = True
            self.inner.on_connection_close()  # forgets what came
            self.inner = self.application.body_refused(self.request, self.limit)
            self.inner.headers_received(*self.start)
        received: Awaitable[None] | None = self.inner.data_received(chunk)
        return received

    def finish(self) -> None:
        self.inner.finish()

    def on_connection_close(self) -> None:
        self.inner.on_connection_close()
