"""Tests of Slurm, and of the Hub with it, on versions of Slurm that this Debian does not have.

    python -m tests.live_slurm                 # every version
    python -m tests.live_slurm 24.11           # a single one: 24.11 or newest
    python -m tests.live_slurm newest -- tests/hub/sessions/test_session.py -k gpu    # other tests

A separate stage of the suite. Each version runs in a root file system of the Debian suite that has
it (tests/support/containers/debian_root.py). Versions that this machine or its mirror cannot
provide are skipped, by name.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "support/containers"))
sys.path.insert(0, str(Path(__file__).resolve().parent / "support/suite"))
import debian_root  # in these folders
import runs

# Debian suites with each version; the first of which this machine can make a root is used.
SUITES = {"24.11": ("trixie",), "newest": ("testing", "unstable")}
TESTS = (
    "tests/integration/slurm/test_estimates_slurm.py",
    "tests/integration/slurm/test_slurm_cluster.py",
    "tests/integration/slurm/test_course_reservations.py",
    "tests/integration/doctor/test_doctor_demo.py",
    "tests/hub/sessions/test_session.py",
    "tests/hub/sessions/test_endings.py",
    "tests/hub/launch/test_estimates.py",
)


def main() -> int:
    """Return 1 if a test has failed."""
    runs.end_on_signals()
    words, _, more = " ".join(sys.argv[1:]).partition("-- ")
    named = [word for word in words.split() if word != "--"] or list(SUITES)
    unknown = [name for name in named if name not in SUITES]
    if unknown:
        print(f"There is no Slurm '{unknown[0]}' here: {', '.join(SUITES)}.", file=sys.stderr)
        return 2
    failed = [name for name in named if _run(name, more.split() or list(TESTS))]
    if failed:
        print(f"Failed on Slurm {', '.join(failed)}.")
    return int(bool(failed))


def _run(name: str, tests: list[str]) -> int:
    cache = Path(os.environ.get("PORTAL_CACHE") or "/var/lib/data-scientist-portal/cache")
    began = time.monotonic()
    for suite in SUITES[name]:
        try:
            root = debian_root.make(suite, cache)
            python = debian_root.python(root, cache)
            break
        except debian_root.NoRoot as error:
            print(f"Slurm {name}: skipped with Debian's '{suite}': {error}", flush=True)
    else:
        return 0
    version = debian_root.slurm_version(root)
    print(f"Slurm {version} ('{suite}'), ready after {time.monotonic() - began:.0f} s", flush=True)
    status = debian_root.enter(
        root, cache, [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    )
    print(f"Slurm {version}: {time.monotonic() - began:.0f} s, status {status}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
