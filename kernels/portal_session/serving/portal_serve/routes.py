"""Routes of the session's broker for endpoints: ``portal-serve`` asks the portal through them."""

from __future__ import annotations

from typing import Any

from ...job_kernels.broker_handler import Ask, PassingHandler

NAME = "[a-z0-9-]{2,40}"
# By path here, which is the service's below session/: methods.
PASSED_ON = {
    "/models": "GET",
    f"/models/{NAME}": "GET PUT DELETE",
    f"/models/{NAME}/versions": "POST",
    f"/models/{NAME}/shares": "PUT",
    "/model-catalog": "GET",
}


class ModelsHandler(PassingHandler):
    """Handler of a request of portal-serve."""

    async def get(self) -> None:
        await self.answer(self.ask(str(self.request.method), f"session{self.request.path}"))

    delete = get

    async def post(self) -> None:
        method, path = str(self.request.method), f"session{self.request.path}"
        await self.answer_body(lambda body: self.ask(method, path, body))

    put = post


def routes(ask: Ask) -> list[Any]:
    """Return the routes. ``ask`` sends a method, a path and a body to the service."""
    return [
        (path, ModelsHandler, {"ask": ask, "methods": methods})
        for path, methods in PASSED_ON.items()
    ]
