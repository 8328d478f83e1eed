"""Base class of the API's endpoints: pydantic models declare requests and responses once.

The same ``Operation`` serves to check the request and to make the OpenAPI document
(portal/handlers/admin/openapi.py).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from portal.errors import InvalidRequest, NotAllowed, NotFound, SlurmUnavailable, Unavailable
from portal.models import Frozen
from portal.models.audit import AuditAction, Outcome
from portal.models.scope import right

from .base import APIHandler

if TYPE_CHECKING:
    from portal.dashboard import ClusterView

JSON = "application/json"
METHODS = ("get", "post", "put", "patch", "delete")
_Method = TypeVar("_Method", bound=Callable[..., Any])
# The last is what `curl -d` sends; a cookie needs the X-XSRFToken header anyway.
_BODY_TYPES = ("", JSON, "application/x-www-form-urlencoded")
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # as JSON writes it; no database takes it


class Query(BaseModel):
    """Base class of query strings: values come as text, unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class NoContent(Frozen):
    """Response without content (204)."""


class WrongContentType(InvalidRequest):
    """Body that is not declared as JSON."""

    code = "unsupported_media_type"
    status = 415


@dataclass(frozen=True)
class Operation:
    """Method of an endpoint, as a decorator of ``on_get``, ``on_post`` and so on."""

    summary: str
    # Model of a success, by default the annotated return type; ``NoContent`` answers 204.
    answer: type[BaseModel] = NoContent
    query: type[Query] = Query
    body: type[BaseModel] | None = None
    scope: str = ""  # that the person must hold; "": the login is enough
    status: int = 200
    # If it is not JSON, the method writes the response itself and ``answer`` is ``NoContent`` too.
    media: str = JSON
    sparse: bool = False  # leaves unset fields out of the response
    errors: tuple[int, ...] = ()  # statuses besides 400, 403, 404, 405, 413, 415 and 503
    takes: str = ""  # media type of a body that is a file (see upload.py)

    def __call__(self, method: _Method) -> _Method:
        operation = self
        if self.answer is NoContent and self.media == JSON:
            returned = inspect.get_annotations(method, eval_str=True).get("return")
            operation = replace(self, answer=returned or NoContent)
        method.operation = operation  # type: ignore[attr-defined]
        return method


class Endpoint(APIHandler):
    """Address of ``api/v1``: ``path`` with ``{names}``, each matching its ``parameters``.

    ``on_get(**parameters)``, ``on_post(…)`` return the model of the response; ``self.query``,
    ``self.body`` and the scope are checked before they run.
    """

    path: ClassVar[str]
    parameters: ClassVar[dict[str, str]] = {}  # name -> regular expression
    operations: ClassVar[dict[str, Operation]]  # by method; from the decorators
    timed: ClassVar[bool] = True  # counted in the metric of request times
    # Raised while Slurm has not answered since the service began.
    unheard: ClassVar[type[Unavailable]] = SlurmUnavailable

    query: Any
    body: Any

    written_by: ClassVar[dict[str, str]] = {name: f"on_{name}" for name in METHODS}

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        methods = {name: getattr(cls, by, None) for name, by in cls.written_by.items()}
        operations = {name: getattr(method, "operation", None) for name, method in methods.items()}
        cls.operations = {
            name: operation for name, operation in operations.items() if operation is not None
        }

    @classmethod
    def route(cls, prefix: str) -> tuple[str, type[Endpoint]]:
        """Return the tornado route: any text between slashes matches, for a clear 404."""
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(cls.path))
        return f"{prefix}api/v1/{pattern}/?", cls

    @classmethod
    def methods(cls) -> list[str]:
        names = [name.upper() for name in cls.operations]
        return [*names, "HEAD"] if "GET" in names else names

    async def prepare(self) -> None:
        await super().prepare()
        if self._finished:
            return
        operation = self.operation
        if operation is None:
            return  # tornado's own answer: 405
        for name, pattern in self.parameters.items():
            if not re.fullmatch(pattern, self.path_kwargs.get(name, "")):
                raise NotFound(f"There is no such {name.replace('_', ' ')}.")
        if operation.scope and not self.may(operation.scope):
            await self.refused(operation.summary, operation.scope)
        await self.admit()
        self.query = self._checked(operation.query, self._query_values())
        self.body = None
        if operation.body is not None:
            self.body = self._checked_body(operation.body)
        if operation.media != JSON:
            self.set_header("Content-Type", operation.media)

    async def admit(self) -> None:
        """Raise NotAllowed or NotFound if this person may not ask; runs before input is parsed."""

    def may(self, scope: str) -> bool:
        """Return True if the requester holds ``scope``."""
        return self.person.may(scope)

    @property
    def operation(self) -> Operation | None:
        """Operation of this request; None if the method is not supported."""
        method = "get" if self.request.method == "HEAD" else str(self.request.method).lower()
        return self.operations.get(method)

    @property
    def view(self) -> ClusterView:
        """Newest view of the cluster. Raises ``unheard`` while there is none."""
        dashboard = self.parts.dashboard
        if dashboard.view is None:
            raise self.unheard(dashboard.error or "Slurm has not answered the portal yet.")
        return dashboard.view

    async def refused(self, what: str, scope: str) -> None:
        """Record the refusal in the audit log, and raise NotAllowed."""
        target = self.request.path.removeprefix(self.parts.prefix)
        await self.parts.audit(
            self,
            AuditAction.DENIED,
            target,
            outcome=Outcome.REFUSED,
            detail=f"{what} Needs {scope}.",
        )
        raise NotAllowed(f"You are not allowed to do this. It takes the right to {right(scope)}.")

    def _query_values(self) -> dict[str, str]:
        values = {}
        for name, given in self.request.query_arguments.items():
            if name == "_xsrf":
                continue
            if len(given) > 1:
                raise InvalidRequest(f"'{name}' was given {len(given)} times. Give it once.")
            try:
                values[name] = given[0].decode("utf-8")
            except UnicodeDecodeError:
                raise InvalidRequest(f"'{name}' is not UTF-8 text.", name) from None
            if "\0" in values[name]:
                raise InvalidRequest(f"'{name}' contains a NUL character.", name)
        return values

    def _checked(self, model: type[BaseModel], values: dict[str, str]) -> BaseModel:
        try:
            return model.model_validate(values)
        except ValidationError as error:
            raise complaint(error) from None

    def _checked_body(self, model: type[BaseModel]) -> BaseModel:
        kind = self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind not in _BODY_TYPES:
            raise WrongContentType(f"The body must be JSON (Content-Type: {JSON}).")
        if not self.request.body:
            if body_required(model):
                raise InvalidRequest("The request has no body; send a JSON object.")
            return self._checked(model, {})
        try:
            body = model.model_validate_json(self.request.body)
        except ValidationError as error:
            raise complaint(error) from None
        if _NUL.search(body.model_dump_json()):
            raise InvalidRequest("A text in the body contains a NUL character.")
        return body

    async def _call(self, name: str, /, **parameters: str) -> None:
        operation = self.operation
        if operation is None:
            self._unimplemented_method()
            return
        answer = await getattr(self, f"on_{name}")(**parameters)
        if self._finished:
            return
        if operation.answer is NoContent:
            self.set_status(204)
            self.clear_header("Content-Type")
            self.finish()
            return
        self.set_status(operation.status)
        self.finish(answer.model_dump_json(exclude_unset=operation.sparse))

    async def get(self, **parameters: str) -> None:
        await self._call("get", **parameters)

    head = get

    async def post(self, **parameters: str) -> None:
        await self._call("post", **parameters)

    async def put(self, **parameters: str) -> None:
        await self._call("put", **parameters)

    async def patch(self, **parameters: str) -> None:
        await self._call("patch", **parameters)

    async def delete(self, **parameters: str) -> None:
        await self._call("delete", **parameters)


def body_required(model: type[BaseModel]) -> bool:
    """Return True if the model has a required field; otherwise the body may be left out."""
    return any(field.is_required() for field in model.model_fields.values())


def complaint(error: ValidationError) -> InvalidRequest:
    """Return the first validation error as a sentence that names the field."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])[:100]
    if first["type"] == "extra_forbidden":
        return InvalidRequest(f"'{where}' is not a known field. Remove it.", where)
    message = str(first["msg"]).removeprefix("Value error, ")
    return InvalidRequest(f"'{where}': {message}." if where else f"{message}.", where or None)
