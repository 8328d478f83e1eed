"""Parts of Home as they are shown: all are loaded at once, and none holds up the page."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from portal.errors import PortalError
from portal.models.home import HomePart, Place

_FAILED = "This part could not be loaded."


class ShownPart(NamedTuple):
    """Part with what it shows: ``content``, or ``problem``, a sentence why there is none. Without
    both, it was late: the page's script asks again, with more patience."""

    part: HomePart
    content: Mapping[str, Any] | None = None
    problem: str = ""

    @property
    def aside(self) -> bool:
        """Return True if the part stands beside the others."""
        return self.part.place >= Place.NEXT


async def shown_parts(
    parts: Iterable[HomePart], log: logging.Logger, *, patience: float, late: str = ""
) -> list[ShownPart]:
    """Return the parts that have something to show, in the order of their places. Each is waited
    for ``patience`` seconds; ``late``: the problem of one that took longer."""

    async def shown(part: HomePart) -> ShownPart | None:
        try:
            async with asyncio.timeout(patience):
                content = await part.load()
        except TimeoutError:
            return ShownPart(part, problem=late)
        except PortalError as error:
            return ShownPart(part, problem=error.message)
        except Exception:  # one part's fault, such as that of a site's own feature
            log.exception("The part '%s' of Home failed", part.name)
            return ShownPart(part, problem=_FAILED)
        return None if content is None else ShownPart(part, content)

    placed = sorted(parts, key=lambda part: part.place)
    return [part for part in await asyncio.gather(*map(shown, placed)) if part is not None]
