"""Base of kinds with a desired state: the portal keeps a number of such sessions running."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, StringConstraints, ValidationError

from portal.errors import InvalidRequest, NotAllowed
from portal.launch.kinds.by_id import KindById
from portal.launch.kinds.kind import AskedFor, LaunchFacts, Lookup, Place
from portal.models.catalog.environment import Environment
from portal.models.session.chosen_id import ID, LONGEST_ID, SHOULD_BE
from portal.models.session.replica_set import MOST_REPLICAS
from portal.models.should_be import should_be
from portal.models.space import Space
from portal.spaces.registry import requested_space, space_options

from .tables import ReplicaSetTable

_DIGITS = 16  # of a set's id in the names of its servers


class ReplicaKind(KindById):
    """Kind whose sessions are the replicas of a set. They are called by its ``prefix`` (at most 10
    characters), the beginning of the set's id and their number.

    The service launches them, and again when one has ended (portal/work/replicas). Fields of a
    subclass are its own options, beside these two in ``option`` of the ``user_options``.
    """

    noun = "replica set"
    of_users: ClassVar[bool] = True  # users say how many at api/v1/replica-sets
    of_portal: ClassVar[frozenset[str]] = frozenset({"space"})  # fields that no user sets

    id: Annotated[
        str,
        StringConstraints(pattern=f"^{ID}$", max_length=LONGEST_ID),
        Field(description=SHOULD_BE),
    ]
    number: Annotated[int, Field(ge=0, le=MOST_REPLICAS - 1, strict=True)] = 0

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Self | None:
        asked = options.get(cls.option)
        if asked is None or asked == "":
            return None
        known = cls.model_fields.keys() - cls.of_portal | {*space_options()}
        if not isinstance(asked, Mapping) or not asked.keys() <= known:
            raise InvalidRequest(
                f"'{cls.option}' must be an object with {_listed(known)}.", cls.option
            )
        given = {key: value for key, value in asked.items() if key not in space_options()}
        space = requested_space(asked)
        try:
            return cls(space=space, **given)
        except ValidationError as error:
            key = str(error.errors(include_input=False)[0]["loc"][0])
            raise InvalidRequest(
                f"The '{key}' of a {cls.noun} must be {should_be(cls, key)}.", cls.option
            ) from None

    async def place(self, asked: AskedFor, hub: Lookup, facts: LaunchFacts) -> Place:
        """Raise NotAllowed for a replica that its set does not have: such servers do not count as
        named ones, so only the portal's limit bounds their number."""
        wanted = await hub.recorded(ReplicaSetTable, self.id)
        if wanted is None or wanted.work != self.name or self.number >= wanted.replicas:
            raise NotAllowed(
                f"The portal has not recorded this replica. Say how many of {self.title} you want "
                "at api/v1/replica-sets."
            )
        return await super().place(asked, hub, facts)

    @classmethod
    def not_offered(cls, space: Space) -> str:
        return "" if space.replicas else f"Replicas are not offered in a {space.noun}."

    @classmethod
    def needs_gpus(cls, asked: AskedFor, space: Space) -> bool:
        return bool(asked.given().get("gpus", space.default.gpus))

    @classmethod
    def narrowed(
        cls, environment: Environment, space: Space, asked: AskedFor, *, gpus: bool
    ) -> Environment:
        """Return what sessions have, on one node."""
        offered = super().narrowed(environment, space, asked, gpus=gpus)
        default = offered.default.model_copy(update={"nodes": 1})
        return offered.model_copy(update={"default": default})

    @property
    def id_(self) -> str:
        return self.id

    @classmethod
    def replica_server(cls, id_: str, number: int) -> str:
        """Return the name of the server of a set's replica."""
        return f"{cls.prefix}-{id_.replace('-', '')[:_DIGITS]}-{number}"

    def own_server(self) -> str:
        return self.replica_server(self.id, self.number)

    @classmethod
    def space_at(cls, server: str) -> str | None:
        pattern = rf"{cls.prefix}-[0-9a-f]{{8,{_DIGITS}}}-[0-9]{{1,2}}"
        return "" if re.fullmatch(pattern, server) else None

    def own(self) -> dict[str, Any]:
        return {self.option: {**self.model_dump(exclude=set(self.of_portal)), **self.space.own()}}


def _listed(keys: set[str]) -> str:
    return ", ".join(f"'{key}'" for key in sorted(keys))
