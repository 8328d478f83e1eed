"""Generated part of docs/reference/rest-api.md: the service's API, from its OpenAPI document."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from portal.handlers.admin.openapi import document
from portal.handlers.routes import endpoints
from portal.models.scope import MEANINGS

TARGET = Path(__file__).with_name("reference") / "rest-api.md"
START, END = "<!-- api:start -->", "<!-- api:end -->"

_PAGED = {"limit", "after"}  # documented by hand, once for all lists
_LARGEST = 1e9  # larger bounds are not shown


def page() -> str:
    """Build the whole page: the hand-written text, with new text between the marks."""
    before, _, rest = TARGET.read_text().partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{Reference().text()}{END}{after}"


class Reference:
    """Operations, scopes and objects of the API, as Markdown."""

    def __init__(self) -> None:
        whole = document(endpoints(), "/services/portal/")
        self.paths: dict[str, Any] = whole["paths"]
        self.schemas: dict[str, Any] = whole["components"]["schemas"]

    def text(self) -> str:
        """Build the whole generated part."""
        parts = [
            self.operation(path, method, operation)
            for path, methods in self.paths.items()
            for method, operation in methods.items()
            if method != "parameters" and not self.is_file_of_a_list(path)
        ]
        rows = [f"| `{scope}` | {words} |" for scope, words in MEANINGS.items()]
        parts += ["### Scopes", "\n".join(["| scope | meaning |", "|---|---|", *rows])]
        parts.append("### Objects")
        parts += [
            self.object(name, schema)
            for name, schema in self.schemas.items()
            if "properties" in schema and not name.startswith(("Page_", "Error"))
        ]
        return "\n\n".join(["", *parts, ""])

    def is_file_of_a_list(self, path: str) -> bool:
        """Return True if the path is the CSV form of a list, documented with the list."""
        return path.endswith(".csv") and path.removesuffix(".csv") in self.paths

    def operation(self, path: str, method: str, operation: dict[str, Any]) -> str:
        """Describe a method of a path."""
        about = _words(f"{operation['summary']} {operation.get('description', '')}")
        parts = [f"### `{method.upper()} {path.lstrip('/')}`", about]
        [scope] = operation["security"][0]["token"] or [""]
        if scope:
            parts.append(f"Needs `{scope}`.")
        parameters = self.paths[path].get("parameters", []) + operation["parameters"]
        rows = [self.parameter(item) for item in parameters if item["name"] not in _PAGED]
        if rows:
            parts.append("\n".join(["| parameter | value | |", "|---|---|---|", *rows]))
        if "requestBody" in operation:
            parts.append(f"Body: {self.content(operation['requestBody'])}.")
        [(status, response)] = [item for item in operation["responses"].items() if item[0] < "300"]
        content = f": {self.content(response)}" if "content" in response else " without content"
        parts.append(f"Answer {status}{content}.")
        if method == "get" and f"{path}.csv" in self.paths:
            parts[-1] += f" Also as a file: `{path.lstrip('/')}.csv`."
        return "\n\n".join(parts)

    def parameter(self, parameter: dict[str, Any]) -> str:
        """Build the table row of a parameter."""
        schema = parameter["schema"]
        about = [_words(parameter.get("description", ""))]
        if parameter["in"] == "path":
            about.append("In the address.")
        elif parameter["required"]:
            about.append("Needed.")
        if "default" in schema:
            about.append(f"Default `{_value(schema['default'])}`.")
        return f"| `{parameter['name']}` | {self.type(schema)} | {' '.join(filter(None, about))} |"

    def object(self, name: str, schema: dict[str, Any]) -> str:
        """Describe a model."""
        rows = [f"| `{key}` | {self.type(value)} |" for key, value in schema["properties"].items()]
        table = "\n".join(["| key | value |", "|---|---|", *rows])
        about = [_words(schema["description"])] if schema.get("description") else []
        return "\n\n".join([f"#### {name}", *about, table])

    def content(self, body: dict[str, Any]) -> str:
        """Describe the content of a body or a response."""
        [(media, content)] = body["content"].items()
        return self.type(content["schema"]) if media == "application/json" else f"`{media}`"

    def type(self, schema: dict[str, Any]) -> str:
        """Describe a schema in words."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if listed := re.fullmatch(r"Page_(\w+)_", name):
                return f"a page of [{listed[1]}](#{listed[1].lower()})"
            target = self.schemas[name]
            return f"[{name}](#{name.lower()})" if "properties" in target else self.type(target)
        if "anyOf" in schema:
            return " or ".join(self.type(option) for option in schema["anyOf"])
        if "enum" in schema or "const" in schema:
            return _choice([str(option) for option in schema.get("enum") or [schema["const"]]])
        kind = str(schema.get("type", "anything"))
        if kind == "array":
            return f"list of {self.type(schema.get('items', {}))}"
        if kind == "object":
            values = schema.get("additionalProperties")
            return f"object of {self.type(values)}" if isinstance(values, dict) else "object"
        bounds = [
            f"{word} {schema[key]:g}"
            for key, word in (("minimum", "from"), ("maximum", "to"))
            if abs(schema.get(key, _LARGEST)) < _LARGEST
        ]
        return " ".join([kind, *bounds])


def _choice(values: list[str]) -> str:
    """List the choices; sort orders, all of which can be reversed, are shown once."""
    once = [value for value in values if not value.startswith("-")]
    words = ", ".join(f"`{value}`" for value in once)
    return words if len(once) == len(values) else f"{words}; downwards with a `-` before"


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _words(text: str) -> str:
    """Return running text that is safe in a table."""
    text = " ".join(text.split()).replace("|", "\\|").replace("``", "`")
    return re.sub(r"(?<!`)(custom:portal:[\w:]+\w)", r"`\1`", text)
