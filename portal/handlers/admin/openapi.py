"""``api/v1/openapi.json``: the OpenAPI document, generated from the endpoints."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any, Literal

import jupyterhub
from pydantic import BaseModel, RootModel
from pydantic.json_schema import models_json_schema

from portal import __version__
from portal.models import Frozen
from portal.models.problem import FieldProblem
from portal.models.scope import MEANINGS

from ..base.endpoint import JSON, Endpoint, NoContent, Operation, body_required

EVENTS = "text/event-stream"
_REF = "#/components/schemas/{model}"
_ABOUT = """\
Programmatic access to everything that the portal's pages show and do. Times are Unix seconds,
memory is in MiB, and null means "unknown" or "not permitted". Lists are paged: pass 'next' of one
page as 'after' of the next.
"""
_ERRORS = {
    304: "Not changed since the version in If-None-Match.",
    400: "The request is malformed; the message says why.",
    403: "Not signed in, or not permitted.",
    404: "Not found, or not visible to this user.",
    405: "Method not allowed; 'Allow' lists the allowed methods.",
    409: "Conflict with the current state.",
    410: "The requested version is too old.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    429: "Too many requests.",
    502: "Another service of the site failed.",
    503: "A service of the site does not answer.",
}


class ErrorText(Frozen):
    """``code`` is a word for programs, ``message`` a sentence for people; ``field`` names the key
    of the request that is wrong, if it is one.

    On an edit conflict (``edit_conflict``), ``current`` is the text that stands now, ``yours`` the
    one that was not taken and ``number`` the version to go on from. If a definition is not
    accepted, ``problems`` lists all that is wrong with it. Otherwise they are left out.
    """

    code: str
    message: str
    field: str = ""
    current: str = ""
    yours: str = ""
    number: int = 0
    problems: tuple[FieldProblem, ...] = ()


class ErrorAnswer(Frozen):
    """Response body of every error."""

    error: ErrorText


class Document(RootModel[dict[str, Any]]):
    """OpenAPI document."""


class OpenApiEndpoint(Endpoint):
    """OpenAPI document, made once (portal/app)."""

    path = "openapi.json"

    @Operation("This API as an OpenAPI document.", answer=Document)
    async def on_get(self) -> None:
        self.finish(self.settings["openapi"])


class Versions(Frozen):
    """Versions of what answers here."""

    portal: str
    jupyterhub: str


class VersionEndpoint(Endpoint):
    """Version of this portal."""

    path = "version"

    @Operation("Version of the portal and of its JupyterHub")
    async def on_get(self) -> Versions:
        return Versions(portal=__version__, jupyterhub=jupyterhub.__version__)


ENDPOINTS = (OpenApiEndpoint, VersionEndpoint)


def document(endpoints: Iterable[type[Endpoint]], prefix: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of ``endpoints``, served below ``prefix``."""
    endpoints = tuple(endpoints)
    schemas, definitions = _schemas(endpoints)
    queries = {kind.query for _, _, kind in _operations(endpoints)}
    paths: dict[str, Any] = {}
    for endpoint, method, operation in _operations(endpoints):
        address = paths.setdefault("/" + endpoint.path, {})
        if endpoint.parameters:
            address["parameters"] = [
                _path_parameter(*parameter) for parameter in endpoint.parameters.items()
            ]
        query = definitions[_name(schemas[operation.query, "validation"])]
        address[method] = _operation(endpoint, method, operation, query, schemas)
    for name in (_name(schemas[query, "validation"]) for query in queries):
        del definitions[name]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Data Scientist Portal",
            "version": __version__,
            "description": _ABOUT,
        },
        "servers": [{"url": f"{prefix}api/v1"}],
        "security": [{"token": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(definitions.items())),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A Hub token, created at /hub/token. 'token …' and 'Bearer …' "
                    "are equivalent. Operations may need a Hub scope:\n\n"
                    + "\n".join(f"- `{scope}`: {meaning}" for scope, meaning in MEANINGS.items()),
                }
            },
        },
    }


def document_bytes(endpoints: Iterable[type[Endpoint]], prefix: str) -> bytes:
    """Return the OpenAPI document as JSON in UTF-8."""
    return json.dumps(document(endpoints, prefix), ensure_ascii=False).encode()


def _operations(
    endpoints: tuple[type[Endpoint], ...],
) -> Iterator[tuple[type[Endpoint], str, Operation]]:
    for endpoint in endpoints:
        for method, operation in endpoint.operations.items():
            yield endpoint, method, operation


def _schemas(endpoints: tuple[type[Endpoint], ...]) -> tuple[dict[Any, Any], dict[str, Any]]:
    """Return the references by model and mode, and the definitions by name."""
    wanted: dict[tuple[type[BaseModel], Literal["validation", "serialization"]], None] = {
        (ErrorAnswer, "serialization"): None
    }
    for _, _, operation in _operations(endpoints):
        wanted[operation.query, "validation"] = None
        if operation.body is not None:
            wanted[operation.body, "validation"] = None
        if operation.answer is not NoContent:
            wanted[operation.answer, "serialization"] = None
    references, whole = models_json_schema(list(wanted), ref_template=_REF)
    return references, whole["$defs"]


def _name(reference: dict[str, Any]) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


def _operation(
    endpoint: type[Endpoint],
    method: str,
    operation: Operation,
    query: dict[str, Any],
    schemas: dict[Any, Any],
) -> dict[str, Any]:
    entry = {
        "operationId": f"{method}_{re.sub(r'[^a-z0-9]+', '_', endpoint.path.lower()).strip('_')}",
        "summary": operation.summary,
        "tags": [re.split(r"[/.]", endpoint.path)[0]],
        "parameters": _query_parameters(query),
        "responses": _responses(operation, schemas),
        # OpenAPI 3.1: for a scheme other than OAuth2, the names of the required roles.
        "security": [{"token": [operation.scope] if operation.scope else []}],
    }
    about = inspect.cleandoc(getattr(endpoint, f"on_{method}").__doc__ or "")
    if about:
        entry["description"] = about
    if operation.body is not None:
        entry["requestBody"] = {
            "required": body_required(operation.body),
            "content": {JSON: {"schema": schemas[operation.body, "validation"]}},
        }
    if operation.takes:
        entry["requestBody"] = {"required": False, "content": {operation.takes: {}}}
    return entry


def _path_parameter(name: str, pattern: str) -> dict[str, Any]:
    schema = {"type": "string", "pattern": f"^(?:{pattern})$"}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(query: dict[str, Any]) -> list[dict[str, Any]]:
    parameters = []
    for name, schema in query.get("properties", {}).items():
        parameter = {"name": name, "in": "query", "required": name in query.get("required", ())}
        schema = {key: value for key, value in schema.items() if key != "title"}
        if "description" in schema:
            parameter["description"] = schema.pop("description")
        # A query has no null: what is not given is left out.
        kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
        if len(kinds) == 1:
            del schema["anyOf"]
            schema |= kinds[0]
        if schema.get("default", 0) is None:
            del schema["default"]
        parameters.append(parameter | {"schema": schema})
    return parameters


def _responses(operation: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    if operation.media != JSON:
        kind = operation.media.partition(";")[0]
        # The schema would describe an event of the stream, and each kind has its own.
        content: dict[str, Any] = {} if kind == EVENTS else {"schema": {"type": "string"}}
        success: dict[str, Any] = {"description": operation.summary, "content": {kind: content}}
        status = operation.status
    elif operation.answer is NoContent:
        success, status = {"description": "Done."}, 204
    else:
        success = {
            "description": operation.summary,
            "content": {JSON: {"schema": schemas[operation.answer, "serialization"]}},
        }
        status = operation.status
    responses = {str(status): success}
    body = () if operation.body is None else (413, 415)
    for code in sorted({400, 403, 404, 405, 503, *body, *operation.errors}):
        responses[str(code)] = {"description": _ERRORS.get(code, HTTPStatus(code).phrase + ".")}
        if code >= HTTPStatus.BAD_REQUEST:
            schema = schemas[ErrorAnswer, "serialization"]
            responses[str(code)]["content"] = {JSON: {"schema": schema}}
    return responses
