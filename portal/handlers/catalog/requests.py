"""``api/v1/environment-requests``: requests for missing environments, and their outcome."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from portal.errors import Conflict, InvalidRequest, TooManyRequests
from portal.models import Frozen
from portal.models.audit import AuditAction
from portal.models.catalog.catalog import EnvironmentRequest, EnvironmentRequestDraft, RequestState
from portal.models.catalog.environment import Name
from portal.models.plain_text import PLAIN_TEXT
from portal.models.scope import ENVIRONMENTS_MANAGE

from ..base.action import Action
from ..base.endpoint import Operation
from ..base.paging import Page, PageQuery, page
from .editing import CuratorOperation

MOST_OPEN = 5  # requests of one person that nobody has answered yet


class RequestQuery(PageQuery):
    """Filters and page of the requests."""

    mine: Annotated[
        bool,
        Field(
            description=(
                "Only your own requests. Users who may not curate the catalog always get only "
                "their own."
            )
        ),
    ] = False
    state: Annotated[
        RequestState | None,
        Field(description="Only requests in this state: open, done or declined."),
    ] = None


class Answer(Frozen):
    """Answer to a request. ``environment`` is the name of the environment made for it."""

    state: Literal[RequestState.DONE, RequestState.DECLINED]
    answer: Annotated[
        str, StringConstraints(max_length=2000, strip_whitespace=True), *PLAIN_TEXT
    ] = ""
    environment: Name | Literal[""] = ""


class EnvironmentRequests(Action):
    """Requests for environments: everyone's, or one's own."""

    path = "environment-requests"

    @Operation("Requests for environments.", query=RequestQuery)
    async def on_get(self) -> Page[EnvironmentRequest]:
        """Return your own with their answers, newest first.

        Those who curate the catalog get everyone's.
        """
        query = self.query
        everyone = self.person.may(ENVIRONMENTS_MANAGE) and not query.mine
        items, total = await self.parts.store.environment_requests.all(
            "" if everyone else self.person.name,
            query.offset,
            query.limit,
            query.state,
        )
        return page(items, query, total)

    @Operation("Request an environment.", body=EnvironmentRequestDraft, status=201, errors=(429,))
    async def on_post(self) -> EnvironmentRequest:
        """Send a request to those who curate the catalog; you will see their answer."""
        draft, person = self.body, self.person.name
        detail = " ".join(part for part in (draft.source, draft.text) if part)
        action, target = AuditAction.REQUEST_ENVIRONMENT, "environment-requests"
        async with self.audited(action, target, owner=person, detail=detail) as line:
            request = await self.parts.store.environment_requests.add_request(
                draft, person, time.time(), MOST_OPEN
            )
            if request is None:
                raise TooManyRequests(
                    f"You have {MOST_OPEN} open requests, which is the maximum. Wait until "
                    "some are answered."
                )
            line.target = f"environment request {request.id}"
        return request


class EnvironmentRequestAnswer(Action):
    """Answer to a request."""

    path = "environment-requests/{request_id}/answer"
    parameters = {"request_id": "[0-9]{1,9}"}

    @CuratorOperation("Answer a request for an environment.", body=Answer, errors=(409,))
    async def on_post(self, request_id: str) -> EnvironmentRequest:
        """Close the request; the person who asked sees the answer."""
        answer, table = self.body, self.parts.store.environment_requests
        target = f"environment request {request_id}"
        if answer.state is RequestState.DECLINED and not answer.answer:
            raise InvalidRequest("'answer': give a reason for declining the request.", "answer")
        async with self.audited(AuditAction.ANSWER_REQUEST, target, detail=answer.answer) as line:
            request = await table.get(int(request_id))
            line.detail = f"{answer.state}: {answer.answer}"
            if request.state is not RequestState.OPEN:
                raise Conflict(
                    f"Request {request_id} was already answered by {request.answered_by}."
                )
            return await table.answer(
                request.id,
                answer.state,
                answer.answer,
                self.person.name,
                time.time(),
                answer.environment,
            )


ENDPOINTS = (EnvironmentRequests, EnvironmentRequestAnswer)
