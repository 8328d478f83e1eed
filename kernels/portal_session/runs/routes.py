"""Routes of the session's broker for runs: ``portal-run`` asks the portal through them, since only
the session's server has the token."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any
from urllib.parse import urlencode

from ..chosen_id import ID
from ..job_kernels.broker_handler import Ask, PassingHandler

SUBMISSION = "session/runs"  # of the service
# By path here: methods.
PASSED_ON = {
    "/runs": "GET POST",
    "/runs/choices": "GET",
    "/runs/schedules": "GET POST",
    f"/runs/schedules/{ID}": "DELETE",
    f"/runs/{ID}": "GET DELETE",
    f"/runs/{ID}/points": "GET",
    f"/runs/{ID}/(?:again|repetitions)": "POST",
}
_MOST = 200  # runs in a list, the newest
_OF_POINTS = ("state", "sort", "offset", "limit")


def service_path(method: str, path: str) -> str:
    """Return the path of a request at the service, below its api/v1/, for one of these paths."""
    if path == "/runs":
        return SUBMISSION if method == "POST" else f"runs?limit={_MOST}"
    return f"{SUBMISSION}/choices" if path == "/runs/choices" else path[1:]


class RunsHandler(PassingHandler):
    """Handler of a request of portal-run."""

    async def get(self) -> None:
        asked = {name: self.get_query_argument(name, "") for name in _OF_POINTS}
        of_points = self.request.path.endswith("/points")
        query = urlencode({name: value for name, value in asked.items() if value and of_points})
        await self.answer(self._passed_on(f"?{query}" if query else ""))

    async def delete(self) -> None:
        await self.answer(self._passed_on())

    async def post(self) -> None:
        # What the portal takes for a repetition is the run alone.
        alone = self.request.path.endswith("/repetitions")
        await self.answer_body(lambda body: self._passed_on("", *([] if alone else [body])))

    def _passed_on(self, query: str = "", *body: dict[str, Any]) -> Awaitable[dict[str, Any]]:
        method = str(self.request.method)
        return self.ask(method, service_path(method, self.request.path) + query, *body)


def routes(ask: Ask) -> list[Any]:
    """Return the routes. ``ask`` sends a method, a path and a body to the service."""
    return [
        (path, RunsHandler, {"ask": ask, "methods": methods}) for path, methods in PASSED_ON.items()
    ]
