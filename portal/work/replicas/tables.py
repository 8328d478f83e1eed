"""Replica sets. Written by the service only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, and_, delete, func, select, update

from portal.errors import NotAllowed, NotFound
from portal.models.session.replica_set import ReplicaSet
from portal.store.engine.columns import COUNT, NAME, TEXT, TIME, Json, filled, keyed, keys
from portal.store.engine.rows import ModelTable

replica_sets = keyed(
    "replica_sets",
    *keys(NAME, "user", "id"),
    *filled(NAME, "work"),
    *filled(Json, "options"),
    *filled(COUNT, "replicas"),
    *filled(TIME, "created_at"),
    *filled(TEXT, "problem"),
)


class ReplicaSetTable(ModelTable[ReplicaSet]):
    """The table of replica sets, by user and id. Every method raises StoreUnavailable."""

    table, model = replica_sets, ReplicaSet

    async def save(self, wanted: ReplicaSet, most: int) -> ReplicaSet:
        """Insert a set, or change the one of the same id; return it. Raises NotAllowed if the user
        would have more than ``most`` replicas in all sets."""
        columns = replica_sets.c

        def write(to: Connection) -> None:
            others = and_(columns.user == wanted.user, columns.id != wanted.id)
            query = select(func.coalesce(func.sum(columns.replicas), 0)).where(others)
            held = to.execute(query).scalar_one()
            if wanted.replicas and held + wanted.replicas > most:
                raise NotAllowed(
                    f"Your other replica sets have {held} replicas; with this one, you would have "
                    f"{held + wanted.replicas}. The limit is {most}."
                )
            values = wanted.model_dump()
            created = values.pop("created_at")
            this = _own(wanted.user, wanted.id)
            if not to.execute(update(replica_sets).where(this).values(values)).rowcount:
                to.execute(replica_sets.insert().values({**values, "created_at": created}))

        await self._database.run(write, write=True)
        return await self.get(wanted.user, wanted.id)

    async def get(self, user: str, id_: str) -> ReplicaSet:
        """Return a set of a user. Raises NotFound."""
        found = await self._first(select(replica_sets).where(_own(user, id_)))
        if found is None:
            raise NotFound("You have no such replica set.")
        return found

    async def of_user(self, user: str) -> list[ReplicaSet]:
        """Return a user's sets, oldest first."""
        query = select(replica_sets).where(replica_sets.c.user == user)
        return await self._models(query.order_by(replica_sets.c.created_at, replica_sets.c.id))

    async def every(self) -> list[ReplicaSet]:
        """Return all sets, oldest first."""
        return await self._models(select(replica_sets).order_by(replica_sets.c.created_at))

    async def set_problem(self, wanted: ReplicaSet, problem: str) -> None:
        """Save why a replica could not be launched; "": it could."""
        this = _own(wanted.user, wanted.id)
        await self._write(update(replica_sets).where(this).values(problem=problem))

    async def remove(self, user: str, id_: str) -> None:
        """Delete a set that should run nothing; one that was changed meanwhile stays."""
        empty = and_(_own(user, id_), replica_sets.c.replicas == 0)
        await self._write(delete(replica_sets).where(empty))


def _own(user: str, id_: str) -> Any:
    return and_(replica_sets.c.user == user, replica_sets.c.id == id_)
