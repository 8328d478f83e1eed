"""How the service writes its log."""

from __future__ import annotations

import logging

from traitlets.config.application import LevelFormatter

from portal.models.plain_text import escaped


class OneLineFormatter(LevelFormatter):
    """Each message is one line, whatever strangers have put into an address or a parameter: nobody
    writes lines of their own, such as false ones of the audit log, and no escape sequence reaches
    the terminal of whoever reads the log. Tracebacks stay as they are."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return escaped(super().formatMessage(record))
