"""Tests of Slurm, and of the Hub with it, on versions of Slurm that this Debian does not have.

    python -m tests.live_slurm                 # every version
    python -m tests.live_slurm 24.11           # a single one: 24.11 or newest
    python -m tests.live_slurm newest -- tests/hub/sessions/test_session.py -k gpu    # other tests
    python -m tests.live_slurm newest --outcome=PATH    # and its outcome: support/suite/outcomes.py

A separate stage of the suite. Each version runs in a root file system of the Debian suite that has
it (tests/support/containers/debian_root.py). Versions that this machine or its mirror cannot
provide are skipped, by name.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "support/containers"))
sys.path.insert(0, str(Path(__file__).resolve().parent / "support/suite"))
import debian_root  # in these folders
import outcomes
import runs

from portal.demo.environments.python_packages import build_session_wheel
from portal.demo.home import Home

# Debian suites with each version; the first of which this machine can make a root is used.
SUITES = {"24.11": ("trixie",), "newest": ("testing", "unstable")}
TESTS = (
    "tests/integration/slurm/test_estimates_slurm.py",
    "tests/integration/slurm/test_site_slurm.py",
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
    before = sys.argv[1 : sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    parser = argparse.ArgumentParser(prog="tests.live_slurm", usage=__doc__)
    parser.add_argument("versions", nargs="*")
    parser.add_argument("--outcome", type=lambda path: Path(path).absolute())
    asked = parser.parse_args(before)
    if unknown := set(asked.versions) - set(SUITES):
        parser.error(f"there is no Slurm {min(unknown)} here: {', '.join(SUITES)}")
    named, more = asked.versions or list(SUITES), sys.argv[len(before) + 2 :]
    failed = [name for name in named if _run(name, more or list(TESTS), asked.outcome)]
    if failed:
        print(f"Failed on Slurm {', '.join(failed)}.")
    return int(bool(failed))


def _run(name: str, tests: list[str], outcome: Path | None) -> int:
    cache = Home.find().cache
    began = time.monotonic()
    # A root has no npm: JupyterLab's extension is built here, where the roots find it.
    with tempfile.TemporaryDirectory() as folder:
        build_session_wheel(cache, Path(folder))
    for suite in SUITES[name]:
        try:
            root = debian_root.make(suite, cache)
            python = debian_root.python(root, cache)
            break
        except debian_root.NoRoot as error:
            print(f"Slurm {name}: skipped with Debian's '{suite}': {error}", flush=True)
        except debian_root.RootBroken as error:
            print(f"Slurm {name} with Debian's '{suite}': {error}", flush=True)
            return 1
    else:
        if outcome:
            outcomes.Outcome({"skipped": 1}).write(outcome)
        return 0
    version = debian_root.slurm_version(root)
    print(f"Slurm {version} ('{suite}'), ready after {time.monotonic() - began:.0f} s", flush=True)
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    with tempfile.TemporaryDirectory(dir=root.parent) as folder:
        written = Path(folder) / "outcome"
        inside = f"--outcome={debian_root.OUTCOMES}/{written.name}"
        status = debian_root.enter(root, cache, [*pytest, inside], outcomes=Path(folder))
        if outcome and written.exists():
            outcome.write_bytes(written.read_bytes())
    print(f"Slurm {version}: {time.monotonic() - began:.0f} s, status {status}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
