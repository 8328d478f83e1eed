"""Submission of the job that is to take a session's place."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from jupyterhub import orm

from portal.errors import Conflict, InvalidRequest
from portal.launch.fields import INHERITED
from portal.launch.kinds import own_options
from portal.launch.request import LaunchRequest

from ..launch.job_log import make_log
from ..launch.submit import submit
from ..session import SessionSpawner
from .successor import Successor


def whole_options(now: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return all ``user_options`` of the new job: ``options``, and the session's environment and
    options that are not part of the choice.

    Raises InvalidRequest for another environment.
    """
    environment = now.get("environment")
    if options.get("environment", environment) != environment:
        raise InvalidRequest(
            "Only the resources of a running session can be changed, not its environment. "
            "Launch another session for that.",
            "environment",
        )
    keys = (*INHERITED, *own_options())  # a space's session stays one
    inherited = {key: now[key] for key in keys if key in now and key not in options}
    asked = {**inherited, **options, "environment": environment}
    if not asked.get("gpus"):
        asked.pop("gpu_type", None)
    return asked


async def queue_successor(
    spawner: SessionSpawner, request: LaunchRequest, by: str
) -> tuple[Successor, str]:
    """Submit the job that ``by`` asks for; return it, and the token of its server.

    Raises PortalError with the reason; then nothing was submitted, and the token is gone.
    """
    db = spawner.user.db
    own = db.get(orm.APIToken, spawner.token_id)
    if own is None:
        raise Conflict(
            "The Hub has lost this session's token, so its resources cannot be changed. Stop "
            "the session and launch it with the new resources."
        )
    asked_at = time.time()
    # With the rights of the running server.
    token = spawner.user.new_api_token(note=own.note, scopes=list(own.scopes))
    row = orm.APIToken.find(db, token)
    try:
        log_name = await make_log(spawner.log_directory, spawner.account)
        if spawner.internal_ssl:
            # A restarted Hub has none; the running server has its own in memory.
            spawner.cert_paths = await spawner.move_certs(await spawner.create_certs())
        job_id = await submit(spawner, request, log_name, token)
    except BaseException:
        db.delete(row)
        db.commit()
        raise
    successor = Successor(
        options=request.options(),
        partition_automatic=request.partition_automatic,
        words=f"Job {job_id} was submitted. The session continues.",
        by=by,
        asked_at=asked_at,
        job_id=job_id,
        token_id=row.id,
        log_name=log_name,
    )
    return successor, token
