"""``api/v1/environments``: the catalog, as the person who asks may see it."""

from __future__ import annotations

from typing import Any

from portal.errors import Unavailable
from portal.models.environment import Environment
from portal.models.person import Person

from .base import APIHandler


class EnvironmentsHandler(APIHandler):
    """``GET`` → ``{"items": […], "next": null}``; admins get ``errors`` too, the wrong files."""

    async def get(self) -> None:
        catalog = self.catalog
        await catalog.load()
        if not catalog.loaded:
            raise Unavailable("The directory of environments cannot be read now.")
        answer: dict[str, Any] = {
            "items": [described(found, self.person) for found in catalog.visible_to(self.person)],
            "next": None,
        }
        if self.person.admin:
            answer["errors"] = [error.model_dump() for error in catalog.errors]
        self.write_json(answer)

    head = get


def described(environment: Environment, person: Person) -> dict[str, Any]:
    """One item. Paths on the hosts and groups are for admins; variables, which may hold secrets,
    are for nobody."""
    shown = {"name", "title", "kind", "description", "icon", "tags", "gpu_types", "default"}
    if person.admin:
        shown |= {"image", "path", "modules", "groups"}
    item = environment.model_dump(mode="json", include=shown)
    item["limits"] = {
        "gpus": environment.max_gpus,
        "cpus": environment.max_cpus,
        "memory": environment.max_memory,
        "time": environment.max_time,
    }
    return item
