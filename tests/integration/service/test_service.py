"""The service as the Hub runs it: a real JupyterHub, its proxy, its OAuth and its tokens."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from machine import patience

from portal.demo.daemons.ports import free_port
from portal.demo.home import Home

pytestmark = pytest.mark.hub

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENTS = "/services/portal/api/v1/environments"
HISTORY = "/services/portal/api/v1/history"  # it can only be read
# Seconds for the end of a Hub: it gives its service 30 after SIGINT and 30 more after SIGTERM
# (JupyterHub's LocalProcessSpawner), and a busy machine uses some of that.
PATIENCE = patience(90)

CONFIG = """
import os
c = get_config()
c.JupyterHub.bind_url = "http://127.0.0.1:{public}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{hub}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api}"
c.ConfigurableHTTPProxy.command = {proxy!r}
c.JupyterHub.db_url = "sqlite:///hub.sqlite"
c.JupyterHub.cookie_secret_file = "cookie_secret"
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = "portal-demo"
c.Authenticator.allow_all = True
c.Authenticator.admin_users = {{"grace"}}
c.JupyterHub.spawner_class = "simple"
c.JupyterHub.load_groups = {{"gpu-users": {{"users": ["ada"]}}}}
c.JupyterHub.services = [{{"name": "tester", "api_token": {token!r}}}]
c.JupyterHub.load_roles = [
    {{"name": "tester", "scopes": ["admin:users", "tokens"], "services": ["tester"]}}
]
c.EnvironmentCatalog.directory = {catalog!r}
c.EnvironmentCatalog.offer_untested = True
c.CatalogRules.allowed_variables = ["SECRET"]
c.BuildScheduler.test_by_itself = False
c.PortalService.token_age = 1
load_subconfig({service!r})
"""

ENVIRONMENT = """
name: {name}
title: {title}
kind: container
image: /srv/images/{name}.sif
tags: [cuda]
variables: {{SECRET: do-not-tell}}
default: {{gpus: 1, time: 2:00:00}}
max_gpus: 4
"""


def proxy_command() -> list[str]:
    """The real proxy: on PATH, or the one that `make` put into the portal's cache."""
    found = shutil.which("configurable-http-proxy")
    if found:
        return [found]
    path = Home.find().cache / "node/node_modules/.bin/configurable-http-proxy"
    if path.exists():
        return [str(path)]
    pytest.skip("configurable-http-proxy is not installed")


class Hub:
    """A running JupyterHub with the service; ``url`` is the proxy's, ``admin`` its API client."""

    def __init__(self, directory: Path, config: str = "") -> None:
        self.directory = directory
        self.catalog = directory / "environments"
        self.catalog.mkdir()
        public, hub, api, service = (free_port() for _ in range(4))
        token = secrets.token_hex(16)
        self.url = f"http://127.0.0.1:{public}"
        self.service_url = f"http://127.0.0.1:{service}"
        (directory / "jupyterhub_config.py").write_text(
            CONFIG.format(
                public=public,
                hub=hub,
                api=api,
                token=token,
                proxy=proxy_command(),
                catalog=str(self.catalog),
                service=str(ROOT / "deploy/jupyterhub_config.d/20-service.py"),
            )
            + config
        )
        path = os.environ.get("PYTHONPATH", "")
        self.environment = os.environ | {
            "PYTHONPATH": f"{ROOT}{os.pathsep}{path}".rstrip(os.pathsep),
            "PORTAL_SERVICE_PORT": str(service),
            "CONFIGPROXY_AUTH_TOKEN": secrets.token_hex(16),
        }
        self.admin = httpx.Client(
            base_url=f"{self.url}/hub/api/",
            headers={"Authorization": f"token {token}"},
            timeout=120,
            trust_env=False,
        )

    def start(self) -> None:
        """Start it and wait for the service. A Hub gives its proxy 10 seconds to come up, which a
        busy machine can miss: then once more."""
        if not self.comes_up():
            self.stop()
            if not self.comes_up():
                self.stop()
                pytest.fail("the Hub did not start:\n" + self.log()[-4000:])

    def comes_up(self) -> bool:
        with (self.directory / "hub.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jupyterhub"],
                cwd=self.directory,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + patience(90)
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(httpx.HTTPError):
                if self.anyone().get(ENVIRONMENTS).status_code == 403:
                    return True
            time.sleep(0.2)
        return False

    def stop(self) -> None:
        family: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            family = psutil.Process(self.process.pid).children(recursive=True)
        # A Hub that died leaves its proxy behind, in a process group of its own.
        with contextlib.suppress(OSError, ValueError, psutil.NoSuchProcess):
            pid = int((self.directory / "jupyterhub-proxy.pid").read_text())
            family.append(psutil.Process(pid))
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()

    def log(self) -> str:
        return (self.directory / "hub.log").read_text()

    def service_process(self) -> psutil.Process | None:
        for process in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.Error):
                if "service" in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                    return process
        return None

    def anyone(self, **headers: str) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=headers, timeout=120, trust_env=False)

    def token(self, name: str, **request: object) -> str:
        self.admin.post(f"users/{name}")
        answer = self.admin.post(f"users/{name}/tokens", json=request)
        assert answer.status_code == 201, answer.text
        return answer.json()["token"]

    def client(self, name: str, **request: object) -> httpx.Client:
        return self.anyone(Authorization=f"token {self.token(name, **request)}")

    def browser(self, name: str) -> httpx.Client:
        """Someone logged in through the login form, as a browser is."""
        client = self.anyone(Accept="text/html")
        client.follow_redirects = True
        client.get("/hub/login")
        answer = client.post(
            "/hub/login?next=/hub/home",
            data={
                "username": name,
                "password": "portal-demo",
                "_xsrf": client.cookies.get("_xsrf", path="/hub/"),
            },
        )
        assert answer.url.path == "/hub/home", answer.text
        return client


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("hub"))
    for name, title, extra in (
        ("open", "For all", ""),
        ("gpu", "For GPU users", "groups: [gpu-users]\n"),
        ("staff", "For staff", "groups: [staff]\n"),
    ):
        (hub.catalog / f"{name}.yaml").write_text(
            ENVIRONMENT.format(name=name, title=title) + extra
        )
    (hub.catalog / "wrong.yaml").write_text("name: wrong\ntitel: Wrong\n")
    hub.start()
    yield hub
    hub.stop()


def names(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 200, answer.text
    return {item["name"] for item in answer.json()["items"]}


def error_of(answer: httpx.Response) -> dict[str, str]:
    assert answer.headers["content-type"].startswith("application/json")
    body = answer.json()
    assert set(body) == {"error"}
    if answer.status_code >= 500:
        assert body["error"].pop("request_id") == answer.headers["X-Request-ID"]
    assert body["error"].keys() - {"field"} == {"code", "message"}
    assert "Traceback" not in answer.text
    return body["error"]


def test_a_person_sees_the_environments_of_their_groups(hub: Hub) -> None:
    answer = hub.client("ada").get(ENVIRONMENTS)
    assert names(answer) == {"open", "gpu"}
    body = answer.json()
    assert set(body) == {"items", "next"}
    assert body["next"] is None
    [item] = [item for item in body["items"] if item["name"] == "gpu"]
    assert item["title"] == "For GPU users"
    assert item["kind"] == "container"
    assert item["tags"] == ["cuda"]
    assert item["default"]["time"] == "2:00:00"
    assert item["limits"] == {"gpus": 4, "cpus": None, "memory": None, "time": None}
    assert names(hub.client("stranger").get(ENVIRONMENTS)) == {"open"}


def test_paths_secrets_and_errors_are_not_for_everyone(hub: Hub) -> None:
    answer = hub.client("ada").get(ENVIRONMENTS)
    for hidden in ("/srv/images", "do-not-tell", "wrong.yaml", "gpu-users"):
        assert hidden not in answer.text


def test_an_admin_sees_all_and_the_wrong_files(hub: Hub) -> None:
    answer = hub.client("grace").get(ENVIRONMENTS)
    assert names(answer) == {"open", "gpu", "staff"}
    assert "/srv/images/gpu.sif" in answer.text
    assert "do-not-tell" not in answer.text
    assert {(error["file"], error["line"]) for error in answer.json()["errors"]} == {
        ("wrong.yaml", 1),
        ("wrong.yaml", 2),
    }


def test_a_new_file_is_there_at_once(hub: Hub) -> None:
    path = hub.catalog / "late.yaml"
    path.write_text(ENVIRONMENT.format(name="late", title="Late"))
    try:
        assert "late" in names(hub.client("ada").get(ENVIRONMENTS))
    finally:
        path.unlink()
    assert "late" not in names(hub.client("ada").get(ENVIRONMENTS))


def test_no_login_a_wrong_token_and_a_token_for_other_things_are_refused(hub: Hub) -> None:
    for client in (
        hub.anyone(),
        hub.anyone(Authorization="token " + "0" * 32),
        hub.client("ada", scopes=["read:users!user"]),
    ):
        answer = client.get(ENVIRONMENTS)
        assert answer.status_code == 403
        error_of(answer)


def test_a_revoked_token_stops_working(hub: Hub) -> None:
    hub.admin.post("users/ada")
    made = hub.admin.post("users/ada/tokens", json={}).json()
    client = hub.anyone(Authorization=f"token {made['token']}")
    assert client.get(ENVIRONMENTS).status_code == 200
    assert hub.admin.delete(f"users/ada/tokens/{made['id']}").status_code == 204
    deadline = time.monotonic() + patience(30)
    while client.get(ENVIRONMENTS).status_code == 200:
        assert time.monotonic() < deadline, "the service believes a revoked token for ever"
        time.sleep(0.2)
    assert client.get(ENVIRONMENTS).status_code == 403


def test_a_browser_is_led_through_the_login(hub: Hub) -> None:
    answer = hub.anyone(Accept="text/html").get(ENVIRONMENTS)
    assert answer.status_code == 302
    assert answer.headers["location"].startswith("/hub/api/oauth2/authorize")
    browser = hub.browser("ada")
    answer = browser.get(ENVIRONMENTS)
    assert answer.url.path == ENVIRONMENTS
    assert names(answer) == {"open", "gpu"}
    # and from now on the cookie serves, for a script of a page too
    browser.headers["Accept"] = "application/json"
    assert names(browser.get(ENVIRONMENTS)) == {"open", "gpu"}


def test_the_services_own_address_is_the_cluster_page(hub: Hub) -> None:
    browser = hub.browser("ada")
    answer = browser.get("/services/portal/")
    assert answer.url.path == "/services/portal/"
    assert "<h1" in answer.text and 'href="/hub/logout"' in answer.text


def test_scripts_of_a_page_are_the_portals_own(hub: Hub) -> None:
    answer = hub.browser("ada").get("/services/portal/")
    policy = answer.headers["content-security-policy"]
    found = re.search(r"script-src 'nonce-([\w-]+)';", policy)
    assert found and "unsafe" not in policy
    tags = re.findall(r"<script[^>]*>", answer.text)
    assert len(tags) > 4
    assert all(f'nonce="{found[1]}"' in tag for tag in tags)
    assert found[1] not in hub.browser("ada").get("/services/portal/").text


def test_static_files_are_kept_for_long_under_the_hash_of_all(hub: Hub) -> None:
    page = hub.browser("ada").get("/services/portal/").text
    address = re.search(r"/services/portal/static/[0-9a-f]{16}/js/cluster\.js", page)
    assert address
    answer = hub.anyone().get(address[0])
    assert answer.status_code == 200
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    old = re.sub(r"static/[0-9a-f]+/", "static/0123456789abcdef/", address[0])
    assert hub.anyone().get(old).headers["cache-control"] == "no-cache"
    for path in ("js/nothing.js", "../pyproject.toml", "%2e%2e/pyproject.toml", "vendor/.from"):
        base = address[0].removesuffix("js/cluster.js")
        assert hub.anyone().get(base + path).status_code == 404


def test_the_typeface_has_one_address_for_the_hubs_pages_and_the_services(hub: Hub) -> None:
    typeface = "/services/portal/static/typeface/vendor/inter/inter-latin-wght-normal.woff2"
    answer = hub.anyone().get(typeface)  # under any name, since the Hub does not know the hash
    assert answer.headers["content-type"] == "font/woff2"
    assert answer.headers["cache-control"] == "public, max-age=604800"


def test_a_cookie_alone_cannot_post(hub: Hub) -> None:
    browser = hub.browser("ada")
    browser.get("/services/portal/")
    browser.headers["Accept"] = "application/json"
    answer = browser.post(HISTORY)
    assert answer.status_code == 403
    assert error_of(answer)["code"] == "not_logged_in"
    xsrf = browser.cookies.get("_xsrf", path="/services/portal/")
    answer = browser.post(HISTORY, headers={"X-XSRFToken": xsrf})
    assert answer.status_code == 405  # believed, and there is nothing to post to


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"])
def test_other_methods_are_refused_in_json(hub: Hub, method: str) -> None:
    answer = hub.client("ada").request(method, HISTORY)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"
    assert error_of(answer)["code"] == "method_not_allowed"


def test_head_has_the_headers_and_no_body(hub: Hub) -> None:
    client = hub.client("ada")
    get, head = client.get(ENVIRONMENTS), client.head(ENVIRONMENTS)
    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["content-length"] == str(len(get.content))


def test_unknown_addresses_are_404_in_json(hub: Hub) -> None:
    for path in ("api", "api/", "api/v1", "api/v1/nothing", "api/v2/environments", "api/../api/x"):
        answer = hub.client("ada").get(f"/services/portal/{path}")
        assert answer.status_code == 404
        assert error_of(answer)["code"] == "not_found"
    assert hub.anyone().get("/services/portal/nothing").status_code == 404


def test_headers_are_safe(hub: Hub) -> None:
    for path in (ENVIRONMENTS, "/services/portal/nothing", "/services/portal/oauth_callback"):
        headers = hub.client("ada").get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "tornado" not in headers.get("server", "").lower()
        assert headers["cache-control"] == "no-store"


def test_an_oauth_answer_that_nobody_asked_for_is_refused_in_words(hub: Hub) -> None:
    answer = hub.anyone().get("/services/portal/oauth_callback?code=x&state=<script>")
    assert answer.status_code == 403
    assert "Open the page again" in answer.text
    assert "<script>" not in answer.text
    assert "Traceback" not in answer.text


def test_an_error_of_ours_is_told_without_its_inside(hub: Hub) -> None:
    broken = hub.directory / "broken.py"
    broken.write_text(
        "from portal.catalog import EnvironmentCatalog\n"
        "async def fail(self):\n    raise RuntimeError('inner words')\n"
        "EnvironmentCatalog.load = fail\n"
        "c = get_config()\n"
    )
    service = hub.service_process()
    assert service
    token = hub.token("ada")
    log = hub.directory / "broken.log"
    with started_alone(f"--config={broken}", log=log, **service.environ()) as url:
        answer = asked_with(token, f"{url}{ENVIRONMENTS}")
    assert answer.status_code == 500
    assert error_of(answer)["code"] == "internal_server_error"
    assert "inner words" not in answer.text
    assert "inner words" in log.read_text()
    assert token not in log.read_text()


def test_directory_gone_keeps_the_last_good_answer(hub: Hub) -> None:
    away = hub.directory / "away"
    client, grace = hub.client("ada"), hub.client("grace")
    assert names(client.get(ENVIRONMENTS)) == {"open", "gpu"}
    hub.catalog.rename(away)
    try:
        assert names(client.get(ENVIRONMENTS)) == {"open", "gpu"}
        assert "cannot read the directory" in grace.get(ENVIRONMENTS).text
    finally:
        away.rename(hub.catalog)
    assert "cannot read the directory" not in grace.get(ENVIRONMENTS).text


def test_log_holds_no_token(hub: Hub) -> None:
    token = hub.token("ada")
    answer = hub.anyone(Authorization=f"token {token}").get(f"{ENVIRONMENTS}?token={token}")
    assert answer.status_code == 400
    assert error_of(answer)["message"] == "'token' is not a known field. Remove it."
    lines = [line for line in hub.log().splitlines() if " portal] " in line]
    assert lines
    assert not any(token in line for line in lines)


def test_service_ends_with_a_hub_that_is_killed_and_the_next_one_starts(hub: Hub) -> None:
    """Last in the file: it leaves another Hub process behind the fixture."""
    service = hub.service_process()
    assert service
    others = [p for p in psutil.Process(hub.process.pid).children() if p.pid != service.pid]
    os.kill(hub.process.pid, signal.SIGKILL)
    hub.process.wait()
    service.wait(60)
    for process in others:  # the proxy, which the killed Hub left behind
        process.kill()
        process.wait(60)
    hub.start()
    assert names(hub.client("ada").get(ENVIRONMENTS)) == {"open", "gpu"}


def test_without_slurm_and_database_pages_stay_up_and_say_so(tmp_path: Path) -> None:
    """And the database is taken up once it is there."""
    place = tmp_path / "not-yet"
    hub = Hub(
        tmp_path,
        f'c.Store.url = "sqlite:///{place}/portal.sqlite"\n'
        f'c.SlurmRunner.slurm_conf = "{tmp_path}/none.conf"\n',
    )
    try:
        hub.start()
        assert hub.browser("ada").get("/services/portal/").status_code == 200
        ada = hub.client("ada")
        assert names(ada.get(ENVIRONMENTS)) == set()
        for path in ("cluster", "jobs", "nodes.csv", "events", "board", "gpus", "jobs/1"):
            answer = ada.get(f"/services/portal/api/v1/{path}")
            assert answer.status_code == 503, answer.text
            assert error_of(answer)["code"] == "slurm_unavailable"
            assert "Slurm" in error_of(answer)["message"]
        for path in ("announcements", "sessions", "history", "history.csv"):
            answer = ada.get(f"/services/portal/api/v1/{path}")
            assert answer.status_code == 503, answer.text
            assert error_of(answer)["code"] == "database_unavailable"
        assert "The database is not ready" in hub.log()
        place.mkdir()
        deadline = time.monotonic() + patience(30)
        while (answer := ada.get("/services/portal/api/v1/announcements")).status_code != 200:
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.2)
        assert answer.json() == {"items": [], "next": None, "total": 0}
        assert "Traceback" not in hub.log()
    finally:
        hub.stop()


def test_works_with_internal_ssl(tmp_path: Path) -> None:
    hub = Hub(
        tmp_path,
        "c.JupyterHub.internal_ssl = True\n"
        'c.JupyterHub.hub_bind_url = c.JupyterHub.hub_bind_url.replace("http:", "https:")\n'
        "c.ConfigurableHTTPProxy.api_url = c.ConfigurableHTTPProxy.api_url"
        ".replace('http:', 'https:')\n",
    )
    try:
        hub.start()
        assert names(hub.client("ada").get(ENVIRONMENTS)) == set()
    finally:
        hub.stop()


@contextlib.contextmanager
def started_alone(*arguments: str, log: Path, **variables: str) -> Iterator[str]:
    """A service without a Hub above it; gives its address when it listens."""
    port = free_port()
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "portal", "service", *arguments],
            cwd=log.parent,  # where its database comes to lie
            env={
                **variables,
                "PORTAL_HUB_PID": str(os.getpid()),
                "PYTHONPATH": str(ROOT),
                "JUPYTERHUB_SERVICE_URL": f"http://127.0.0.1:{port}",
            },
            stdout=out,
            stderr=out,
        )
    try:
        deadline = time.monotonic() + patience(30)
        while f":{port}" not in log.read_text():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(patience(10))


def asked_with(token: str, url: str) -> httpx.Response:
    """The answer to a request with this token."""
    with httpx.Client(trust_env=False, timeout=120) as client:
        return client.get(url, headers={"Authorization": f"token {token}"})


def test_a_hub_that_does_not_answer_is_told(tmp_path: Path) -> None:
    log = tmp_path / "log"
    variables = {
        "PATH": os.environ["PATH"],
        "JUPYTERHUB_API_URL": f"http://127.0.0.1:{free_port()}/hub/api",
        "JUPYTERHUB_API_TOKEN": "x",
        "JUPYTERHUB_CLIENT_ID": "service-portal",
        "JUPYTERHUB_SERVICE_NAME": "portal",
    }
    with started_alone(log=log, **variables) as url:
        answer = asked_with("some-token", f"{url}{ENVIRONMENTS}?token=some-token")
    assert answer.status_code == 503
    assert error_of(answer) == {
        "code": "hub_unavailable",
        "message": "The Hub does not answer. Try again in a moment.",
    }
    assert "some-token" not in log.read_text()


def run_by_hand(
    *arguments: str, before: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the service; ``before`` is Python that the process executes first."""
    program = f"from portal.__main__ import main\n{before}\nmain()"
    return subprocess.run(
        [sys.executable, "-c", program, "service", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_started_by_hand_it_says_who_starts_it() -> None:
    done = run_by_hand()
    assert done.returncode == 1
    assert "The Hub starts this service" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_ends_when_the_hub_went_while_it_began() -> None:
    """Nobody would send a signal for that any more, and it would hold the port for ever."""
    done = run_by_hand(
        JUPYTERHUB_SERVICE_URL="http://127.0.0.1:9",
        JUPYTERHUB_API_TOKEN="x",
        JUPYTERHUB_CLIENT_ID="service-portal",
        PORTAL_HUB_PID="999999999",
    )
    assert done.returncode == 1
    assert "The Hub that started this service has ended." in done.stderr


def test_a_configuration_file_that_is_missing_is_named(tmp_path: Path) -> None:
    done = run_by_hand(f"--config={tmp_path}/none.py")
    assert done.returncode == 1
    assert f"{tmp_path}/none.py does not exist" in done.stderr


def test_a_configuration_file_that_fails_is_told_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "config.py"
    file.write_text("import os\nos.environ['MY_SECRET']\n")
    done = run_by_hand(f"--config={file}")
    assert done.returncode == 1
    assert "KeyError: 'MY_SECRET'" in done.stderr
    assert "20-service.py" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_by_hand(
            before="from portal.app.service import PortalService as s; s.bind_patience = 0",
            JUPYTERHUB_SERVICE_URL=f"http://127.0.0.1:{port}",
            JUPYTERHUB_API_TOKEN="x",
            JUPYTERHUB_CLIENT_ID="service-portal",
        )
    assert done.returncode == 1
    assert f"Cannot listen on 127.0.0.1:{port}" in done.stderr
