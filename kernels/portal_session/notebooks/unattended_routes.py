"""Route by which a page asks for the output that it missed."""

from __future__ import annotations

import json
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web


class MissedOutputs(APIHandler):
    """``POST …/portal/missed-outputs`` with ``{"kernel": id, "client": id}``.

    ``client`` is the page's own id in the kernel's messages. The answer is
    ``{"executions": […]}``; the page that receives it shows and saves these outputs from then on.
    """

    def initialize(self, unattended: Any) -> None:
        self._unattended = unattended

    @web.authenticated
    async def post(self) -> None:
        body = self.get_json_body()
        body = body if isinstance(body, dict) else {}
        kernel, client = body.get("kernel"), body.get("client")
        if not (isinstance(kernel, str) and isinstance(client, str)):
            raise web.HTTPError(400, "Name the kernel and the client.")
        executions = await self._unattended.hand_over(kernel, client)
        self.finish(
            json.dumps({"executions": [execution.for_client() for execution in executions]})
        )


def routes(base_url: str, unattended: Any) -> list[tuple[str, type, dict[str, Any]]]:
    path = url_path_join(base_url, "portal", "missed-outputs")
    return [(path, MissedOutputs, {"unattended": unattended})]
