"""The service's pages where nothing else is left to show."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import httpx
import pytest
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application

from portal.errors import NotFound
from portal.handlers.pages.pages import Page


class BrokenTemplates:
    """Page templates of a site that cannot be rendered."""

    def policy(self, nonce: str) -> str:
        return "default-src 'self'"

    def render(self, *given: object, **named: object) -> str:
        raise ValueError("a template is broken")


class Missing(Page):
    async def prepare(self) -> None:
        raise NotFound("There is no such session.")


@pytest.fixture
async def url() -> AsyncIterator[str]:
    application = Application(
        [("/", Missing)],
        pages=BrokenTemplates(),
        log=logging.getLogger("test-pages"),
        log_function=lambda _: None,
    )
    listening, port = bind_unused_port()
    server = HTTPServer(application)
    server.add_socket(listening)
    yield f"http://127.0.0.1:{port}/"
    server.stop()


async def test_a_broken_template_leaves_the_sentence(url: str) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
        answer = await client.get(url)
    assert answer.status_code == 404
    assert answer.text.strip() == "There is no such session."
    assert answer.headers["Content-Type"].startswith("text/plain")
