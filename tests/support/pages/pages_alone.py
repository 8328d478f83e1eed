"""The service's pages in a browser without Hub and service: rendered here, with their files."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jupyterhub._data import DATA_FILES_PATH

from portal.handlers.pages.rendering import Pages
from portal.models.person import Person

ORIGIN = "http://portal.test"
PREFIX = "/services/portal/"
_TYPEFACE = "services/portal/static/typeface/vendor/inter/"  # as 20-service.py has it


ADA = Person(name="ada", admin=True)


def open_alone(
    page: Any,
    template: str,
    *,
    refuse: str = "no such address",
    person: Person = ADA,
    answers: Mapping[str, Any] | None = None,
    **variables: Any,
) -> None:
    """Open the template with these variables as a page, whose scripts find no API but ``answers``,
    by path.

    Addresses with ``refuse`` answer 503.
    """
    pages = Pages(prefix=PREFIX, hub_prefix="/hub/", variables={"portal_typeface": _TYPEFACE})
    html = pages.render(template, person, nonce="test", xsrf="test", **variables)
    headers = {"Content-Security-Policy": pages.policy("test")}

    def answer(route: Any) -> None:
        path = urlsplit(route.request.url).path
        if refuse in path:
            route.fulfill(status=503)
        elif path == f"{PREFIX}page":
            route.fulfill(body=html, content_type="text/html; charset=utf-8", headers=headers)
        elif path.startswith(f"{PREFIX}static/"):
            asset = pages.assets.get(path.removeprefix(f"{PREFIX}static/").split("/", 1)[1])
            assert asset, f"{path} is not in static/: has deploy/install.sh run?"
            route.fulfill(body=asset.content, content_type=asset.type)
        elif path.removeprefix(f"{PREFIX}api/v1/") in (answers or {}):
            route.fulfill(json=(answers or {})[path.removeprefix(f"{PREFIX}api/v1/")])
        elif (file := Path(DATA_FILES_PATH) / path.removeprefix("/hub/")).is_file():
            route.fulfill(path=file, content_type=mimetypes.guess_type(file)[0] or "text/plain")
        else:
            route.fulfill(status=404, json={"error": {"code": "not_found", "message": "None."}})

    page.route("**/*", answer)
    page.goto(f"{ORIGIN}{PREFIX}page")
