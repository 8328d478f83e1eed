"""Log of the session's server as JSON, for a site whose PORTAL_LOG_FORMAT is json: the same fields
as in the logs of the Hub and the service."""

from __future__ import annotations

import json
import logging
import os
import traceback
from collections.abc import Mapping
from datetime import datetime, timezone

_FIELDS = {  # variables of the job
    "request_id": "PORTAL_REQUEST_ID",  # of the launch
    "user": "JUPYTERHUB_USER",
    "session": "JUPYTERHUB_SERVER_NAME",
    "job_id": "SLURM_JOB_ID",
}


class JSONFormatter(logging.Formatter):
    """Formatter that writes each message as one JSON object of ASCII characters."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, timezone.utc)
        line = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update({name: os.environ[key] for name, key in _FIELDS.items() if os.environ.get(key)})
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(line)


def set_log_format(environ: Mapping[str, str]) -> None:
    """Have the server and its extensions log as the site asks for."""
    if environ.get("PORTAL_LOG_FORMAT") == "json":
        from jupyter_server.extension.application import ExtensionApp
        from jupyter_server.serverapp import ServerApp

        for kind in (ServerApp, ExtensionApp):
            kind._log_formatter_cls = JSONFormatter
