"""Tests that fail when the machine is busy: each test that failed is run once more, alone, after
all others, as CPython's regrtest does.

A test that passes then is *unstable*: the run passes, says so with both outputs, and keeps the list
in build/unstable-test.json (or -live). Never run again: a part that died, files that could not be
collected, forbidden skips, parts that do not depend on the machine; and nothing is if many fail.
"""

from __future__ import annotations

import collections
import itertools
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .outcomes import Failure, Outcome

MOST = 20  # failed tests; with more, it is not the machine
_KEPT = 50  # runs in the list


@dataclass(frozen=True)
class Part:
    """Command of a part of the suite, which writes its ``outcome``.

    ``again``, an --outcome, ``ids`` and tests are the command that runs these tests alone; empty if
    a failure of this part is never run again."""

    command: list[str]
    outcome: Path
    again: list[str]
    ids: list[str] = field(default_factory=list)


@dataclass
class Verdict:
    """Result of a whole run. ``counts`` as of pytest, ``unstable`` and ``failed`` are tests, and
    ``reasons`` are failures that are no test's."""

    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    unstable: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def red(self) -> bool:
        return bool(self.failed or self.reasons)

    def print(self, history: Path) -> None:
        """Print the names of all tests to look at; add the unstable ones to ``history``."""
        before = _runs(history)[-1:]
        again = {test for run in before for test in run["tests"]}
        for test in self.unstable:
            print(f"UNSTABLE {test}")
            if test in again:
                print("         in the run before, too: mend it, or make its wait an event")
        for test in self.failed:
            print(f"FAILED {test}")
        for reason in self.reasons:
            print(f"FAILED {reason}")
        run = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "tests": self.unstable}
        history.write_text(json.dumps([*_runs(history), run][-_KEPT:], indent=1))


def judge(
    parts: Mapping[str, Part],
    statuses: Mapping[str, int],
    run_alone: Callable[[str, list[str]], str],
) -> Verdict:
    """Run what failed once more, alone, and return the verdict on the whole run.

    ``statuses``: exit status of each part; ``run_alone`` runs a command under a name, and returns
    its output."""
    verdict = Verdict()
    outcomes = {name: Outcome.read(part.outcome) for name, part in parts.items()}
    doubtful: dict[str, list[Failure]] = {}
    for name, outcome in outcomes.items():
        if outcome is None or not outcome.collected or statuses[name] not in (0, 1):
            verdict.reasons.append(f"{name}: its process ended with status {statuses[name]}")
        elif statuses[name] and not outcome.failures:
            verdict.reasons.append(f"{name}: status {statuses[name]}, though no test failed")
        elif parts[name].again:
            doubtful[name] = [failure for failure in outcome.failures if not failure.final]
    number = len({failure.test for failures in doubtful.values() for failure in failures})
    if number > MOST:
        print(f"\n{number} tests failed, more than {MOST}: none is run once more.")
        doubtful.clear()
    for name, failures in doubtful.items():
        for test in _passing_alone(name, parts[name], failures, run_alone):
            outcomes[name].passes_again(test)  # type: ignore[union-attr]
            verdict.unstable.append(test)
    for outcome in filter(None, outcomes.values()):
        verdict.counts.update(outcome.counts)
        verdict.failed += dict.fromkeys(failure.test for failure in outcome.failures)
    return verdict


def _passing_alone(
    name: str, part: Part, failures: list[Failure], run_alone: Callable[[str, list[str]], str]
) -> list[str]:
    """Run the tests of ``failures`` again, a process for each file; return those that pass.
    Print the outputs of both runs."""
    passing = []
    tests = list(dict.fromkeys(failure.test for failure in failures))
    files = itertools.groupby(sorted(tests), key=lambda test: test.partition("::")[0])
    for number, (_, group) in enumerate(files, 1):
        names = list(group)
        again = f"{name}-again-{number}"
        result = part.outcome.with_name(f"test-{again}.json")
        result.unlink(missing_ok=True)
        print(f"\nonce more, alone: {' '.join(names)}", flush=True)
        output = run_alone(again, [*part.again, f"--outcome={result}", *part.ids, *names])
        outcome = Outcome.read(result)
        whole = outcome is not None and outcome.collected
        red = {failure.test for failure in outcome.failures} if outcome and whole else set(names)
        ran = outcome.counts.get("passed", 0) + len(red) if outcome else 0
        if ran < len(names) or (outcome and outcome.counts.get("skipped")):
            red = set(names)  # a skip proves nothing
        for test in names:
            print(f"\n---- {'FAILED' if test in red else 'UNSTABLE'}: {test}")
            for failure in failures:
                if failure.test == test:
                    print(f"-- beside the others ({failure.when}):\n{failure.text}")
        print(f"-- alone:\n{output}", flush=True)
        passing += [test for test in names if test not in red]
    return passing


def _runs(history: Path) -> list[dict[str, list[str]]]:
    try:
        return list(json.loads(history.read_text()))
    except (OSError, ValueError):
        return []
