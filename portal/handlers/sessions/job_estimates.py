"""Estimates for jobs beside a session: kernels and runs, in a space's session by its rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from portal.errors import NotAllowed
from portal.launch.kinds import Kind
from portal.launch.request import Asked
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import Association, ClusterSnapshot
from portal.models.person import Person
from portal.models.session.session import SessionState
from portal.models.space import StoredSpace
from portal.work.kernel.environments import environment_now
from portal.work.member_gpus import held_gpus, too_many

from .estimates import EstimatesBase


class JobEstimates(EstimatesBase):
    """Base class of estimates for a job beside a session. ``kind``: of such a job in a space;
    ``stored``: the space of the session that asks."""

    kind: ClassVar[type[Kind]]
    stored: StoredSpace | None = None

    async def environments(
        self,
        person: Person,
        asked: Asked,
        snapshot: ClusterSnapshot,
        associations: Sequence[Association] | None,
    ) -> dict[str, Environment]:
        """Return the environments that the job may have; of a space, its own as it is now."""
        stored = self.stored
        if stored is None:
            return await super().environments(person, asked, snapshot, associations)
        chosen = await environment_now(
            self.parts, stored, self.kind, asked, person, snapshot, associations
        )
        living = (
            session
            for session in self.view.sessions.values()
            if session.user == person.name and session.state is not SessionState.ENDED
        )
        wanted = asked.given().get("gpus", chosen.default.gpus)
        held = held_gpus(stored.space, living)
        if reason := too_many(stored.space, wanted, held, beside=True):
            raise NotAllowed(reason)
        return {chosen.name: chosen}
