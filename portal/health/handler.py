"""``/services/portal/health``: one word for everybody, and what is behind it for admins."""

from __future__ import annotations

from http import HTTPStatus

from portal import __version__
from portal.errors import PortalError
from portal.handlers.base.base import APIHandler
from portal.models.scope import METRICS_READ

from .watch import Health, HealthWatch


class HealthHandler(APIHandler):
    """State of the site: 200 if it is usable, 503 if nothing works. The Hub is asked who wants to
    know only if there is a login."""

    async def prepare(self) -> None:
        self.detailed = False
        if "Authorization" not in self.request.headers and not self.request.cookies:
            return
        if self.parts_for(HealthWatch).health() is Health.FAILED:
            return  # the Hub may not answer
        try:
            await super().prepare()
        except PortalError:
            return
        person = getattr(self, "person", None)
        self.detailed = person is not None and person.may(METRICS_READ)

    def refuse_stranger(self) -> None:
        """Leave a stranger's request alone: the word is for everybody."""

    async def get(self) -> None:
        watch = self.parts_for(HealthWatch)
        health = watch.health()
        answer: dict[str, object] = {"status": health.value}
        if self.detailed:
            answer["version"] = __version__
            answer["parts"] = [
                {"part": part.title, "ok": not part.words, "words": part.words}
                for part in watch.parts()
            ]
        failed = health is Health.FAILED
        self.set_status(HTTPStatus.SERVICE_UNAVAILABLE if failed else HTTPStatus.OK)
        self.write_json(answer)

    head = get


PAGES = (("health/?", HealthHandler),)
