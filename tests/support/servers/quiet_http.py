"""HTTP servers on loopback whose handlers send whole answers and log nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class QuietHandler(BaseHTTPRequestHandler):
    """Handler of a request, without a log."""

    def send_whole(self, status: int, body: bytes, kind: str = "application/json") -> None:
        """Send an answer with a body of this media type."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Log nothing."""


@contextmanager
def serving(
    handler: type[BaseHTTPRequestHandler], address: str = "127.0.0.1"
) -> Iterator[ThreadingHTTPServer]:
    """Serve with ``handler`` on a free port of ``address`` while the block runs."""
    server = ThreadingHTTPServer((address, 0), handler)
    server.daemon_threads = True
    often = {"poll_interval": 0.05}
    thread = threading.Thread(target=server.serve_forever, kwargs=often, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
