"""Program of the kernelspecs of job kernels: ``python -m portal_session.job_kernels``."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

from .relay import relay


def main() -> None:
    """Run a relay until Jupyter ends the kernel."""
    parser = argparse.ArgumentParser(prog="portal-job-kernel", description=__doc__)
    parser.add_argument("connection_file", type=Path)
    parser.add_argument("--request", type=json.loads, required=True, help="JSON: kernel, resources")
    parser.add_argument("--language", default="python")
    parser.add_argument("--spec", default="", help="name of the kernelspec")
    parser.add_argument(
        "--owner",
        type=int,
        default=0,
        help="PID of the process that starts this one, if no later process adopts the kernel; the "
        "connection file is then in a separate folder",
    )
    options = parser.parse_args()
    asyncio.run(
        relay(
            options.connection_file,
            options.request,
            options.language,
            options.spec,
            owner=options.owner,
        )
    )


if __name__ == "__main__":
    main()
