"""Environments whose kernels a session's notebooks may have in jobs of their own."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from portal.catalog.availability import UNTYPED
from portal.catalog.offers.in_space import environment_in, environments_in
from portal.errors import NotAllowed, StoreUnavailable
from portal.launch.in_space import check_asked
from portal.models import Frozen
from portal.models.catalog.environment import Environment, Kernel
from portal.models.catalog.image_job import KernelResult, TestResult
from portal.models.person import Person
from portal.models.session.resources import Resources
from portal.spaces.registry import type_of
from portal.work.kernel.kind import kernel_environment

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from portal.assembly import Services
    from portal.launch.kinds.kind import AskedFor, Kind
    from portal.models.cluster.cluster import Association, ClusterSnapshot
    from portal.models.space import StoredSpace


class KernelEnvironment(Frozen):
    """Environment with kernels for jobs of their own. ``gpu_types``: those of the cluster on which
    its test passed; empty on a cluster that names no types. ``max_gpus``: null for no limit.
    ``default``: its default resources."""

    environment: str
    title: str
    kernels: tuple[Kernel, ...]
    gpu_types: tuple[str, ...]
    max_gpus: int | None
    default: Resources


async def kernel_choices(
    parts: Services, person: Person, stored: StoredSpace | None, types: Collection[str]
) -> tuple[KernelEnvironment, ...]:
    """Return what sessions of ``person`` are offered, in the order of the launch page; of a
    session in the space ``stored``, the space's. ``types``: GPU types of the cluster.
    """
    await parts.catalog.load()
    environments = parts.catalog.visible_to(person)
    if stored is not None:
        try:
            own = await environments_in(parts.catalog, stored, person)
            environments = [kernel_environment(known, stored.space) for known in own.values()]
        except NotAllowed:  # it cannot be used now: a launch says why
            environments = []
    choices = await asyncio.gather(*(_choice(parts, known, types) for known in environments))
    return tuple(choice for choice in choices if choice is not None)


async def environment_now(
    parts: Services,
    stored: StoredSpace,
    kind: type[Kind],
    asked: AskedFor,
    person: Person,
    snapshot: ClusterSnapshot,
    associations: Sequence[Association] | None,
) -> Environment:
    """Return the space's environment for a job of this ``kind`` that starts now, such as
    in the reservation of a meeting. Raises InvalidRequest, NotAllowed."""
    pinned = await environment_in(parts.catalog, stored, person, asked.environment)
    space = stored.space
    check_asked(asked.given(), pinned, space)
    kind.check_chosen(asked, space.noun)
    environment = kind.narrowed(pinned, space, asked, gpus=True)
    needs_gpus = kind.needs_gpus(asked, space)
    return type_of(space).now(
        stored.name, environment, snapshot, person, associations, time.time(), needs_gpus=needs_gpus
    )


async def _choice(
    parts: Services, environment: Environment, cluster_types: Collection[str]
) -> KernelEnvironment | None:
    types = parts.catalog.offering.gpu_types(environment, cluster_types)
    if environment.gpu_types:
        types = [name for name in types if name in environment.gpu_types]
    if not types or environment.max_gpus == 0:
        return None
    kernels = environment.kernels or await _tested_kernels(parts, environment)
    if not kernels:
        return None
    return KernelEnvironment(
        environment=environment.name,
        title=environment.title,
        kernels=kernels,
        gpu_types=tuple(name for name in types if name != UNTYPED),
        max_gpus=environment.max_gpus,
        default=environment.default,
    )


async def kernel_names(parts: Services, environment: Environment) -> tuple[str, ...]:
    """Return the names of the kernels that an environment has, whether they passed their test or
    not; () if they are not known."""
    if environment.kernels:
        return tuple(kernel.name for kernel in environment.kernels)
    return tuple(result.kernel.name for result in await _results(parts, environment))


async def _tested_kernels(parts: Services, environment: Environment) -> tuple[Kernel, ...]:
    """Return the kernels that its newest test found and that passed."""
    results = await _results(parts, environment)
    return tuple(result.kernel for result in results if result.passed)


async def _results(parts: Services, environment: Environment) -> Sequence[KernelResult]:
    """Return what the newest test of an environment says of its kernels."""
    try:
        tests = (await parts.store.tests.newest(environment.fingerprint)).values()
    except StoreUnavailable:
        return ()
    for test in sorted(tests, key=lambda test: test.id, reverse=True):
        if test.result:
            return TestResult.model_validate(test.result).kernels
    return ()
