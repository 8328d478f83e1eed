"""Where sessions report what their GPUs and memory do. The asker is a session, not a person.

A session's token may do little: report of its own server (``TELEMETRY_REPORT!server=NAME/SERVER``),
and it may not use the rest of this service.
"""

from __future__ import annotations

import math
import time
from typing import Any, NoReturn

from jupyterhub.services.auth import HubAuth, HubOAuth

from portal.errors import InvalidRequest, NotAllowed, StoreUnavailable, TooManyRequests, Unavailable
from portal.models.audit import Outcome
from portal.models.cluster import Job
from portal.models.scope import TELEMETRY_REPORT
from portal.models.session import SessionRecord
from portal.models.telemetry import TelemetryReport
from portal.telemetry import sums

from .base import NotLoggedIn
from .endpoint import Endpoint, Nothing, Operation

_LARGEST = 64 * 1024  # bytes; a report of 64 GPUs is 12 kB
# Longer than for people: a thousand sessions would ask the Hub for nothing else. A session that is
# over is refused all the same, since its job is.
_TOKEN_AGE = 300  # seconds
_OWN = f"{TELEMETRY_REPORT}!server="


class TelemetryEndpoint(Endpoint):
    """``telemetry``: a session's report of itself."""

    path = "telemetry"
    operations = {
        "post": Operation(
            summary="Report what the session's own GPUs and memory do. Only a session's own token "
            "may, and only of its own job.",
            answer=Nothing,
            body=TelemetryReport,
            scope=TELEMETRY_REPORT,
            errors=(429,),
            tags=("telemetry",),
        )
    }

    server: str | None = None  # the asker's server: "" is the default one, None: it is no session
    _wait = 0.0

    def initialize(self) -> None:
        # Not HubOAuth: a browser's cookie is no way in here.
        auth = self.application.settings.get("reporters")
        if auth is None:
            auth = HubAuth(parent=HubOAuth.instance().parent, cache_max_age=_TOKEN_AGE)
            self.application.settings["reporters"] = auth
        self.hub_auth = auth

    async def prepare(self) -> None:
        if len(self.request.body) > _LARGEST:
            raise InvalidRequest(f"The report is longer than {_LARGEST} bytes.")
        await super().prepare()

    def check_hub_user(self, model: dict[str, Any]) -> dict[str, Any]:
        """Everyone with a token comes as far as ``may``, which the audit log hears of."""
        self.server = own_server(model)
        return model

    def may(self, scope: str) -> bool:
        return self.server is not None

    def refuse_stranger(self) -> NoReturn:
        raise NotLoggedIn("Send the session's own token in the header 'Authorization: token …'.")

    async def on_post(self) -> None:
        parts, now, report = self.parts, time.time(), self.body
        who = (self.person.name, self.server)
        self._wait = parts.telemetry.pace.admit(who, now)
        if self._wait:
            raise TooManyRequests("This session reports too often; its next report is taken later.")
        record, job = await self._own_job(report.job_id)
        self._check_memory(job)
        parts.telemetry.take(job, report, now)
        seconds = parts.telemetry.pace.passed(who, now)
        try:
            await parts.store.reports.add(
                record.id,
                at=now,
                memory_used=report.memory_used,
                **sums(report, seconds, parts.telemetry.busy),
            )
        except StoreUnavailable as error:
            # The report is shown; what it would have added to the session's sums is lost.
            parts.log.debug("A report was not added up: %s", error)

    async def _own_job(self, job_id: str) -> tuple[SessionRecord, Job]:
        """The session and its job, when the asker's session is the one of this job, and runs."""
        view, name = self.view, self.person.name
        record, job = view.sessions.get(job_id), view.snapshot.jobs.get(job_id)
        own = record and (record.user, record.server) == (name, self.server)
        if record is not None and job is not None and own:
            return record, job
        if record is None:
            # It can be younger than the view, or Slurm is away.
            found, _ = await self.parts.store.sessions.find(user=name, ended=False, limit=500)
            if any((one.server, one.job_id) == (self.server, job_id) for one in found):
                raise Unavailable("The portal does not see this session's job yet.")
        await self.parts.audit(
            self,
            "report-telemetry",
            f"job {job_id}",
            owner=record.user if record else job.user if job else "",
            outcome=Outcome.REFUSED,
            detail=f"The report came from {name}'s server '{self.server}', which is not that job.",
        )
        raise NotAllowed(f"Job {job_id} is not this session's job.")

    def _check_memory(self, job: Job) -> None:
        """A job cannot use more memory than its node has. Slurm may be told less than there is
        (slurm.conf(5), RealMemory), so twice that is where belief ends."""
        node = self.view.snapshot.nodes.get(job.nodes[0]) if job.nodes else None
        used = self.body.memory_used
        if node is not None and node.memory > 1 and (used or 0) > 2 * node.memory:
            raise InvalidRequest(
                f"The report claims {used} MiB of memory, and {node.name} has {node.memory}.",
                "memory_used",
            )

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        if self._wait:
            self.set_header("Retry-After", str(math.ceil(self._wait)))
        super().write_error(status_code, **kwargs)


def own_server(model: dict[str, Any]) -> str | None:
    """The name of the server whose token this is; None for any other token.

    JupyterHub writes the filter as the names are, without escapes: ``!server=NAME/SERVER``, and
    a user's name holds no slash (jupyterhub/scopes.py, expand_scopes).
    """
    held = [scope for scope in model.get("scopes", ()) if scope.startswith(_OWN)]
    if len(held) != 1 or model.get("kind", "user") != "user":
        return None
    user, slash, server = held[0].removeprefix(_OWN).partition("/")
    return server if slash and user and user == model.get("name") else None


ENDPOINTS = (TelemetryEndpoint,)
