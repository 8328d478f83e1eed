"""Server of MLflow's API for the programs of one point, on the loopback of their node.

Every user of the node can connect to it. Connections of others are closed at once, so that they
hold no thread; and each request needs a token, which only the point's programs have: in their
environment, never on a command line.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import socket
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ...peers import accepted
from .mlflow_runs import MlflowRuns
from .mlflow_values import MlflowError

_HOST = "127.0.0.1"
_PREFIX = "/api/2.0/mlflow/"
_LARGEST = 4 * 1024 * 1024  # bytes of a body; MLflow's batches have 1 MB
_PATIENCE = 60.0  # seconds for the next request of a connection
_MOST = 64  # connections of the user at once
URI, TOKEN = "MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_TOKEN"
_NO_PROXY = ("no_proxy", "NO_PROXY")


class MlflowServer:
    """Server of the ``runs`` of a point, once `start` was called. It ends with its process."""

    def __init__(self, runs: MlflowRuns) -> None:
        self._runs, self._token = runs, secrets.token_urlsafe(32)
        self._server: _Server | None = None

    def start(self) -> None:
        """Listen on a free port. Raises OSError if there is none."""
        self._server = _Server((_HOST, 0), self._runs, self._token)
        threading.Thread(
            target=self._server.serve_forever, name="portal-mlflow", daemon=True
        ).start()

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables by which MLflow's client finds the server; {} if it does not run, or
        if ``environ`` names another one."""
        if self._server is None or environ.get(URI):
            return {}
        # A proxy of the site would get the token, and could not reach the server.
        known = next((environ[name] for name in _NO_PROXY if environ.get(name)), "")
        without = ",".join(part for part in (known, _HOST) if part)
        address = f"http://{_HOST}:{self._server.server_address[1]}"
        variables = {URI: address, TOKEN: self._token, **dict.fromkeys(_NO_PROXY, without)}
        return {**variables, "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}  # there is no page

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024  # that wait while those of others are closed

    def __init__(self, address: tuple[str, int], runs: MlflowRuns, token: str) -> None:
        super().__init__(address, _Handler)
        self.runs, self.authorization = runs, f"Bearer {token}".encode()
        self._places = threading.BoundedSemaphore(_MOST)

    def serve_forever(self, poll_interval: float = 0.0) -> None:
        """Serve until `shutdown`."""
        with contextlib.suppress(OSError):
            while True:
                for connection in accepted(self.socket):
                    self.process_request(connection, None)

    def shutdown(self) -> None:
        """End `serve_forever`."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:  # the client tries again
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a connection that was closed


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Answer a call whose arguments are in the query."""
        query: dict[str, Any] = {}
        for name, value in parse_qsl(urlsplit(self.path).query, keep_blank_values=True):
            query[name] = [*query[name], value] if name in query else [value]
        self._answer({name: value if value[1:] else value[0] for name, value in query.items()})

    def do_POST(self) -> None:
        """Answer a call whose arguments are in the body."""
        self._answer(None)

    do_PATCH = do_POST

    def do_DELETE(self) -> None:
        """Refuse: the portal deletes nothing of a point."""
        self.close_connection = True  # its body is not read
        self._answer(MlflowError("The portal deletes nothing of a point.", status=405))

    do_PUT = do_DELETE

    def log_message(self, *_: Any) -> None:
        """Log nothing: the job's log is the point's."""

    def _answer(self, query: dict[str, Any] | MlflowError | None) -> None:
        try:
            given = self.headers.get("Authorization", "").encode("latin-1", "replace")
            if not hmac.compare_digest(given, self.server.authorization):
                self.close_connection = True  # its body is not read
                raise MlflowError("The token is wrong.", "UNAUTHENTICATED", 401)
            if isinstance(query, MlflowError):
                raise query
            body = self._body() if query is None else query
            path = urlsplit(self.path).path
            call = path[len(_PREFIX) :] if path.startswith(_PREFIX) else path
            status, content = 200, self.server.runs.answer(call, body)
        except MlflowError as error:
            status, content = error.status, {"error_code": error.code, "message": str(error)}
        except OSError as error:
            message = f"The point's folder cannot be written: {error.strerror}."
            status, content = 400, {"error_code": "INTERNAL_ERROR", "message": message}
        whole = json.dumps(content).encode()
        with contextlib.suppress(OSError, socket.timeout):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(whole)))
            self.end_headers()
            self.wfile.write(whole)

    def _body(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _LARGEST:
            self.close_connection = True
            raise MlflowError(f"The body has more than {_LARGEST >> 20} MB, or no length.")
        try:
            body = json.loads(self.rfile.read(int(length)) or b"{}")
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise MlflowError("The body must be a JSON object.")
        return body
