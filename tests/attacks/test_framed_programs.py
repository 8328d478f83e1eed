"""A page of another site that has a session's program in a frame, and clicks of its user there."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from session_server import BASE, TOKEN, SessionServer, a_server, make_python, wait_for

pytest.importorskip("jupyter_server_proxy")
PAGE = f"{BASE}portal/program/"
_PROGRAM = """
import sys
from tornado import ioloop, web

class Page(web.RequestHandler):
    def get(self, path):
        self.set_cookie("of-the-program", "1")
        self.set_header("Content-Security-Policy", "img-src 'self'")
        self.write("a page")

web.Application([(".*()", Page)]).listen(int(sys.argv[1]), "127.0.0.1")
ioloop.IOLoop.current().start()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionServer]:
    """A session whose program runs."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.py").write_text(_PROGRAM)
    argv = ["{python}", str(folder / "program.py"), "{port}"]
    program = json.dumps({"title": "A program", "argv": argv})
    with a_server(make_python(folder / "venv"), PORTAL_PROGRAM=program) as running:
        wait_for(lambda: running.client.get(running.url + PAGE).text == "a page", str)
        yield running


def test_no_other_site_has_it_in_a_frame(server: SessionServer) -> None:
    answer = server.client.get(server.url + PAGE)
    policies = answer.headers.get_list("content-security-policy", split_commas=True)
    assert policies == ["img-src 'self'", "frame-ancestors 'self'"]
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"


def test_a_direct_link_ends_at_the_program(server: SessionServer) -> None:
    """The login's own cookies are kept (of the Hub's, its state), and no cookie of the program."""
    with httpx.Client() as browser:
        first = browser.get(f"{server.url}{PAGE}?token={TOKEN}", follow_redirects=True)
        assert first.text == "a page"
        assert browser.get(server.url + PAGE).text == "a page", "it is logged in"
        assert "of-the-program" not in browser.cookies
