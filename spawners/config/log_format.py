"""Format of the Hub's log."""

from __future__ import annotations

import logging

from jupyterhub.app import JupyterHub
from jupyterhub.log import CoroutineLogFormatter

from portal.errors import ConfigurationError
from portal.logs.formats import JSONFormatter, one_line, wants_json


class HubFormatter(CoroutineLogFormatter):
    """JupyterHub's formatter, with the request's id and without control characters: JupyterHub logs
    the name that a stranger tries to log in with."""

    def format(self, record: logging.LogRecord) -> str:
        line: str = super().format(one_line(record))
        return line


def set_log_format(hub: JupyterHub) -> None:
    """Have ``hub`` log as the environment asks for, unless its own configuration, read later, has a
    ``logging_config`` with other formatters."""
    try:
        kind: type[logging.Formatter] = JSONFormatter if wants_json() else HubFormatter
    except ConfigurationError as error:
        hub.log.critical("%s", error)
        hub.exit(1)
        return
    hub._log_formatter_cls = kind  # of c.JupyterHub.extra_log_file
    name = f"{kind.__module__}.{kind.__qualname__}"
    hub.logging_config = {"formatters": {"console": {"class": name}}}
