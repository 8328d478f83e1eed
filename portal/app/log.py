"""Format of the service's log."""

from __future__ import annotations

import logging

from traitlets.config.application import LevelFormatter

from portal.models.plain_text import escaped


class OneLineFormatter(LevelFormatter):
    """Formatter that writes each message in one line, whatever strangers have put into an address
    or a parameter: nobody forges lines, such as those of the audit log, and no escape sequence
    reaches the terminal of a reader. Tracebacks stay as they are."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return escaped(super().formatMessage(record))
