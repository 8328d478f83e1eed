"""The client of the Hub's API: what it sends, and what becomes of each answer. The Hub here is a
small one that answers as it is told; the real one is in tests/hub/site/test_actions.py."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from certipy import Certipy
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from portal import errors
from portal.errors import InvalidRequest, NotAllowed, NotFound, Unavailable
from portal.hubapi import HubApi, header_of

RUNNING = (200, {"ready": True, "pending": None})


class TheHub(RequestHandler):
    """Answers by method as ``answers`` says, and remembers what was asked."""

    async def answer(self) -> None:
        asked, answers = self.settings["asked"], self.settings["answers"]
        asked.append((self.request.method, self.request.uri, dict(self.request.headers)))
        code, body = answers[self.request.method]
        if code is None:
            await asyncio.sleep(30)
        self.set_status(*(code if isinstance(code, tuple) else (code,)))
        for name, value in self.settings["more"].items():
            self.set_header(name, value)
        self.finish(body or None)

    get = delete = post = put = patch = answer


class SmallHub:
    """``asked`` has (method, path, headers) of each request."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[Any] = []
        self.answers: dict[str, Any] = {"GET": RUNNING, "DELETE": (204, "")}
        self.headers: dict[str, str] = {}  # of its answers
        app = Application(
            [(r"/.*", TheHub)], asked=self.asked, answers=self.answers, more=self.headers
        )
        (sock,) = bind_sockets(0, "127.0.0.1")
        self.server = HTTPServer(app, ssl_options=tls)
        self.server.add_sockets([sock])
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{sock.getsockname()[1]}/hub/api"

    async def stop(self) -> None:
        self.server.stop()
        await self.server.close_all_connections()

    def api(self, **settings: Any) -> HubApi:
        return HubApi(api_url=self.url, api_token="secret", **settings)


@pytest.fixture
async def hub() -> AsyncIterator[SmallHub]:
    one = SmallHub()
    yield one
    await one.stop()


@pytest.mark.parametrize(
    ("server", "path"),
    [
        (("ada", ""), "ada/server"),
        (("ada", "big"), "ada/servers/big"),
        (("a/../b?x", "s/#1"), "a%2F..%2Fb%3Fx/servers/s%2F%231"),
        (("jürgen", ""), "j%C3%BCrgen/server"),
    ],
)
async def test_a_stop_asks_for_exactly_this_server(
    hub: SmallHub, server: tuple[str, str], path: str
) -> None:
    for answer in ((204, ""), (202, "")):
        hub.answers["DELETE"] = answer
        await hub.api().stop_server(*server, on_behalf_of="grace")
    assert [asked[:2] for asked in hub.asked] == [
        (method, f"/hub/api/users/{path}") for method in ("GET", "DELETE") * 2
    ]
    headers = hub.asked[1][2]
    assert headers["X-Portal-For"] == "grace"
    assert headers["Authorization"] == "token secret"


@pytest.mark.parametrize("name", ["grace\r\nX-Evil: 1", "jürgen", "a b", "x\0"])
def test_a_name_cannot_become_a_header(name: str) -> None:
    made = header_of(name)
    assert made.isascii()
    assert not set(made) & set("\r\n\0 :")
    assert header_of("grace.hopper-1@x.org") == "grace.hopper-1@x.org"


@pytest.mark.parametrize(
    ("method", "answer", "error", "words"),
    [
        ("GET", (404, {"status": 404, "message": "x"}), errors.NotFound, "no such server"),
        ("GET", (200, {"ready": False, "pending": None}), errors.NotFound, "No such server"),
        ("GET", (403, {"message": "x"}), errors.ConfigurationError, "'read:servers'"),
        ("DELETE", (403, {"message": "x"}), errors.ConfigurationError, "'delete:servers'"),
        ("DELETE", (404, "<html>"), errors.NotFound, "no such server"),
        ("DELETE", (400, {"message": "being\nrenamed"}), errors.Conflict, "being renamed"),
        ("DELETE", (500, "<html>"), errors.Unavailable, "could not do this: Internal Server Error"),
        ("DELETE", (503, {"message": "Slurm is away."}), errors.Unavailable, "Slurm is away"),
        ("DELETE", (502, ""), errors.HubUnavailable, "Try again"),
    ],
)
async def test_answers_in_words(
    hub: SmallHub, method: str, answer: Any, error: type[Exception], words: str
) -> None:
    hub.answers[method] = answer
    with pytest.raises(error, match=words):
        await hub.api().stop_server("ada", "", on_behalf_of="grace")


@pytest.mark.parametrize(
    "words", ["auth has expired for ada, login again", "'ada' is no longer allowed to use this"]
)
async def test_a_user_who_may_no_longer_log_in_is_no_fault_of_the_service(
    hub: SmallHub, words: str
) -> None:
    hub.answers["POST"] = (403, {"message": words})
    with pytest.raises(errors.NotAllowed, match="may no longer use the portal, or must sign in"):
        await hub.api().begin_server("ada", "run-5e2f3c1a", {})


async def test_a_server_that_still_starts_can_be_stopped(hub: SmallHub) -> None:
    hub.answers["GET"] = (200, {"ready": False, "pending": "spawn"})
    await hub.api().stop_server("ada", "", on_behalf_of="ada")
    assert hub.asked[-1][0] == "DELETE"


async def test_no_answer(hub: SmallHub) -> None:
    hub.answers["GET"] = (None, "")
    with pytest.raises(errors.HubUnavailable):
        await hub.api(timeout=0.2).stop_server("ada", "", on_behalf_of="grace")
    await hub.stop()
    with pytest.raises(errors.HubUnavailable):
        await hub.api(timeout=2).stop_server("ada", "", on_behalf_of="grace")


async def test_internal_ssl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Hub wants a certificate of its own authority, and the client wants the Hub's."""
    made = Certipy(store_dir=str(tmp_path))
    made.create_ca("hub-ca")
    names = ["IP:127.0.0.1"]
    server = made.create_signed_pair("hub", "hub-ca", alt_names=names)
    client = made.create_signed_pair("service", "hub-ca", alt_names=names)
    authority = made.store.get_record("hub-ca")["files"]["cert"]
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(server["files"]["cert"], server["files"]["key"])
    hub = SmallHub(tls)
    try:
        # No certificate, and no reason to trust this Hub.
        with pytest.raises(errors.HubUnavailable):
            await hub.api().stop_server("ada", "", on_behalf_of="grace")
        monkeypatch.setenv("JUPYTERHUB_SSL_KEYFILE", str(client["files"]["key"]))
        monkeypatch.setenv("JUPYTERHUB_SSL_CERTFILE", str(client["files"]["cert"]))
        monkeypatch.setenv("JUPYTERHUB_SSL_CLIENT_CA", str(authority))
        await hub.api().stop_server("ada", "", on_behalf_of="grace")
        assert hub.asked[-1][0] == "DELETE"
    finally:
        await hub.stop()


def test_address_and_token_are_the_ones_that_the_hub_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JUPYTERHUB_API_URL", "http://127.0.0.1:1/hub/api")
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "t")
    assert (HubApi().api_url, HubApi().api_token) == ("http://127.0.0.1:1/hub/api", "t")


async def test_a_start_sends_the_options(hub: SmallHub) -> None:
    hub.answers |= {"POST": (202, ""), "GET": (404, "")}
    await hub.api().start_server("a/da", "tensorboard", {"environment": "lab"})
    _, (method, path, headers) = hub.asked
    assert (method, path) == ("POST", "/hub/api/users/a%2Fda/servers/tensorboard")
    assert headers["Authorization"] == "token secret"


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "invalid_request", errors.InvalidRequest),
        (403, "not_allowed", errors.NotAllowed),
        (503, "slurm_unavailable", errors.SlurmUnavailable),
        (400, "ada:tensorboard is already running", errors.Conflict),
        (403, "Action is not authorized", errors.ConfigurationError),
    ],
)
async def test_a_launch_is_refused_in_its_own_words(
    hub: SmallHub, code: int, reason: str, kind: type[Exception]
) -> None:
    hub.answers["GET"] = (200, {"ready": False, "pending": None})
    hub.answers["POST"] = ((code, reason), {"status": code, "message": "Why it is not possible."})
    with pytest.raises(kind) as caught:
        await hub.api().start_server("ada", "tensorboard", {})
    if kind not in (errors.Conflict, errors.ConfigurationError):
        assert str(caught.value) == "Why it is not possible."


async def test_what_runs_is_not_started_again(hub: SmallHub) -> None:
    for model in ({"ready": True}, {"ready": False, "pending": "stop"}):
        hub.answers["GET"] = (200, model)
        with pytest.raises(errors.Conflict, match="It is already running"):
            await hub.api().start_server("ada", "tensorboard", {})
    assert {method for method, _, _ in hub.asked} == {"GET"}


@pytest.mark.parametrize(
    ("status", "model", "state"),
    [
        (200, {"ready": False, "pending": "spawn"}, "starting"),
        (200, {"ready": False, "pending": "stop"}, "stopping"),
        (200, {"ready": True, "pending": "check"}, "ready"),
        (200, {"ready": True, "pending": None}, "ready"),
        (200, {"ready": False, "pending": None, "stopped": True}, ""),
        (404, {"message": "no such server"}, ""),
    ],
)
async def test_the_state_of_a_server(
    hub: SmallHub, status: int, model: dict[str, Any], state: str
) -> None:
    hub.answers["GET"] = (status, model)
    assert await hub.api().server_state("ada", "kernel-12345678") == state
    ((method, path, _),) = hub.asked
    assert (method, path) == ("GET", "/hub/api/users/ada/servers/kernel-12345678")


async def test_a_user_is_let_in_without_a_question(hub: SmallHub) -> None:
    hub.answers["PUT"] = (200, {"url": "http://ada.localhost/user/ada/"})
    assert await hub.api().admit("ada", "", "b@x/y") == "http://ada.localhost/user/ada/"
    assert await hub.api().admit("ada", "lab", "grace")
    path = "/hub/api/portal/entries"
    assert [(method, where) for method, where, _ in hub.asked] == [
        ("PUT", f"{path}/b%40x%2Fy/ada/"), ("PUT", f"{path}/grace/ada/lab"),
    ]  # fmt: skip


async def test_a_session_is_asked_for_the_form_of_a_run(hub: SmallHub) -> None:
    hub.answers["GET"] = (200, {"status": 200, "content": {"name": "train"}})
    form = hub.api().ask_run_form
    assert await form("a@x/y", "", "source", {"path": "a b.py"}) == {"name": "train"}
    hub.answers["POST"] = (200, {"status": 200, "content": {"points": 2}})
    assert await form("ada", "lab", "points", {}, {"source": "a.py"}) == {"points": 2}
    path = "/hub/api/portal/run-form"
    assert [(method, where) for method, where, _ in hub.asked] == [
        ("GET", f"{path}/source/a%40x%2Fy/?path=a+b.py"), ("POST", f"{path}/points/ada/lab"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, InvalidRequest), (403, NotAllowed), (404, NotFound), (500, Unavailable), (0, None)],
)
async def test_what_a_session_refuses_has_its_sentence_and_field(
    hub: SmallHub, status: int, kind: type[Exception] | None
) -> None:
    content = {"message": "'lr' is a number.", "field": "values:lr"}
    hub.answers["GET"] = (200, {"status": status, "content": content if status else []})
    if kind is None:
        assert await hub.api().ask_run_form("ada", "", "choices", {}) == {}
        return
    with pytest.raises(kind, match=r"'lr' is a number\.") as refused:
        await hub.api().ask_run_form("ada", "", "choices", {})
    assert refused.value.field == "values:lr"  # type: ignore[attr-defined]


async def test_shares_of_a_course(hub: SmallHub) -> None:
    url = "http://ada.localhost/user/ada/course-deep/"
    hub.answers["PUT"] = (200, {"url": url})
    hub.answers["GET"] = (
        200,
        {"shares": [{"user": "ada", "server": "course-deep", "person": "b@x/y"}]},
    )
    api = hub.api()
    assert await api.share("ada", "course-deep", "b@x/y") == url
    await api.unshare("ada", "course-deep", "b@x/y")
    assert await api.shares() == [("ada", "course-deep", "b@x/y")]
    path = "/hub/api/portal/guests"
    assert [(method, where) for method, where, _ in hub.asked] == [
        ("PUT", f"{path}/ada/course-deep/b%40x%2Fy"),
        ("DELETE", f"{path}/ada/course-deep/b%40x%2Fy"),
        ("GET", path),
    ]
    hub.answers["PUT"] = ((403, "not_allowed"), {"message": "'b' is not allowed to help 'ada'."})
    with pytest.raises(errors.NotAllowed, match="is not allowed to help"):
        await api.share("ada", "course-deep", "b")
    hub.answers["DELETE"] = ((404, "not_found"), {"message": "There is no such session."})
    with pytest.raises(errors.NotFound):
        await api.unshare("ada", "course-deep", "b")


async def test_one_of_a_class_is_asked_for_at_once_and_the_answer_comes_early(
    hub: SmallHub,
) -> None:
    hub.answers["POST"] = (202, "")
    await hub.api().begin_server("ada", "course-deep", {"course": "deep"})
    ((method, path, headers),) = hub.asked
    assert (method, path) == ("POST", "/hub/api/users/ada/servers/course-deep")
    assert headers["X-Portal-Prompt"] == "1"


@pytest.mark.parametrize(
    ("status", "header", "seconds"),
    [
        (429, "40", 40.0),
        (503, "7", 7.0),
        (429, "", None),
        (429, "Mon, 18 Jan 2027 09:00:00 GMT", None),
        (429, "99999999", 600.0),
        (429, "-5", None),
    ],
)
async def test_the_hub_says_when_to_come_again(
    hub: SmallHub, status: int, header: str, seconds: float | None
) -> None:
    hub.answers["POST"] = (status, {"message": "Too many users trying to log in right now."})
    if header:
        hub.headers["Retry-After"] = header
    with pytest.raises(errors.PortalError) as caught:
        await hub.api().begin_server("ada", "course-deep", {})
    assert isinstance(caught.value, errors.TooManyRequests if status == 429 else errors.Unavailable)
    assert caught.value.details.get("retry_after") == seconds


async def test_a_refused_launch_has_its_field(hub: SmallHub) -> None:
    hub.answers["POST"] = (403, {"message": "You cannot use the account 'x'."})
    hub.headers["X-Portal-Field"] = "account"
    with pytest.raises(errors.PortalError) as caught:
        await hub.api().begin_server("ada", "", {})
    assert caught.value.field == "account"


async def test_a_class_is_one_question(hub: SmallHub) -> None:
    hub.answers["POST"] = (200, {"servers": {"ada": "ready", "bob": ""}})
    assert await hub.api().servers("course-deep", ["ada", "bob", "eve"]) == {
        "ada": "ready",
        "bob": "",
    }
    hub.answers["POST"] = (200, {"made": ["bob"], "refused": {"eve": "Who?"}})
    assert await hub.api().make_people(["bob", "eve"]) == {"eve": "Who?"}
    assert [path for _, path, _ in hub.asked] == [
        "/hub/api/portal/servers",
        "/hub/api/portal/people",
    ]
    hub.answers["POST"] = (200, "no JSON")
    assert await hub.api().servers("course-deep", ["ada"]) == {}


async def test_the_named_servers_of_a_person(hub: SmallHub) -> None:
    servers = {
        "": {"display_name": ""},
        "big": {"display_name": "Big <b>one</b>", "ready": False},
        "plain": {"display_name": None},
    }
    hub.answers["GET"] = (200, {"name": "ada", "servers": servers})
    assert await hub.api().named_servers("a da") == {"big": "Big <b>one</b>", "plain": "plain"}
    assert hub.asked[-1][1] == "/hub/api/users/a%20da?include_stopped_servers=1"
    hub.answers["GET"] = (404, "")
    with pytest.raises(errors.NotFound):
        await hub.api().named_servers("nobody")


async def test_the_name_of_a_server_is_removed_only_where_it_does_not_run(hub: SmallHub) -> None:
    with pytest.raises(errors.Conflict, match="Stop it"):
        await hub.api().remove_server("ada", "big", on_behalf_of="ada")
    assert [method for method, *_ in hub.asked] == ["GET"]
    hub.answers["GET"] = (200, {"ready": False, "pending": None})
    await hub.api().remove_server("ada", "big", on_behalf_of="ada")
    method, path, headers = hub.asked[-1]
    assert (method, path) == ("DELETE", "/hub/api/users/ada/servers/big")
    assert headers["X-Portal-For"] == "ada"
    assert headers["Content-Length"] == str(len('{"remove": true}'))


@pytest.mark.parametrize(
    ("people", "may"),
    [
        ({"ada": {"may_log_in": True}}, True),
        ({"ada": {"may_log_in": False}}, False),
        ({}, False),
    ],
)
async def test_who_may_log_in(hub: SmallHub, people: Any, may: bool) -> None:
    hub.answers["GET"] = (200, {"people": people})
    assert await hub.api().may_log_in("ada") is may
    assert hub.asked[-1][1].endswith("portal/people?name=ada&login=1")


async def test_users_are_read_and_changed_for_a_user(hub: SmallHub) -> None:
    hub.answers |= {"GET": (200, '{"users": [], "total": 0}'), "PATCH": (200, "{}")}
    api = hub.api()
    assert await api.users({"text": "a&b", "offset": 0}, on_behalf_of="grace") == {
        "users": [],
        "total": 0,
    }
    await api.set_admin("a/b", True, on_behalf_of="grace")
    await api.delete_user("jürgen", on_behalf_of="grace")
    assert [asked[:2] for asked in hub.asked] == [
        ("GET", "/hub/api/portal/users?text=a%26b&offset=0"),
        ("PATCH", "/hub/api/portal/users/a%2Fb"),
        ("DELETE", "/hub/api/portal/users/j%C3%BCrgen"),
    ]
    assert {asked[2]["X-Portal-For"] for asked in hub.asked} == {"grace"}
