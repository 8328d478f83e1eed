"""Pictures and tables that a run's points have logged: sent by their jobs, and shown to those who
see the run."""

from __future__ import annotations

import hashlib
from typing import Annotated

from pydantic import Field

from portal.errors import NotFound
from portal.handlers.base.endpoint import Operation
from portal.models import Frozen
from portal.models.session.run import MOST_ATTEMPTS, PointNumber
from portal.models.session.run_logged import LARGEST, Logged, LoggedName, LoggedTable, image_type

from .reports import PointHandler
from .runs import RUN_ID, OwnerQuery, RunAction

_POINT = "[0-9]{1,5}"


class LoggedReport(Frozen):
    """All that a ``point``, by its number from 0, has logged besides numbers."""

    point: PointNumber
    attempt: Annotated[int, Field(ge=1, le=MOST_ATTEMPTS, strict=True)] = 1
    logged: Logged


class LoggedAnswer(Frozen):
    """Answer to a report: the number of pictures and tables in it."""

    taken: int


class ShownImage(Frozen):
    """Picture of a point. ``digest`` changes with it."""

    name: LoggedName
    digest: str


class ShownLogged(Frozen):
    """Pictures and tables of a point. The first row of a table has the names of its columns."""

    images: tuple[ShownImage, ...]
    tables: dict[LoggedName, LoggedTable]


class ImageQuery(OwnerQuery):
    """Picture's version: another one lets a browser ask again."""

    digest: Annotated[str, Field(max_length=64)] = ""


class PointLogged(PointHandler):
    """Pictures and tables of a point, by its own job."""

    path = "session/points/logged"
    largest = max_body = LARGEST

    @Operation(
        "Send the pictures and tables that a point of a run has logged. Needs the token of the "
        "run's job.",
        body=LoggedReport,
        errors=(409,),
    )
    async def on_post(self) -> LoggedAnswer:
        """Replace what the point had sent before."""
        report: LoggedReport = self.body
        run = await self.run_of_job()
        key, logged = (run.user, run.id), report.logged
        await self.parts.store.run_logged.save(key, report.point, report.attempt, logged)
        return LoggedAnswer(taken=len(logged.images) + len(logged.tables))


class _ShownAction(RunAction):
    """Base class: what a point of a run has logged, which the user has or is shown."""

    async def logged(self, run: str, point: str) -> Logged:
        """Return it. Raises NotFound, StoreUnavailable."""
        seen_run = await self.seen(run)
        return await self.parts.store.run_logged.get(seen_run.user, seen_run.id, int(point))


class ShownPointLogged(_ShownAction):
    """Pictures and tables of a point."""

    path = "runs/{run}/points/{point}/logged"
    parameters = {"run": RUN_ID, "point": _POINT}

    @Operation(
        "Get the pictures and tables that a point of one of your runs has logged.",
        query=OwnerQuery,
    )
    async def on_get(self, run: str, point: str) -> ShownLogged:
        """Return the tables, and the names of the pictures."""
        logged = await self.logged(run, point)
        images = (
            ShownImage(name=name, digest=hashlib.sha256(content).hexdigest()[:16])
            for name, content in logged.images.items()
        )
        return ShownLogged(images=tuple(images), tables=logged.tables)


class PointImage(_ShownAction):
    """Picture of a point."""

    path = "runs/{run}/points/{point}/images/{image}"
    parameters = {"run": RUN_ID, "point": _POINT, "image": r"\w[\w .,()=+-]{0,79}"}

    @Operation(
        "Get a picture that a point of one of your runs has logged.",
        query=ImageQuery,
        media="image/*",
    )
    async def on_get(self, run: str, point: str, image: str) -> None:
        """Return it as PNG or JPEG, whichever its first bytes say: a browser takes it for nothing
        else, since it is told not to guess."""
        content = (await self.logged(run, point)).images.get(image)
        if content is None:
            raise NotFound("The point has not logged this picture.")
        self.set_header("Content-Type", image_type(content))
        self.finish(content)


ENDPOINTS = (PointLogged, ShownPointLogged, PointImage)
