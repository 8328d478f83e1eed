"""Work of a site's own, outside of the portal's tree: workers that the portal keeps running."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from portal.features import Feature
from portal.navigation import Entry
from portal.work.replicas.kind import ReplicaKind


class Workers(ReplicaKind):
    """Worker that prints its number and waits; ``seconds``: for how long."""

    name = "workers"
    title = "a worker"
    option = "workers"
    prefix = "workers"

    seconds: Annotated[int, Field(ge=1, le=86400)] = 3600

    def command(self) -> Sequence[str]:
        words = f"print('worker {self.number}', flush=True)"
        return ("{python}", "-I", "-c", f"import time; {words}; time.sleep({self.seconds})")


FEATURE = Feature(
    "workers",
    kinds=(Workers,),
    endpoints="portal_workers.endpoints:ENDPOINTS",
    navigation=(Entry("Workers", "api/v1/workers", "gears"),),
)
