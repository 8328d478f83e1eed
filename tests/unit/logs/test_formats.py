"""Lines of the logs: which request they belong to, and that nobody forges one."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from portal_session import json_log

from portal.errors import ConfigurationError
from portal.logs import request
from portal.logs.formats import JSONFormatter, OneLineFormatter, formatter, wants_json
from portal.periodic import Periodic
from spawners.config.log_format import HubFormatter

BAD = "eve\n[I forged\x1b[2J\u2028\u202e"


@pytest.fixture(autouse=True)
def nothing_before() -> Iterator[None]:
    request.leave_request()
    yield
    request.leave_request()


def record(message: str, *args: Any, **more: Any) -> logging.LogRecord:
    return logging.LogRecord("portal", logging.INFO, __file__, 1, message, args, None, **more)


@pytest.mark.parametrize(
    "given",
    [None, "", "short", "a" * 65, "with space", "new\nline-id", "x" * 8 + "\x1b", "\u00e9" * 9],
)
def test_an_id_that_is_not_well_formed_is_replaced(given: str | None) -> None:
    made = request.begin_request(given)
    assert made != given and len(made) == 16 and request.request_id() == made
    assert request.begin_request(given) != made


def test_a_new_request_knows_nothing_of_the_one_before() -> None:
    request.begin_request("a" * 8, "00-" + "1" * 32 + "-" + "2" * 16 + "-01")
    request.note_fields(user="ada", job_id="")
    assert request.fields() == {"request_id": "a" * 8, "user": "ada"}
    assert request.PASSED_ON.get().keys() == {"X-Request-ID", "traceparent"}
    request.begin_request("b" * 64, "00-forged\n")
    assert request.fields() == {"request_id": "b" * 64}
    assert request.PASSED_ON.get() == {"X-Request-ID": "b" * 64}


def test_json_is_one_line_of_ascii_with_what_is_known() -> None:
    request.begin_request("browser-1")
    request.note_fields(user="ada")
    try:
        raise ValueError(BAD)
    except ValueError as error:
        failed = record("%s failed", BAD)
        failed.session, failed.job_id = "s1", "7"
        failed.exc_info = (type(error), error, error.__traceback__)
    line = JSONFormatter().format(failed)
    assert line.isascii() and line.isprintable()
    told = json.loads(line)
    assert told.pop("exception").startswith("Traceback") and told.pop("time").endswith("Z")
    assert told == {
        "level": "INFO",
        "logger": "portal",
        "message": f"{BAD} failed",
        "request_id": "browser-1",
        "user": "ada",
        "session": "s1",
        "job_id": "7",
    }


def test_a_sessions_server_has_the_fields_of_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTAL_REQUEST_ID", "browser-1")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    line = json_log.JSONFormatter().format(record(BAD))
    told = json.loads(line)
    assert line.isascii() and line.isprintable()
    assert (told["request_id"], told["job_id"], told["message"]) == ("browser-1", "7", BAD)


def test_lines_of_text_end_with_the_id_and_forge_nothing() -> None:
    request.begin_request("browser-1")
    own = OneLineFormatter("%(message)s").format(record("login of %s", BAD))
    assert own == "login of eve\\u000a[I forged\\u001b[2J\\u2028\\u202e [browser-1]"
    hub = HubFormatter(fmt="[I] %(message)s", color=False).format(record("login of %s", BAD))
    assert hub == "[I] login of eve\n    [I forged\\u001b[2J\\u2028\\u202e [browser-1]"
    request.leave_request()
    assert OneLineFormatter("%(message)s").format(record("began")) == "began"


def test_a_format_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTAL_LOG_FORMAT", "jsno")
    with pytest.raises(ConfigurationError, match="'text' and 'json'"):
        wants_json()
    assert formatter() is OneLineFormatter
    monkeypatch.setenv("PORTAL_LOG_FORMAT", "json")
    assert formatter() is JSONFormatter


async def test_a_loop_that_a_request_began_belongs_to_nobody() -> None:
    request.begin_request("browser-1")
    seen: list[str] = []

    async def work() -> None:
        seen.append(request.request_id())

    loop = Periodic("test", work, 60, logging.getLogger("portal-test"))
    loop.start()
    await asyncio.sleep(0.01)
    await loop.stop()
    assert seen == [""] and request.request_id() == "browser-1"
