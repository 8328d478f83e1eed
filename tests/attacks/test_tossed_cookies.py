"""Setting cookies for the Hub from a page below its host: others' logins, tokens, bombs."""

from __future__ import annotations

import re
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import _xsrf_utils
from jupyterhub.handlers.base import BaseHandler
from jupyterhub.services.auth import HubOAuth
from portal_session import tossed as session_tossed
from served import Served, served
from tornado.httputil import HTTPHeaders
from tornado.web import Application, RequestHandler
from traitlets.config.loader import PyFileConfigLoader

from portal.paths import data_path
from portal.web import cookies, tossed
from portal.web.application import BoundedApplication
from spawners.hub_patches import session_cookie

HOST = "portal.example.org"


# -- a bomb: more cookies than anybody reads -----------------------------------------------------


class _Home(RequestHandler):
    def get(self) -> None:
        self.finish("home")

    post = get


@pytest.fixture
async def hub() -> AsyncIterator[Served]:
    async with served(BoundedApplication([(".*", _Home)], max_body=1024)) as running:
        yield running


def _bomb(number: int, size: int, name: str = "x") -> str:
    return "; ".join(f"{name}{at}={'a' * size}" for at in range(number))


def _names(lines: list[str]) -> set[str]:
    return {line.partition("=")[0] for line in lines}


@pytest.mark.parametrize("number", [5, 15, 60, 180])
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["/hub/", "/hub/home", "/hub/api/users/ada", "/services/portal/"])
async def test_a_bomb_is_named_and_deleted(
    hub: Served, number: int, method: str, path: str
) -> None:
    answer = await hub.ask(method, path, HOST, [("Cookie", _bomb(number, 4000))])
    assert answer.status == 431
    assert "KB of cookies" in answer.text and "Reload this page" in answer.text
    lines = answer.headers["set-cookie"]
    assert lines and all("Max-Age=0" in line for line in lines)
    assert sum(map(len, lines)) <= 32 * 1024
    name = lines[0].partition("=")[0]
    for domain in ("; Domain=portal.example.org", "; Domain=example.org", ""):
        for prefix in ("/", f"/{path.split('/')[1]}/"):
            assert f"{name}=x; Max-Age=0; Path={prefix}{domain}" in lines


async def test_a_browser_is_in_again_after_some_visits(hub: Served) -> None:
    jar = {f"x{at}": "a" * 4000 for at in range(180)} | {"__Host-jupyterhub-hub-login": "b" * 200}
    for _ in range(12):
        header = "; ".join(f"{name}={value}" for name, value in jar.items())
        answer = await hub.ask("GET", "/hub/home", HOST, [("Cookie", header)])
        if answer.status == 200:
            break
        for name in _names(answer.headers["set-cookie"]):
            jar.pop(name, None)
    assert answer.text == "home"
    assert "__Host-jupyterhub-hub-login" in jar, "the login is small, and stays"


@pytest.mark.parametrize(
    ("header", "line"),
    [
        (f"{'n' * 200}={'a' * 17000}", f"{'n' * 200}=x; Max-Age=0; Path=/; Domain={HOST}"),
        ("a" * 17000, f"=x; Max-Age=0; Path=/; Domain={HOST}"),
        (f"={'a' * 17000}", f"=x; Max-Age=0; Path=/; Domain={HOST}"),
        (f"__Host-x={'a' * 17000}", "__Host-x=x; Max-Age=0; Path=/"),
        (f"ä={'a' * 17000}", f"ä=x; Max-Age=0; Path=/; Domain={HOST}"),
        (f'"q"={"a" * 17000}', f'"q"=x; Max-Age=0; Path=/; Domain={HOST}'),
        (f"$x={'a' * 17000}", f"$x=x; Max-Age=0; Path=/; Domain={HOST}"),
    ],
)
def test_odd_names_are_deleted_too(header: str, line: str) -> None:
    assert line in cookies.forget(HTTPHeaders({"Cookie": header}), HOST, "/hub/home", False)


@pytest.mark.parametrize("name", ["a b", "a\tb", "a\x7fb", "x" * 300, "a,b"])
def test_a_name_that_no_header_can_have_is_left(name: str) -> None:
    header = f"{name}={'a' * 17000}"
    assert cookies.forget(HTTPHeaders({"Cookie": header}), HOST, "/", False) == []


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "", "a;b", "a b", "x" * 300 + ",", "ada.evil\x7f", "10.0.0.5"]
)
def test_a_host_that_is_no_domain_is_none(host: str) -> None:
    lines = cookies.forget(HTTPHeaders({"Cookie": _bomb(5, 4000)}), host, "/hub/", False)
    assert lines and not any("Domain" in line for line in lines)


@pytest.mark.parametrize(
    "path", ["/hub/a;Domain=evil.test", "/hub/ä", "/hub/ b", "*", "", "http://x/", "/" * 1500]
)
def test_a_path_cannot_write_into_the_answer(path: str) -> None:
    lines = cookies.forget(HTTPHeaders({"Cookie": _bomb(5, 4000)}), HOST, path, False)
    assert {re.sub(r".*Path=([^;]*).*", r"\1", line) for line in lines} == {"/"}


def test_over_https_they_are_deleted_as_secure() -> None:
    lines = cookies.forget(HTTPHeaders({"Cookie": "__Secure-x=" + "a" * 17000}), HOST, "/", True)
    assert lines and all(line.endswith("; Secure") for line in lines)


async def test_what_browsers_have_every_day_is_read(hub: Served) -> None:
    answer = await hub.ask("GET", "/hub/", HOST, [("Cookie", _bomb(4, 3900))])
    assert (answer.status, answer.text) == (200, "home")


async def test_several_headers_count_together(hub: Served) -> None:
    headers = [("Cookie", _bomb(3, 4000, name)) for name in "abc"]
    assert (await hub.ask("GET", "/hub/", HOST, headers)).status == 431


async def test_no_bomb_is_an_open_door_for_bodies(hub: Served) -> None:
    headers = [("Cookie", _bomb(5, 4000))]
    answer = await hub.ask("POST", "/hub/", HOST, headers, body=b"a" * 100_000, chunk=1000)
    assert answer.status == 431


# -- tokens and logins of others -----------------------------------------------------------------


class _Page(RequestHandler):
    """A page of somebody's login, as JupyterHub's are."""

    who = b"session:ada"

    @property
    def _xsrf_token_id(self) -> bytes:
        return self.who

    @property
    def xsrf_token(self) -> bytes:
        return bytes(_xsrf_utils.get_xsrf_token(self, cookie_path="/hub/"))


@pytest.fixture
def as_portal(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "_get_xsrf_token_cookie"
    monkeypatch.setattr(_xsrf_utils, name, getattr(_xsrf_utils, name))
    tossed.protect()


def _page(header: str, **headers: str) -> Any:
    application = Application(cookie_secret="s" * 32)
    request: Any = SimpleNamespace(
        method="POST", path="/hub/api/users", connection=SimpleNamespace(set_close_callback=id),
        headers=HTTPHeaders({"Cookie": header, **headers}), arguments={}, body_arguments={},
        protocol="https", host=HOST, cookies={}, remote_ip="127.0.0.1", query_arguments={},
    )  # fmt: skip
    return _Page(application, request)


def _signed(who: bytes, secret: str = "s" * 32) -> str:
    maker = RequestHandler(
        Application(cookie_secret=secret),
        SimpleNamespace(connection=SimpleNamespace(set_close_callback=id)),  # type: ignore[arg-type]
    )
    return str(_xsrf_utils._create_signed_value_urlsafe(maker, "_xsrf", who).decode())


OWN, MALLORY = _signed(b"session:ada"), _signed(b"session:mallory")
TOSSED = [
    f"_xsrf={MALLORY}; _xsrf={OWN}",
    f"_xsrf={OWN}; _xsrf={MALLORY}",
    f"_xsrf={MALLORY}; _xsrf={MALLORY}; _xsrf={OWN}; a=b",
    f"_xsrf=nonsense; _xsrf={OWN}",
    f'_xsrf="; _xsrf={OWN}',
    f"_xsrf=; _xsrf={OWN}",
    f"_xsrf=%00; _xsrf={OWN}; _xsrf=ä",
    f"_xsrf={_signed(b'session:ada', 'x' * 32)}; _xsrf={OWN}",
    f"_xsrf = {MALLORY}; _xsrf={OWN}",
    f"_XSRF={MALLORY}; _xsrf={OWN}",
    f'_xsrf="{OWN}"; _xsrf={MALLORY}',
]


@pytest.mark.parametrize("header", TOSSED)
def test_the_own_token_counts(as_portal: None, header: str) -> None:
    page = _page(header, **{"X-Xsrftoken": OWN, "Sec-Fetch-Mode": "cors"})
    _xsrf_utils.check_xsrf_cookie(page)


@pytest.mark.parametrize("header", [*TOSSED, f"_xsrf={MALLORY}", "", "_xsrf=x"])
def test_anothers_token_never_does(as_portal: None, header: str) -> None:
    for token in (MALLORY, "x", _signed(b"session:ada", "x" * 32)):
        page = _page(header, **{"X-Xsrftoken": token, "Sec-Fetch-Mode": "cors"})
        with pytest.raises(Exception, match="HTTP 403"):
            _xsrf_utils.check_xsrf_cookie(page)


class _Hub(BaseHandler):
    """A handler of the Hub that notes its cookies."""

    hub = SimpleNamespace(cookie_name="__Host-jupyterhub-hub-login", base_url="/hub/")
    base_url = "/"
    settings = {"subdomain_host": f"https://{HOST}", "domain": HOST}  # type: ignore[assignment]

    def __init__(self, sent: dict[str, str]) -> None:
        self.sent = sent
        self.written: dict[str, Any] = {}

    def get_cookie(self, name: str, default: Any = None) -> Any:
        return self.sent.get(name, default)

    def _set_cookie(self, key: str, value: Any, encrypted: bool = True, **more: Any) -> None:
        self.written[key] = (value, more)


@pytest.fixture
def as_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("get_session_cookie", "set_session_cookie", "clear_login_cookie"):
        monkeypatch.setattr(BaseHandler, name, getattr(BaseHandler, name))
    session_cookie.apply()


def test_a_tossed_session_is_none_of_the_hubs(as_hub: None) -> None:
    plain, own = "jupyterhub-session-id", "__Host-jupyterhub-session-id"
    assert _Hub({plain: "mallory"}).get_session_cookie() is None
    assert _Hub({plain: "mallory", own: "ada"}).get_session_cookie() == "ada"
    handler = _Hub({plain: "mallory"})
    session = handler.set_session_cookie()
    assert session != "mallory" and handler.get_session_cookie() == session
    # Sessions go on reading theirs, at the hosts below; the Hub's own stays at its host.
    assert handler.written == {plain: (session, {"path": "/", "domain": HOST}), own: (session, {})}


def test_without_https_it_is_as_jupyterhub_has_it(
    as_hub: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Hub.hub, "cookie_name", "jupyterhub-hub-login")
    handler = _Hub({"jupyterhub-session-id": "ada"})
    assert handler.get_session_cookie() == "ada"
    handler.set_session_cookie()
    assert list(handler.written) == ["jupyterhub-session-id"]


@pytest.mark.parametrize("prefixed", [True, False])
def test_the_service_believes_the_same(prefixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_xsrf_utils, "_get_xsrf_token_cookie", None)
    monkeypatch.setattr(HubOAuth, "get_session_id", HubOAuth.get_session_id)
    tossed.protect_service()
    sent = {"jupyterhub-session-id": "mallory", "__Host-jupyterhub-session-id": "ada"}
    handler = SimpleNamespace(get_cookie=lambda name, default=None: sent.get(name, default))
    auth = SimpleNamespace(cookie_host_prefix_enabled=prefixed)
    assert HubOAuth.get_session_id(auth, handler) == ("ada" if prefixed else "mallory")


@pytest.mark.parametrize(
    ("settings", "prefixed"),
    [
        ("c.JupyterHub.subdomain_host = 'https://portal.example.org'", True),
        ("c.JupyterHub.subdomain_host = 'portal.example.org'", True),
        ("c.JupyterHub.subdomain_host = 'http://portal.example.org'", False),
        ("", False),
        ("c.JupyterHub.public_url = 'https://portal.example.org'", False),
        (
            "c.JupyterHub.subdomain_host = 'https://portal.example.org'\n"
            "c.JupyterHub.cookie_host_prefix_enabled = False",
            False,
        ),
    ],
)
def test_logins_have_the_prefix_where_it_helps(
    settings: str, prefixed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "90-site.py").write_text(f"c = get_config()\n{textwrap.dedent(settings)}\n")
    monkeypatch.setenv("PORTAL_CONFIG_D", str(tmp_path))
    file = data_path("deploy") / "jupyterhub_config.py"
    config = PyFileConfigLoader(file.name, str(file.parent)).load_config()
    for name in ("JupyterHub", "HubOAuth"):
        assert config[name].get("cookie_host_prefix_enabled", False) is prefixed


# -- the server of a session ---------------------------------------------------------------------


_HUB = f"https://{HOST}"
_PLACES: dict[str, tuple[str, str]] = {
    "own host": (_HUB, f"https://ada.{HOST}/user/ada/"),
    "no host": ("", ""),
    "one host": (_HUB, f"{_HUB}/user/ada/"),  # c.JupyterHub.public_url alone
    "one host, other port": (_HUB, f"https://{HOST}:8443/user/ada/"),
    "unknown": (_HUB, ""),
}


@pytest.fixture(params=_PLACES)
def session(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The check of a session's server, and whether sessions have hosts of their own."""
    name = "_get_xsrf_token_cookie"
    monkeypatch.setattr(_xsrf_utils, name, getattr(_xsrf_utils, name))
    monkeypatch.setattr(HubOAuth, "check_xsrf_cookie", HubOAuth.check_xsrf_cookie)
    hub, own = _PLACES[request.param]
    session_tossed.protect({"JUPYTERHUB_HOST": hub, "JUPYTERHUB_PUBLIC_URL": own})
    auth: Any = SimpleNamespace()
    return SimpleNamespace(
        check=lambda page: HubOAuth.check_xsrf_cookie(auth, page), apart=request.param == "own host"
    )


@pytest.mark.parametrize("header", TOSSED)
@pytest.mark.parametrize("site", ["same-origin", "same-site", "none"])
def test_a_session_believes_the_own_token(session: Any, header: str, site: str) -> None:
    page = _page(header, **{"X-Xsrftoken": OWN, "Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": site})
    session.check(page)


# What JupyterLab sends: the first cookie that it sees, which is the one that was tossed.
SENT = [MALLORY, "nonsense", "", "x" * 3000, _signed(b"session:ada", "x" * 32)]


@pytest.mark.parametrize("header", [*TOSSED, f"_xsrf={MALLORY}", "_xsrf=x", ""])
@pytest.mark.parametrize("token", SENT, ids=range(len(SENT)))
def test_actions_of_the_sessions_own_page_go_on(session: Any, header: str, token: str) -> None:
    own = {"X-Xsrftoken": token, "Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}
    if session.apart:
        session.check(_page(header, **own))
        return
    with pytest.raises(Exception, match="HTTP 403"):  # another's page comes from there, too
        session.check(_page(header, **own))


@pytest.mark.parametrize("header", [*TOSSED, f"_xsrf={MALLORY}", "_xsrf=x", ""])
@pytest.mark.parametrize("token", SENT, ids=range(len(SENT)))
@pytest.mark.parametrize(
    "site",
    [["same-site"], ["cross-site"], ["none"], [], [""], ["Same-Origin"], ["same-origin, x"],
     ["same-origin", "cross-site"], ["cross-site", "same-origin"]],
    ids=str,
)  # fmt: skip
def test_a_page_of_another_session_does_not_act(
    session: Any, header: str, token: str, site: list[str]
) -> None:
    page = _page(header, **{"X-Xsrftoken": token, "Sec-Fetch-Mode": "cors"})
    for value in site:
        page.request.headers.add("Sec-Fetch-Site", value)
    with pytest.raises(Exception, match="HTTP 403"):
        session.check(page)
