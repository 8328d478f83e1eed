"""Program of a worker's job: a worker of Dask, in the Python of the notebook.

It imports no other module of this package, which that Python may lack. `starter` gives it its
options as JSON; the keys are in the cluster's record.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

_CONNECTED = 60  # seconds in which the scheduler must answer
_MOVED = 20.0  # seconds for the data of a worker that is told to end


def security(certificate: str, private_key: str) -> Any:
    """Return Dask's settings by which all in the cluster trust its one certificate, and nothing is
    sent in the clear. Without the key, nobody is let in (mutual TLS)."""
    from distributed.security import Security

    keys = {}
    for role in ("client", "scheduler", "worker"):
        keys |= {f"tls_{role}_cert": certificate, f"tls_{role}_key": private_key}
    return Security(require_encryption=True, tls_ca_file=certificate, **keys)


def private(base: Any, socket: str = "") -> Any:
    """Return the class ``base`` of a scheduler or worker, whose pages are on a Unix ``socket``, and
    not at all if that is "": every user of a node could read them at a port."""

    class Private(base):  # type: ignore[misc]
        def start_http_server(
            self,
            routes: Any,
            dashboard_address: Any,
            default_port: int = 0,
            ssl_options: Any = None,
        ) -> None:
            from distributed.http.routing import RoutingApplication
            from tornado.httpserver import HTTPServer
            from tornado.netutil import bind_unix_socket

            self.http_application = RoutingApplication(routes)
            self.http_server = HTTPServer(self.http_application)
            self.http_server.port = 0
            if socket:
                self.services["dashboard"] = self.http_server  # it is stopped with the others
                self.http_server.add_socket(bind_unix_socket(socket, 0o600))

    Private.__name__ = base.__name__
    return Private


async def work(record: dict[str, Any], own: dict[str, Any]) -> None:
    """Work until the scheduler ends it or is gone, its lifetime is over, or the job is stopped."""
    from distributed import Worker

    worker = await private(Worker)(
        record["address"],
        name=own["name"],
        nthreads=own["threads"] or None,
        memory_limit=own["memory"] or "auto",
        port=record["ports"].replace("-", ":") or 0,
        security=security(record["certificate"], record["private_key"]),
        dashboard=False,
        death_timeout=_CONNECTED,
        lifetime=own["lifetime"] or None,
    )
    stopping: list[Any] = []

    def stop() -> None:
        if worker.status.name in ("closing", "closed"):
            return
        # Its data go to other workers, unless they have gone: nothing is computed twice.
        retired = worker.status.name == "closing_gracefully"
        close = worker.close if retired else worker.close_gracefully
        closing = close(reason="its job ends")
        stopping.append(asyncio.ensure_future(_within(closing, _MOVED, worker)))

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    await worker.finished()


async def _within(closing: Any, seconds: float, worker: Any) -> None:
    try:
        await asyncio.wait_for(closing, seconds)
    except Exception as error:  # its scheduler may be gone
        print(f"The worker could not move its data: {error!r}", file=sys.stderr)
        await worker.close(reason="its job ends")


def main(text: str) -> None:
    """Run a worker. Exits with 72 and a sentence if that is impossible."""
    own = json.loads(text)
    record = json.loads(Path(own["record"]).read_text("utf-8"))
    sys.path[0] = record["cwd"]  # as in the notebook; it was this file's folder
    try:
        asyncio.run(work(record, own))
        status = 0
    except ImportError as error:
        print(f"This worker's Python has no package of Dask: {error}", file=sys.stderr)
        status = 72
    except (OSError, TimeoutError, asyncio.TimeoutError) as error:
        print(f"The scheduler at {record['address']} does not answer: {error}", file=sys.stderr)
        status = 73
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # a task's thread may still run


if __name__ == "__main__":
    main(sys.argv[1])
