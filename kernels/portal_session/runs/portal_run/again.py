"""Commands of ``portal-run`` that run a run once more: again, repeat."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ...job_kernels.broker_client import Broker
from . import resources
from .listing import named_run, runs_of

COMMANDS = ("again", "repeat")


def run(argv: Sequence[str], broker: Broker) -> str:
    """Execute one of the COMMANDS; return what to print. Raises RunError, BrokerError."""
    command, *rest = argv
    options = argparse.ArgumentParser(prog=f"portal-run {command}", allow_abbrev=False)
    options.add_argument("name", help="name of the run, or its id")
    if command == "again":
        options.description = "Resources that you do not set stay as they were."
        resources.add_options(options, resources.offered_fields(broker))
    chosen = options.parse_args(rest)
    run_item = named_run(runs_of(broker), chosen.name)
    return _repeat(run_item, broker) if command == "repeat" else _again(run_item, chosen, broker)


def _again(run_item: dict[str, Any], chosen: argparse.Namespace, broker: Broker) -> str:
    broker.ask("POST", f"/runs/{run_item['id']}/again", chosen.resources)
    name = run_item["name"]
    return (
        f"The points of '{name}' that did not succeed run again.\nStates:  portal-run show {name}"
    )


def _repeat(run_item: dict[str, Any], broker: Broker) -> str:
    answer = broker.ask("POST", f"/runs/{run_item['id']}/repetitions", {})
    name, drift = answer.get("name"), answer.get("drift")
    lines = [f"Run '{name}' repeats '{run_item['name']}'."]
    lines += [str(text) for text in drift] if isinstance(drift, list) else []
    return "\n".join([*lines, f"States:  portal-run show {name}"])
