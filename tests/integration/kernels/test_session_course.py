"""What a course's session tells the portal, and what its owner's page asks it for."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from portal_session.course import course as course_module
from portal_session.course.course import CALM, LONGEST, Presence
from portal_session.service import ServiceError
from session_server import wait_for
from test_session_guests import PREFIX, Around, around, nobody_is_in  # noqa: F401  fixtures

from portal.courses.live.presence import PresenceReport

BASE = "/user/ada/course-dl/"


class Server:
    """jupyter_server as far as it is looked at, with a clock of the test; and the service."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.active_at = self.now
        self.notebooks: list[str] = []
        self.asked: list[dict[str, Any]] = []
        self.away = False
        self.settings: dict[str, Any] = {"base_url": BASE, "log_function": lambda _: None}
        self.web_app = SimpleNamespace(settings=self.settings, last_activity=self.last_activity)
        self.session_manager = self
        app: Any = self
        service: Any = self
        self.presence = Presence(app, service, "ada", clock=lambda: self.now)
        self.presence._note_pages(self.settings)

    def last_activity(self) -> datetime:
        return datetime.now(UTC) - timedelta(seconds=self.now - self.active_at)

    async def list_sessions(self) -> list[dict[str, Any]]:
        console = {"type": "console", "path": "console-1"}
        return [console, *({"type": "notebook", "path": path} for path in self.notebooks)]

    def ask(self, method: str, path: str, body: Any) -> dict[str, Any]:
        assert (method, path) == ("PUT", "session/presence")
        if self.away:
            raise ServiceError("The portal cannot be reached.", 503)
        PresenceReport.model_validate(body)  # whatever is said, the service takes it
        self.asked.append(body)
        return {}

    def page(
        self,
        path: str = "lab",
        user: str | None = "ada",
        status: int = 200,
        method: str = "GET",
        **headers: str,
    ) -> None:
        request = SimpleNamespace(method=method, path=BASE + path, headers=headers)
        who = None if user is None else SimpleNamespace(username=user)
        handler = SimpleNamespace(
            request=request, _jupyter_current_user=who, get_status=lambda: status
        )
        self.settings["log_function"](handler)

    async def report_news(self, seconds: float = 0.0) -> dict[str, Any] | None:
        """What is told ``seconds`` later; None for nothing."""
        self.now += seconds
        before = len(self.asked)
        await self.presence.report_news()
        return self.asked[-1] if len(self.asked) > before else None


async def test_it_tells_what_is_new_and_each_minute() -> None:
    server = Server()
    first = await server.report_news()
    assert first is not None and first["opened"] is None and first["notebooks"] == []
    assert await server.report_news(5) is None
    server.notebooks = ["b.ipynb", "a.ipynb", "a.ipynb"]
    second = await server.report_news(5)
    assert second is not None and second["notebooks"] == ["a.ipynb", "b.ipynb"]
    # Who types is told of now and then.
    server.active_at = server.now
    assert await server.report_news(CALM / 2) is None
    told = await server.report_news(CALM / 2)
    assert told is not None and told["activity"] == pytest.approx(CALM, abs=1)
    assert await server.report_news(CALM) is None
    assert await server.report_news(LONGEST - CALM) is not None


@pytest.mark.parametrize("path", ["lab", "lab/tree/a/b.ipynb", "lab/workspaces/x", "tree", "doc"])
async def test_it_is_opened_when_its_owners_browser_loads_a_page(path: str) -> None:
    server = Server()
    server.page(path)
    server.now += 7
    told = await server.report_news()
    assert told is not None and told["opened"] == 7.0
    server.page(path)
    told = await server.report_news(LONGEST)
    assert told is not None and told["opened"] == 7.0 + LONGEST, "the first time counts"


@pytest.mark.parametrize(
    "page",
    [
        {"user": None}, {"user": "barbara"}, {"path": "api"}, {"path": "api/status"},
        {"path": "lab/api/settings"}, {"path": "lab/extensions/x.js"}, {"status": 302},
        {"status": 500}, {"method": "HEAD"}, {"Authorization": "token x"},
        {"path": "static/lab/x.js"},
    ],
)  # fmt: skip
async def test_it_is_not_opened_by_probes_programs_and_others(page: dict[str, Any]) -> None:
    server = Server()
    server.page(**page)
    told = await server.report_news()
    assert told is not None and told["opened"] is None


async def test_what_could_not_be_told_is_told_later() -> None:
    server = Server()
    server.away = True
    with pytest.raises(ServiceError):
        await server.report_news()
    server.away = False
    assert await server.report_news(1) is not None


async def test_an_opened_page_wakes_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(course_module, "PERIOD", 600.0)
    server = Server()
    task = asyncio.ensure_future(server.presence.run())

    async def told(number: int) -> None:
        while len(server.asked) < number:
            await asyncio.sleep(0.01)

    await asyncio.wait_for(told(1), 60)
    server.page()
    await asyncio.wait_for(told(2), 60)
    task.cancel()


# -- the page's own ------------------------------------------------------------------------------


def post(around: Around, path: str, body: Any, method: str = "POST") -> int:  # noqa: F811
    url = f"http://127.0.0.1:{around.port}{PREFIX}portal/{path}"
    headers = {"Authorization": "token token-of-ada"}
    return httpx.request(method, url, headers=headers, json=body, timeout=30).status_code


def test_a_real_server_tells_of_itself(around: Around) -> None:  # noqa: F811
    wait_for(lambda: around.answers("PUT", "session/presence"))
    assert around.answers("PUT", "session/presence")[0]["opened"] is None


def test_the_page_raises_a_hand_and_answers(around: Around) -> None:  # noqa: F811
    assert post(around, "hand", {"text": "Cell 3"}) == 200
    assert around.answers("PUT", "session/hand")[-1] == {"text": "Cell 3"}
    assert post(around, "hand", None, "DELETE") == 200
    assert around.answers("DELETE", "session/hand")
    for answer in ("agree", "refuse", "end"):
        assert post(around, "help", {"id": 7, "answer": answer}) == 200
        assert around.answers("POST", "session/help/7")[-1] == {"answer": answer}
    before = len(around.asked)
    for wrong in (
        {}, {"id": "7", "answer": "agree"}, {"id": True, "answer": "agree"},
        {"id": 7, "answer": "x"}, {"id": -1, "answer": "end"}, {"id": 7.5, "answer": "end"}, [],
    ):  # fmt: skip
        assert post(around, "help", wrong) == 400, wrong
    assert post(around, "hand", {"text": 3}) == 400
    said = [one for one in around.asked[before:] if "help" in one[1] or "hand" in one[1]]
    assert said == []
