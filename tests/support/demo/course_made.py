"""A course as its form sends it, and the responses on the way to its approval."""

from __future__ import annotations

import datetime
from typing import Any

TODAY = datetime.datetime.now(datetime.UTC).date()
TOMORROW = TODAY + datetime.timedelta(days=1)


def course(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "title": "A course of the tests",
        "environment": "jupyterlab",
        "default": {"cpus": 1, "time": "0:30:00"},
        "timezone": "Europe/Berlin",
        "begins": str(TODAY),
        "ends": str(TODAY + datetime.timedelta(weeks=10)),
        "weekly": [{"day": TOMORROW.weekday(), "begins": "09:00", "minutes": 90}],
        **more,
    }


def made(response: Any, status: int = 200) -> Any:
    assert response.status_code == status, response.text
    return response.json() if response.content else None


def approve(barbara: Any, grace: Any, name: str) -> None:
    """Have barbara request the approval of her course, and grace give it."""
    path = f"courses/{name}"
    number = made(barbara.get(path))["number"]
    asked = made(barbara.post(f"{path}/submit", json={"number": number}))
    made(grace.post(f"{path}/approve", json={"number": asked["number"]}))
