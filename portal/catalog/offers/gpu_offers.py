"""GPU types that an environment may be launched on, why not on others, and its speed. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from portal.models import Frozen
from portal.models.catalog.catalog import Verdict
from portal.models.catalog.environment import Environment, refusals_of


class GpuOffer(Frozen):
    """Offer of one GPU type."""

    type: str
    offered: bool
    reason: str = ""  # why it is not offered
    images_per_second: float | None = None  # the best measurement there
    simulated: bool = False  # the GPUs of that measurement were


def gpu_offers(
    environment: Environment,
    tested: Mapping[str, Verdict],
    best: Mapping[str, tuple[float, bool]],
) -> tuple[GpuOffer, ...]:
    """Return the offers of the types that ``environment`` names, was ``tested`` on or measured on
    (``best``: images per second, simulated), in that order."""
    refusals = refusals_of(environment)
    types = dict.fromkeys([*environment.gpu_types, *refusals, *tested, *best])
    offers = []
    for name in filter(None, types):
        allowed = name in environment.gpu_types or not environment.gpu_types
        figure, simulated = best.get(name, (None, False))
        offers.append(
            GpuOffer(
                type=name,
                offered=allowed and name not in refusals and environment.max_gpus != 0,
                reason=refusals.get(name, ""),
                images_per_second=figure,
                simulated=simulated,
            )
        )
    return tuple(offers)


def any_gpu(environment: Environment) -> bool:
    """Return True if the environment is offered on any GPU type, as it names none."""
    return not environment.gpu_types and environment.max_gpus != 0
