"""Home of a user with a long history: time of the service for the page with all of its parts, on a
synthetic cluster. In the history are a thousand sessions, and runs of a thousand points."""

from __future__ import annotations

import asyncio
import statistics
import time

from portal.models.session.session import SessionRecord, SessionState
from portal.store import Store

from . import runs
from .cluster import NotMeasured
from .report import Row
from .synthetic_service import ADMIN_TOKEN, USER_TOKEN, Service, synthetic_service

NODES, JOBS = 1000, 10_000
SESSIONS, TIMES = 1000, 60
WHAT = f"Home after {SESSIONS} sessions, with {NODES} synthetic nodes and {JOBS} jobs"
_ENVIRONMENTS = 7
_ENVIRONMENT = "name: environment-{0}\ntitle: Environment {0}\nkind: venv\npath: /opt/{0}\n"
_USERS = {"a user": ("user000", USER_TOKEN), "an admin": ("grace", ADMIN_TOKEN)}


def measure() -> list[Row]:
    """Return the rows; takes a minute."""
    with synthetic_service(NODES, JOBS, interval=20.0) as service:
        for number in range(_ENVIRONMENTS):
            text = _ENVIRONMENT.format(number)
            (service.environments / f"environment-{number}.yaml").write_text(text)
        asyncio.run(_fill(service.database))
        return [_row(service, who, token) for who, (_, token) in _USERS.items()]


async def _fill(database: str) -> None:
    """Write the histories, as the Hub and the service would have."""
    store, now = Store(url=database), time.time()
    for user, _ in _USERS.values():
        await store.sessions.save(*(_session(user, number, now) for number in range(SESSIONS)))
    await store.close()
    for user, _ in _USERS.values():
        await runs.fill(database, user, runs=5)


def _session(user: str, number: int, now: float) -> SessionRecord:
    began = now - 3600 * (number + 1)
    return SessionRecord(
        id=f"{user}-{number}",
        user=user,
        environment=f"environment-{number % _ENVIRONMENTS}",
        environment_title=f"Environment {number % _ENVIRONMENTS}",
        options={"gpus": 1, "gpu_type": "v100", "time": "2:00:00"},
        job_id=str(900_000 + number),
        state=SessionState.ENDED,
        submitted_at=began,
        started_at=began + 10,
        ended_at=began + 1800,
        ending_code="stopped",
        ending_message="The session was stopped.",
        log="The end of a log of a session.\n" * 200,
    )


def _row(service: Service, who: str, token: str) -> Row:
    """Measure from request to last byte. Parts that are late come after the page."""
    times, late = [], 0
    for _ in range(TIMES):
        began = time.perf_counter()
        late += b"<div aria-busy" in service.get("home", token)
        times.append((time.perf_counter() - began) * 1000)
    if late > TIMES / 2:
        raise NotMeasured(f"{late} of {TIMES} pages lacked a part")
    p95, median = statistics.quantiles(times, n=20)[-1], statistics.median(times)
    words = f"{WHAT}: the page of {who}, p95 (median {median:.0f}, {late} of {TIMES} lacked a part)"
    return Row(words, p95, "ms", goal="under 300", met=p95 < 300)
