"""Options of portal-run for the resources of a point: the fields of the portal's table, as the
portal sends them with the user's choices. It alone judges the values."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ...job_kernels.broker_client import Broker
from ..request import whole

Fields = Sequence[Mapping[str, Any]]

_LARGEST = 65_536


class _Resource(argparse.Action):
    """Action that puts the value into ``resources`` of the options."""

    def __call__(self, _: Any, options: Any, value: Any, option_string: Any = None) -> None:
        options.resources = {**options.resources, self.dest: value}


def offered_fields(broker: Broker) -> Fields:
    """Return the fields for a run of this user. Raises BrokerError."""
    return list(broker.ask("GET", "/runs/choices").get("fields") or ())


def add_options(options: argparse.ArgumentParser, fields: Fields) -> None:
    """Add an option for each field; all that are given are in ``resources``."""
    options.set_defaults(resources={})
    about = "" if fields else "listed in a session, where runs are offered"
    group = options.add_argument_group("resources of each point", about)
    for field in fields:
        words = ": ".join(filter(None, (field.get("should_be"), ", ".join(field["values"] or ()))))
        group.add_argument(
            f"--{field['name'].replace('_', '-')}",
            action=_Resource,
            dest=field["name"],
            default=argparse.SUPPRESS,
            type=reader(field["least"], _LARGEST) if field["number"] else str,
            help=words.replace("%", "%%"),
        )


def reader(least: int, most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from ``least`` to ``most``, for argparse."""

    def read(text: str) -> int:
        try:
            return whole(text, least, most)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read
