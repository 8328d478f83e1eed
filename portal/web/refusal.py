"""Answers to requests that are not looked into: no login is read, no cookie is set."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from typing import Any

from tornado.web import RequestHandler, stream_request_body

DRAINED = 64 * 1024 * 1024  # bytes read and discarded, so that the client gets to read the answer
_PAGE = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width">
<style>body {{ font: 1rem/1.5 system-ui, sans-serif; margin: 3rem auto; max-width: 40rem;
padding: 0 1rem }} :root {{ color-scheme: light dark }}</style>
<h1>{title}</h1><p>{sentence}</p></html>
"""


@stream_request_body
class Refusal(RequestHandler):
    """Handler that answers ``status`` with ``sentence``: JSON for programs, a page for browsers.

    ``headers`` are added to the response, a list for one that is repeated. The body is discarded
    as it arrives; anything beyond 64 MiB is cut off.
    """

    def initialize(
        self, status: int, sentence: str, headers: Mapping[str, str | list[str]] | None = None
    ) -> None:
        self.status = status
        self.sentence = sentence
        self.more = headers or {}

    def prepare(self) -> None:
        connection: Any = self.request.connection
        connection.set_max_body_size(DRAINED)
        if length_of(self.request) > DRAINED:
            self._answer()

    def check_xsrf_cookie(self) -> None:
        """Skip the check: the request has no effect."""

    def data_received(self, chunk: bytes) -> None:
        pass

    def _answer(self, *args: str, **kwargs: Any) -> None:
        self.set_status(self.status)
        for name, values in self.more.items():
            for value in [values] if isinstance(values, str) else values:
                self.add_header(name, value)
        self.set_header("Cache-Control", "no-store")
        self.set_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
        if 300 <= self.status < 400:
            self.finish()
        elif "text/html" in self.request.headers.get("Accept", ""):
            text = {"title": f"{self.status} : {self._reason}", "sentence": self.sentence}
            self.finish(_PAGE.format(**{name: html.escape(part) for name, part in text.items()}))
        else:
            self.set_header("Content-Type", "application/json")
            self.finish(json.dumps({"status": self.status, "message": self.sentence}))

    get = head = post = put = patch = delete = options = _answer


def length_of(request: Any) -> int:
    """Return the declared size of a request's body in bytes; 0 if none is declared."""
    given = request.headers.get("Content-Length", "")
    return int(given) if given.isascii() and given.isdecimal() and len(given) < 20 else 0
