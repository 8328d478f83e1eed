"""The pages of courses as the service sends them: who sees which, and what stands in them at once.
In a browser: tests/browser/courses/test_course_pages.py."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import AsyncIterator
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from courses_site import Site, running
from session_records import recorded
from stored_courses import a_course, stored
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application

from portal.courses.definition.calendar import Meeting
from portal.handlers.pages.courses import COURSE_PAGES, meeting_words
from portal.handlers.pages.rendering import Pages
from portal.models.session.session import SessionState
from portal.models.space import Role
from portal.work.course.parts import CourseParts

PREFIX = "/services/portal/"
TODAY = date.today()
NOW_ON = {
    "begins": str(TODAY - timedelta(days=3)),
    "ends": str(TODAY + timedelta(days=60)),
    "description": "How **networks** learn.\n\n<script>window.hacked = 1</script>",
}


@dataclasses.dataclass
class Browser:
    """The pages on loopback, asked for with a token."""

    site: Site
    client: httpx.AsyncClient

    async def see(self, who: str, path: str = "", status: int = 200) -> str:
        """The HTML."""
        answer = await self.client.get(path, headers={"Authorization": f"token {who}"})
        assert answer.status_code == status, answer.text
        return answer.text

    async def text(self, who: str, path: str = "", status: int = 200) -> str:
        """What stands on the page, white space folded."""
        html = await self.see(who, path, status)
        html = re.sub(r"(?s)<(script|style|head).*?</\1>", " ", html)
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def facts(html: str) -> dict[str, Any]:
    """What the page's script is told."""
    found = re.search(r'(?s)id="course-facts">\s*(.*?)</script>', html)
    assert found, html
    return dict(json.loads(found.group(1)))


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[Browser]:
    async with running(tmp_path) as site:
        parts = site.parts
        view = parts.dashboard.view
        assert view is not None
        more = {"jobs": SimpleNamespace(bare={}), "gpus": {}, "simulated": True, "error": ""}
        for name, value in more.items():
            setattr(view, name, value)
        web = Application(
            [(PREFIX + address, page) for address, page in COURSE_PAGES],
            parts=parts,
            log=parts.log,
            pages=Pages(prefix=PREFIX, hub_prefix="/hub/"),
            log_function=lambda _: None,
            cookie_secret="x" * 32,
        )
        listening, port = bind_unused_port()
        server = HTTPServer(web)
        server.add_socket(listening)
        url = f"http://127.0.0.1:{port}{PREFIX}courses/"
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as client:
            yield Browser(site, client)
        server.stop()


@pytest.fixture
async def deep(browser: Browser) -> Browser:
    """With the course "deep" of barbara, which runs today."""
    await browser.site.approved(**NOW_ON)
    await browser.site.put("deep", ada=Role.ASSISTANT, student01=Role.STUDENT)
    return browser


async def test_everyone_finds_their_courses_by_what_they_are(deep: Browser) -> None:
    teacher, student = await deep.text("barbara"), await deep.text("student01")
    assert "Deep Learning" in teacher
    assert "your role: instructor" in teacher
    assert "Live board of Deep Learning" in teacher
    assert "New course" in teacher
    assert "next meeting" in teacher
    assert "your role: student" in student
    assert "Live board" not in student
    assert "New course" not in student
    assert "You are not in any course" in await deep.text("eve")


async def test_a_student_sees_no_draft(browser: Browser) -> None:
    await browser.site.make(**NOW_ON)
    await browser.site.put("deep", student01=Role.STUDENT)
    assert "Deep Learning" not in await browser.text("student01")
    assert "Deep Learning" in await browser.text("barbara")


async def test_admins_have_requests_to_answer_and_all_other_courses(browser: Browser) -> None:
    made = await browser.site.make(**NOW_ON)
    assert "All other courses" in await browser.text("grace")
    assert "No course is waiting for approval." in await browser.text("grace")
    number = {"number": made["number"]}
    await browser.site.done("barbara", "POST", "courses/deep/submit", number)
    html = await browser.see("grace")
    assert 'data-course="deep"' in html
    assert 'data-answer="approve"' in html
    assert 'data-answer="approve"' not in await browser.see("barbara")


async def test_the_menu_leads_there_who_has_to_do_with_courses(deep: Browser) -> None:
    way = f'href="{PREFIX}courses"'
    for who in ("barbara", "ada", "student01", "grace"):
        assert way in await deep.see(who)
    assert way not in await deep.see("eve", "deep", 403)


async def test_a_student_has_one_button_and_no_word_of_others(deep: Browser) -> None:
    html = await deep.see("student01", "deep")
    assert re.findall(r'id="open" href="([^"]+)"', html) == [
        "/hub/spawn-pending/student01/course-deep"
    ]
    text = await deep.text("student01", "deep")
    assert "Open your session" in text
    assert "Times are in Europe/Berlin" in text
    assert "How networks learn." in text
    assert "ada" not in text
    assert "<script>window" not in html


async def test_a_student_is_told_how_their_own_session_is(deep: Browser) -> None:
    record = recorded(
        id="S1", user="student01", server="course-deep", space="deep", job_id="5",
        state=SessionState.RUNNING, submitted_at=time.time(),
    )  # fmt: skip
    deep.site.parts.dashboard.view.sessions["5"] = record  # type: ignore[union-attr, index]
    text = await deep.text("student01", "deep")
    assert "Return to your session" in text
    assert "Your session is running." in text


@pytest.mark.parametrize("role", ["barbara", "ada"])
async def test_who_runs_it_previews_it_as_a_student(deep: Browser, role: str) -> None:
    html = await deep.see(role, "deep?as=student")
    assert f"/hub/spawn-pending/{role}/preview-deep" in html
    assert "This is what students see." in html


async def test_an_admin_sees_the_students_page_and_has_no_session(deep: Browser) -> None:
    html = await deep.see("grace", "deep?as=student")
    assert "This is what students see." in html
    assert 'id="open"' not in html


async def test_a_course_that_is_over_has_no_button(deep: Browser) -> None:
    saved = await deep.site.parts.memberships.space("deep", fresh=True)
    ended = saved.course.model_copy(update={"ends": TODAY - timedelta(days=1)})
    await deep.site.parts.store.courses.save(saved.model_copy(update={"course": ended}))
    deep.site.parts.memberships.forget()
    text = await deep.text("student01", "deep")
    assert "This course has ended." in text
    assert "Open your session" not in text


async def test_staff_see_how_it_stands_and_assistants_change_nothing(deep: Browser) -> None:
    tabs = ("deep", "deep/roster", "deep/settings")
    teacher = "".join([await deep.see("barbara", tab) for tab in tabs])
    helper = "".join([await deep.see("ada", tab) for tab in tabs])
    assert facts(teacher)["changes"] is True
    assert facts(teacher)["course"]["course"]["name"] == "deep"
    assert facts(teacher)["editing"]["environments"] == [{"name": "lab", "title": "Lab"}]
    assert 'id="save"' in teacher
    assert 'id="roster"' in teacher
    assert facts(helper)["changes"] is False
    assert 'id="save"' not in helper
    assert 'id="roster"' not in helper
    assert "/images/lab.sif" not in teacher  # the paths of the site stay the service's


@pytest.mark.parametrize("tab", ["", "roster", "schedule", "files", "board", "settings"])
async def test_each_tab_has_an_address_for_the_staff_alone(deep: Browser, tab: str) -> None:
    address = f"deep/{tab}".rstrip("/")
    for who in ("barbara", "ada", "grace"):
        html = await deep.see(who, address)
        current = re.findall(r'<a href="([^"]+)" aria-current="page">', html)
        assert f"{PREFIX}courses/{address}" in current
    if tab:
        await deep.see("student01", address, 403)
    await deep.see("eve", address, 403)


async def test_a_new_course_is_for_those_who_may(browser: Browser) -> None:
    assert facts(await browser.see("barbara", "new"))["editing"]["creation"] == "request"
    assert "Ask an admin" in await browser.text("eve", "new", 403)
    browser.site.parts.parts_for(CourseParts).settings.creation = "off"
    assert "not allowed to create courses" in await browser.text("barbara", "new", 403)
    await browser.see("grace", "new")


async def test_the_board_has_everyone_at_once(deep: Browser) -> None:
    html = await deep.see("ada", "deep/board")
    assert 'data-person="student01"' in html
    told = facts(html)
    assert [tile["person"] for tile in told["board"]["tiles"]] == ["student01"]
    assert told["role"] == "assistant"
    admin = facts(await deep.see("grace", "deep/board"))
    assert admin["role"] == ""


@pytest.mark.parametrize("path", ["deep", "deep/board", "nowhere", "nowhere/board"])
@pytest.mark.parametrize("who", ["eve", "ian"])
async def test_others_see_the_same_whether_it_is_there_or_not(
    deep: Browser, who: str, path: str
) -> None:
    name = path.split("/")[0]
    assert f"There is no course &#39;{name}&#39; that you can access." in await deep.see(
        who, path, 403
    )
    line = (who, "denied", f"course {name}", "refused")
    assert line in await deep.site.audit()


async def test_a_student_has_no_board(deep: Browser) -> None:
    await deep.see("student01", "deep/board", 403)
    assert ("student01", "denied", "course deep", "refused") in await deep.site.audit()


async def test_an_admin_hears_that_there_is_none(deep: Browser) -> None:
    assert "There is no course" in await deep.text("grace", "nowhere", 404)


async def test_addresses_that_are_none(deep: Browser) -> None:
    for path in ("Deep", "de.ep", "deep/other"):
        answer = await deep.client.get(path, headers={"Authorization": "token grace"})
        assert answer.status_code == 404


def test_meetings_in_words() -> None:
    days = {"begins": "2030-10-07", "ends": "2031-02-07"}
    saved = stored(a_course("x", timezone="Europe/Berlin", **days))
    nine = 1917586800.0  # Mon 7 Oct 2030, 09:00 in Berlin (07:00 UTC)
    meeting = Meeting(nine, nine + 5400)
    day = 86400.0
    assert meeting_words(saved, meeting, nine - 3600).startswith("today, ")
    assert meeting_words(saved, meeting, nine - day).startswith("tomorrow, ")
    assert meeting_words(saved, meeting, nine - 5 * day).startswith("Mon 7 Oct, 09:00")
    assert meeting_words(saved, meeting, nine - 300 * day).startswith("Mon 7 Oct 2030, 09:00")
    assert meeting_words(saved, meeting, nine + 60) == "now, until 10:30"
