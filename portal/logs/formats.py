"""Formats of the logs: a line of text, or with PORTAL_LOG_FORMAT=json a JSON object, for each
message. In both, nobody forges a line by what they send."""

from __future__ import annotations

import copy
import json
import logging
import os
import traceback
from datetime import UTC, datetime

from traitlets.config.application import LevelFormatter

from ..errors import ConfigurationError
from ..models.plain_text import escaped
from . import request

VARIABLE = "PORTAL_LOG_FORMAT"
_EXTRA = ("user", "session", "job_id")  # of single records (``extra``)


class OneLineFormatter(LevelFormatter):
    """Formatter that writes each message in one line, with its request's id at the end, whatever
    strangers have put into an address or a parameter: nobody forges lines, such as those of the
    audit log, and no escape sequence reaches the terminal of a reader. Tracebacks stay as they
    are."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return escaped(super().formatMessage(record)) + _mark()


class JSONFormatter(logging.Formatter):
    """Formatter that writes each message as one JSON object of ASCII characters, in which JSON
    itself escapes line ends and control characters."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **request.fields(),
        }
        line |= {name: text for name in _EXTRA if (text := getattr(record, name, ""))}
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = "".join(traceback.format_exception(*record.exc_info))
        if record.stack_info:
            line["stack"] = record.stack_info
        return json.dumps(line)


def wants_json() -> bool:
    """Return True if the environment asks for JSON. Raises ConfigurationError for a format that
    does not exist."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "text", "json"):
        raise ConfigurationError(
            f"{VARIABLE} is '{escaped(wanted)[:40]}'. The formats of the logs are "
            "'text' and 'json'."
        )
    return wanted == "json"


def formatter() -> type[logging.Formatter]:
    """Return the class of formatter that the environment asks for; of text, if it asks for a
    format that does not exist."""
    try:
        return JSONFormatter if wants_json() else OneLineFormatter
    except ConfigurationError:  # the process says so, and ends
        return OneLineFormatter


def one_line(record: logging.LogRecord) -> logging.LogRecord:
    """Return a copy of ``record`` for a formatter of others: what is not text in its message is
    escaped, except the ends of lines, and the request's id stands at its end."""
    shown = copy.copy(record)
    lines = record.getMessage().split("\n")
    shown.msg, shown.args = "\n".join(map(escaped, lines)) + _mark(), ()
    return shown


def _mark() -> str:
    id_ = request.request_id()
    return f" [{id_}]" if id_ else ""
