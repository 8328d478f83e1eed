"""Base class of endpoints that a session's server calls with its own token: no person asks.

Such a token is limited to its own server (``SCOPE!server=NAME/SERVER``), and may not use the rest
of this service.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, NoReturn

from jupyterhub.services.auth import HubAuth, HubOAuth

from portal.errors import InvalidRequest, NotAllowed, Starting, Unavailable
from portal.models.audit import AuditedAction, Outcome
from portal.models.cluster.cluster import Job
from portal.models.scope import SESSION_OWN
from portal.models.session.session import SessionRecord

from .action import Action
from .base import NotLoggedIn

_LARGEST = 64 * 1024  # bytes; a report of 64 GPUs is 12 kB
# Longer than for people, or a thousand sessions would keep the Hub busy. A report of a session
# that is over is refused all the same, since its job is over too.
_TOKEN_AGE = 300  # seconds
# Names the job that asks: a session being resized has two. The asker may know of both anyway.
_JOB_HEADER = "X-Portal-Job"
_NOT_YET = "The portal has not seen this session's job yet."


class OwnSession(Action):
    """Base class of endpoints for a session's own server, whose operations all need ``scope``.

    ``server``: the asker's server ("" is the default one); None: the token is not a session's.
    """

    scope: ClassVar[str] = SESSION_OWN
    largest: ClassVar[int] = _LARGEST  # bytes of a body
    unheard = Starting  # the session asks again
    server: str | None = None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.operations = {
            name: replace(operation, scope=cls.scope) for name, operation in cls.operations.items()
        }

    def initialize(self) -> None:
        # Not HubOAuth: a browser's cookie is no way in here.
        auth = self.application.settings.get("session_tokens")
        if auth is None:
            auth = HubAuth(parent=HubOAuth.instance().parent, cache_max_age=_TOKEN_AGE)
            self.application.settings["session_tokens"] = auth
        self.hub_auth = auth

    async def hub_model(self) -> Any:
        """Return the Hub's model of the asker; uncached for what acts on a session.

        Such requests are rare, and the server's name may be another session's by now and the token
        of the one before revoked.
        """
        token = self.hub_auth.get_token(self)
        if self.scope != SESSION_OWN or self.request.method in ("GET", "HEAD") or not token:
            return await super().hub_model()
        return await self.hub_auth.user_for_token(token, use_cache=False, sync=False)

    async def prepare(self) -> None:
        if len(self.request.body) > self.largest:
            raise InvalidRequest(f"The body is longer than {self.largest} bytes.")
        await super().prepare()

    def check_hub_user(self, model: dict[str, Any]) -> dict[str, Any]:
        """Accept any token; ``may`` then refuses those of no session, and that is audited."""
        self.server = own_server(model, self.scope)
        return model

    def may(self, scope: str) -> bool:
        """Return True if the token is a session's.

        Operations here need the class's scope, and a session's token holds no other.
        """
        return self.server is not None

    def refuse_stranger(self) -> NoReturn:
        raise NotLoggedIn("Send the session's own token in the header 'Authorization: token …'.")

    async def own(self) -> tuple[SessionRecord, Job]:
        """Return the session whose token this is, and its running or waiting job.

        Raises Unavailable while the portal does not see it yet, and for a server whose job is
        still to take the session's place; Starting.
        """
        view, name = self.view, self.person.name
        asker = self.request.headers.get(_JOB_HEADER, "")
        pairs = [
            (record, view.snapshot.jobs[job_id])
            for job_id, record in view.sessions.items()
            if (record.user, record.server) == (name, self.server)
            and job_id in view.snapshot.jobs
            and asker in ("", job_id)
        ]
        if pairs:
            return max(pairs, key=lambda pair: pair[0].submitted_at)
        raise Unavailable(_NOT_YET)

    async def own_record(self) -> SessionRecord:
        """Return the session whose token this is, even if it began after the last poll of Slurm.

        A room's first guests come sooner than that. Raises what ``own`` does, and
        StoreUnavailable.
        """
        try:
            return (await self.own())[0]
        except Unavailable:
            asker = self.request.headers.get(_JOB_HEADER, "")
            records = [record for record in await self._recorded() if asker in ("", record.job_id)]
            if not records:
                raise
            return max(records, key=lambda record: record.submitted_at)

    async def _recorded(self) -> list[SessionRecord]:
        """Return the live sessions of the asker's server that have a job, from the database.

        It can be newer than the view.
        """
        records, _ = await self.parts.store.sessions.find(
            user=self.person.name, ended=False, limit=500
        )
        return [record for record in records if record.server == self.server and record.job_id]

    async def own_job(self, job_id: str, action: AuditedAction) -> tuple[SessionRecord, Job]:
        """Return the job and its session, if that is the asker's and the job has not ended.

        Raises NotAllowed, with an entry for ``action`` in the audit log; Unavailable.
        """
        view, name = self.view, self.person.name
        record, job = view.sessions.get(job_id), view.snapshot.jobs.get(job_id)
        own = record and (record.user, record.server) == (name, self.server)
        if record is not None and job is not None and own:
            return record, job
        if self.parts.moves.expects(job_id):
            raise Unavailable("This job will replace a session, but is not a session yet.")
        if record is None:
            # It can be younger than the view, or Slurm is away.
            if any(session.job_id == job_id for session in await self._recorded()):
                raise Unavailable(_NOT_YET)
        await self.parts.audit(
            self,
            action,
            f"job {job_id}",
            owner=record.user if record else job.user if job else "",
            outcome=Outcome.REFUSED,
            detail=f"This request came from {name}'s server '{self.server}', which does not run in "
            "that job.",
        )
        raise NotAllowed(f"Job {job_id} is not this session's job.")


def own_server(model: dict[str, Any], scope: str) -> str | None:
    """Return the name of the server whose token this is; None for any other token.

    JupyterHub writes the names in the filter without escapes, ``!server=NAME/SERVER``, and a
    user's name holds no slash (jupyterhub/scopes.py, expand_scopes).
    """
    own = f"{scope}!server="
    held = [granted for granted in model.get("scopes", ()) if granted.startswith(own)]
    if len(held) != 1 or model.get("kind", "user") != "user":
        return None
    user, slash, server = held[0].removeprefix(own).partition("/")
    return server if slash and user and user == model.get("name") else None
