"""The reverse proxies of docs/how-to/https.md, as they stand there, and those that `portal setup`
writes, in front of a small server."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import runs
from tornado.httpclient import HTTPRequest
from tornado.httpserver import HTTPServer
from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketHandler, websocket_connect

from portal.demo.daemons.certificates import Certificates, make_certificates
from portal.demo.daemons.ports import free, free_port
from portal.demo.daemons.process import wait_for
from portal.setup.https import web_server
from portal.setup.place import Place

PAGE = (Path(__file__).resolve().parents[3] / "docs/how-to/https.md").read_text()
NAME = "portal.example.org"
NGINX = """
daemon off; pid {place}/pid; error_log {place}/log; user root;
events {{}}
http {{ access_log off; client_body_temp_path {place}; proxy_temp_path {place};
{block}
}}
"""
APACHE = """
ServerRoot {place}
PidFile {place}/pid
ErrorLog {place}/log
User www-data
Group www-data
TypesConfig /dev/null
Listen 127.0.0.1:{https}
Listen 127.0.0.1:{http}
{modules}
{block}
"""
CADDY = """
{{
    admin off
    default_bind 127.0.0.1
    http_port {http}
    https_port {https}
}}
{block}
"""
MODULES = (
    *("mpm_event", "authz_core", "ssl", "socache_shmcb", "http2", "proxy", "proxy_http"),
    *("proxy_wstunnel", "headers", "deflate", "filter", "mime", "alias"),
)


class Echo(RequestHandler):
    """Response with the headers of the request; long enough to be worth compressing."""

    def get(self, path: str) -> None:
        self.finish({"path": path, "headers": dict(self.request.headers), "more": "x" * 4000})

    def post(self, path: str) -> None:
        self.finish({"path": path, "size": len(self.request.body)})


class Mirror(WebSocketHandler):
    """Websocket that answers what it is told."""

    async def on_message(self, message: str | bytes) -> None:
        await self.write_message(message)


class Site(NamedTuple):
    """Running reverse proxy for ``host``, and the certificate of its authority."""

    name: str
    host: str
    https: int
    http: int
    ca_file: Path

    def curl(self, path: str, *options: str) -> tuple[int, str, dict[str, str], str]:
        """Return status, version of HTTP, headers (lower case) and body of a request."""
        done = subprocess.run(
            [
                *("curl", "-sS", "--http2", "-i", "--max-time", "20"),
                *("--cacert", str(self.ca_file), *options),
                f"https://localhost:{self.https}{path}",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        head, _, body = done.stdout.partition("\n\n")
        first, *lines = head.splitlines()
        version, status = first.split()[:2]
        headers = dict(line.lower().split(": ", 1) for line in lines)
        return int(status), version, headers, body


@pytest.fixture(scope="module")
def upstream() -> Iterator[int]:
    """The port of a small server in the Hub's place."""
    port, started = free_port(), threading.Event()
    loop = asyncio.new_event_loop()

    def serve() -> None:
        asyncio.set_event_loop(loop)
        application = Application([(r"/ws", Mirror), (r"(/.*)", Echo)])
        server = HTTPServer(application, max_header_size=2**20, max_body_size=2**23)
        server.listen(port, "127.0.0.1")
        loop.call_soon(started.set)
        loop.run_forever()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert started.wait(10)
    yield port
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


def written(kind: str, upstream: int, made: Certificates) -> str:
    """What `portal setup` writes for a web server."""
    answers = {
        "https": kind,
        "host_name": "localhost",
        "session_hosts": False,
        "certificate": str(made.certificate),
        "certificate_key": str(made.key),
        "ports": [str(upstream)],
    }
    server = web_server(answers, Place("/"))
    assert server is not None
    return server.files[0][1]


def example(language: str) -> str:
    """The page's block in ``language``."""
    block = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    return block[1]


def here(text: str, upstream: int, https: int, http: int, made: Certificates) -> str:
    """Return a file with this test's ports and certificate."""
    for old, new in (
        ("127.0.0.1:8000", f"127.0.0.1:{upstream}"),
        (f"/etc/ssl/{NAME}.pem", str(made.certificate)),
        (f"/etc/ssl/private/{NAME}.key", str(made.key)),
        # The packaged nginx is older than the directive: as the comment beside it says.
        ("    http2 on;  # before nginx 1.25.1: listen 443 ssl http2;\n", ""),
        ("listen 443 ssl;", "listen 443 ssl http2;"),
        ("listen 443 ", f"listen 127.0.0.1:{https} "),
        ("listen 80;", f"listen 127.0.0.1:{http};"),
        ("*:443>", f"127.0.0.1:{https}>"),
        ("*:80>", f"127.0.0.1:{http}>"),
    ):
        text = text.replace(old, new)
    return text


BY_SETUP = "setup-"


@pytest.fixture(
    scope="module",
    params=["nginx", "apache", *(f"{BY_SETUP}{kind}" for kind in ("nginx", "apache", "caddy"))],
)
def site(
    request: pytest.FixtureRequest, upstream: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """The example, or the file of setup, in front of ``upstream``."""
    name = request.param.removeprefix(BY_SETUP)
    place = tmp_path_factory.mktemp(request.param)
    made = make_certificates(place / "certificates")
    https, http = free_port(), free_port()
    of_page = name == request.param
    text = example(name) if of_page else written(name, upstream, made)
    block = here(text, upstream, https, http, made)
    file = place / "site.conf"
    if name == "nginx":
        file.write_text(NGINX.format(place=place, block=block))
        argv = ["nginx", "-p", str(place), "-c", str(file)]
    elif name == "caddy":
        file.write_text(CADDY.format(https=https, http=http, block=block))
        argv = ["caddy", "run", "--config", str(file), "--adapter", "caddyfile"]
    else:
        loads = [
            f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in MODULES
        ]
        file.write_text(
            APACHE.format(
                place=place, https=https, http=http, modules="\n".join(loads), block=block
            )
        )
        argv = ["apache2", "-f", str(file), "-D", "FOREGROUND"]
    assert shutil.which(argv[0], path="/usr/sbin:/usr/bin")
    with (place / "log").open("ab") as log:
        process = subprocess.Popen(
            argv, preexec_fn=runs.ends_with_parent, stderr=log, env={**os.environ, "HOME": place}
        )
    try:
        assert wait_for(lambda: not free(https), 20), (place / "log").read_text()
        yield Site(name, NAME if of_page else "localhost", https, http, made.ca_file)
    finally:
        process.terminate()
        process.wait(20)


def test_http2_with_the_address_and_the_host_that_were_asked_for(site: Site) -> None:
    status, version, _, body = site.curl("/hub/login")
    assert (status, version) == (200, "HTTP/2")
    seen = json.loads(body)["headers"]
    assert seen["Host"].split(":")[0] == "localhost"
    assert seen["X-Forwarded-Proto"] == "https"
    assert seen["X-Forwarded-For"] == "127.0.0.1"


def test_pages_are_compressed(site: Site) -> None:
    _, _, headers, body = site.curl("/user/ada/api", "--compressed")
    assert headers["content-encoding"] == ("zstd" if site.name == "caddy" else "gzip")
    assert json.loads(body)["path"] == "/user/ada/api"


def test_files_of_any_size_reach_a_session(site: Site, tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes(b"x" * 2_000_000)
    send = ("--data-binary", f"@{body}", "-H", "Content-Type: application/octet-stream")
    status, _, _, answer = site.curl("/user/ada/api", *send)
    assert (status, json.loads(answer)["size"]) == (200, 2_000_000)
    if site.name == "nginx":  # Apache leaves that to the Hub
        assert site.curl("/hub/api", *send)[0] == 413
    if site.name == "caddy":  # 2.6 answers with 502, or ends the stream before it is read
        try:
            refused = site.curl("/hub/api", *send)[0]
        except subprocess.CalledProcessError as error:
            refused = error.returncode
        assert refused in (502, 92)


def test_headers_beyond_the_usual_reach_the_hub(site: Site) -> None:
    cookies = "; ".join(f"c{number}=" + "x" * 3000 for number in range(20))
    status, _, _, body = site.curl("/hub/login", "-H", f"Cookie: {cookies}")
    assert status == 200
    assert len(json.loads(body)["headers"]["Cookie"]) > 60_000


async def test_websockets_pass(site: Site) -> None:
    context = ssl.create_default_context(cafile=str(site.ca_file))
    request = HTTPRequest(f"wss://localhost:{site.https}/ws", ssl_options=context)
    socket = await websocket_connect(request)
    await socket.write_message("hello")
    message: Any = await asyncio.wait_for(socket.read_message(), 10)
    assert message == "hello"
    socket.close()


def test_plain_http_leads_to_https(site: Site) -> None:
    done = subprocess.run(
        [
            *("curl", "-sS", "-i", "-H", f"Host: {site.host}"),
            f"http://127.0.0.1:{site.http}/hub/login",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    there = rf"(?im)^location: https://{site.host}/hub/login\r?$"
    assert re.search(there, done.stdout), done.stdout
