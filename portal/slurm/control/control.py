"""Changes to jobs and nodes: cancel, hold, release and extend jobs, drain and resume nodes.

Slurm has the last word. The rights of the portal's own account are queried beforehand, so that a
page shows no button that cannot work, and names the missing right instead.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from typing import Any, Literal

from traitlets import Float, Instance
from traitlets.config import LoggingConfigurable

from portal.cache import SharedAnswer
from portal.errors import Conflict, InvalidRequest, NotAllowed, PortalError, SlurmRefused
from portal.models.cluster.rights import Rights
from portal.models.plain_text import plain_line

from ..commands import queries
from ..commands.run import SlurmRunner, own_account
from ..parse import rights as parsed

# squeue's ids: "12", "12_3" (a task of an array), "12_[4-9%2]" (its tasks that still wait),
# "12+1" (a part of a heterogeneous job).
JOB_ID = r"[0-9]{1,12}(?:_[0-9]{1,9}|_\[[0-9,%.:-]{1,400}\]|\+[0-9]{1,4})?"
NODE_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_JOB = re.compile(r"([0-9]+)(_[0-9]+\Z)?(_\[)?")

# slurm_strerror (src/common/slurm_errno.c), as in portal/slurm/commands/errors.py.
_OVER = ("job has already finished", "invalid job id", "already completing or completed")
_NO_RIGHT = ("invalid user id", "permission denied")
_NODE_STATE = "invalid node state"

# slurmctld's own rules (validate_operator for jobs, validate_super_user for nodes, in
# src/slurmctld/proc_req.c and job_mgr.c): sacctmgr(1) names the levels.
_ENOUGH = {"jobs": ("Operator", "Administrator"), "nodes": ("Administrator",)}
_WHAT = {
    "jobs": "Cancelling, holding and releasing other users' jobs, and extending any job, require",
    "nodes": "Draining and resuming nodes require",
}
_UNKNOWN_FOR = 5.0  # seconds until the next query after one that was not answered


class ClusterControl(LoggingConfigurable):
    """Actions on jobs and nodes as the portal's own Slurm account; ``cancel`` also as a user."""

    runner = Instance(SlurmRunner, help="Runner of the commands.")

    rights_ttl = 60.0  # seconds for which the rights of the portal's Slurm account are cached

    patience = Float(3.0)  # seconds that a page waits for these rights; then it has no buttons

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._rights = SharedAnswer(self._ask, ttl=self._lasts, keep=False)

    def _runner_default(self) -> SlurmRunner:
        return SlurmRunner(parent=self)

    # -- rights --------------------------------------------------------------------------------

    async def rights(self, *, younger_than: float | None = None) -> Rights:
        """Return the rights of the portal's Slurm account, at most ``younger_than`` seconds old
        (default: the trait); concurrent callers share one query. Never raises: if Slurm does not
        answer, nothing is known."""
        moment = None if younger_than is None else time.monotonic() - younger_than
        try:
            return await self._rights.get(newer_than=moment, patience=self.patience)
        except TimeoutError:
            return _unknown("Slurm has not answered yet.")

    def _lasts(self, rights: Rights) -> float:
        return self.rights_ttl if rights.known else min(self.rights_ttl, _UNKNOWN_FOR)

    async def need(self, what: Literal["jobs", "nodes"]) -> None:
        """Raise NotAllowed, naming the missing right, if Slurm is known to refuse.

        A refusal is never based on an old answer: the right may have been granted a moment ago.
        """
        rights = await self.rights()
        if rights.known and not getattr(rights, what):
            rights = await self.rights(younger_than=1)
        if rights.known and not getattr(rights, what):
            raise NotAllowed(rights.missing[what])

    async def _ask(self) -> Rights:
        try:
            return await self._found()
        except (PortalError, ValueError) as error:
            self.log.warning("The rights of the portal's Slurm account are not known: %s", error)
            return _unknown(str(error))

    async def _found(self) -> Rights:
        config = parsed.config((await self.runner.run(queries.CONFIG)).stdout)
        uid, account = await asyncio.to_thread(own_account)
        if uid in (0, parsed.uid_of(config.get("SlurmUser", ""))):
            return Rights(jobs=True, nodes=True)
        accounting = config.get("AccountingStorageType", "").endswith("/slurmdbd")
        level = ""
        if accounting and account:
            output = await self.runner.run(queries.admin_level(account))
            level = parsed.admin_levels(output.stdout).get(account, "None")
        missing = {
            what: _missing(what, account, level)
            for what, enough in _ENOUGH.items()
            if level not in enough
        }
        return Rights(jobs="jobs" not in missing, nodes="nodes" not in missing, missing=missing)

    # -- actions -------------------------------------------------------------------------------

    async def cancel(self, job_id: str, user: str | None = None) -> None:
        """Cancel a job as the portal's account, or as ``user`` through sudo.

        Raises Conflict if it has ended already, SlurmRefused, SlurmUnavailable.
        """
        id_, waiting_only = _job(job_id)
        how = ["--state=PENDING"] if waiting_only else []
        await self._tell(["scancel", *how, id_], "jobs", job_id, user)

    async def hold(self, job_id: str) -> None:
        """Keep a waiting job from starting. Raises as ``cancel`` does."""
        await self._tell(["scontrol", "hold", _job(job_id)[0]], "jobs", job_id)

    async def release(self, job_id: str) -> None:
        """Let a held job start. Raises as ``cancel`` does."""
        await self._tell(["scontrol", "release", _job(job_id)[0]], "jobs", job_id)

    async def extend(self, job_id: str, limit: int) -> None:
        """Set a running job's time limit to ``limit`` seconds, rounded up to Slurm's minutes.

        Slurm lets only an Operator raise it, and checks nothing else then: the caller decides what
        is allowed (portal/launch/extending.py). Raises as ``cancel`` does.
        """
        argv = ["scontrol", "update", f"JobId={_job(job_id)[0]}"]
        await self._tell([*argv, f"TimeLimit={math.ceil(limit / 60)}"], "jobs", job_id)

    async def start_without_waiting(self, job_id: str) -> None:
        """Let a job start that waits for others (sbatch(1), ``--dependency``). Raises as ``cancel``
        does."""
        argv = ["scontrol", "update", f"JobId={_job(job_id)[0]}", "Dependency="]
        await self._tell(argv, "jobs", job_id)

    async def drain(self, node: str, reason: str) -> None:
        """Let no new job start on a node. ``reason`` is one plain line, which Slurm keeps as it
        is.

        Raises InvalidRequest for a reason that scontrol would misread, SlurmRefused,
        SlurmUnavailable.
        """
        argv = ["scontrol", "update", f"NodeName={_node(node)}", "State=DRAIN"]
        await self._tell([*argv, f"Reason={checked_reason(reason)}"], "nodes", node)

    async def resume(self, node: str) -> None:
        """Let jobs start on a node again. Raises Conflict if it is not drained or down."""
        argv = ["scontrol", "update", f"NodeName={_node(node)}", "State=RESUME"]
        await self._tell(argv, "nodes", node)

    async def _tell(self, argv: list[str], what: str, target: str, user: str | None = None) -> None:
        try:
            await self.runner.run(argv, user=user)
        except SlurmRefused as error:
            message = error.message.lower()
            if any(phrase in message for phrase in _OVER):
                raise Conflict(f"Job {target} has already ended.") from None
            if _NODE_STATE in message:
                raise Conflict(f"Node {target} is neither drained nor down.") from None
            if user is None and any(phrase in message for phrase in _NO_RIGHT):
                missing = (await self.rights(younger_than=0)).missing.get(what, "")
                raise SlurmRefused(f"{error.message} {missing}".strip()) from None
            raise


def checked_reason(text: str) -> str:
    """Return ``text`` if it can follow ``Reason=``; else raise InvalidRequest.

    scontrol removes a quote at either end (scontrol_update_node in src/scontrol/update_node.c),
    and a newline would break the record that everyone reads.
    """
    try:
        return plain_line(text)
    except ValueError as error:
        raise InvalidRequest(f"The reason is not valid: {error}.", field="reason") from None


def _job(job_id: str) -> tuple[str, bool]:
    """Return the id by which scancel and scontrol know squeue's ``job_id``, and whether only its
    waiting tasks are meant. squeue shortens their list, so the array itself is named; a
    heterogeneous job is a single job to Slurm while it waits. Raises InvalidRequest for anything
    that is not an id."""
    if not re.fullmatch(JOB_ID, job_id):
        raise InvalidRequest(f"{job_id!r} is not a job id.", field="job_id")
    match = _JOB.match(job_id)
    assert match is not None  # JOB_ID matched
    return match[1] + (match[2] or ""), bool(match[3])


def _node(name: str) -> str:
    # Slurm reads "ALL" as every node, and brackets and commas as several.
    if not re.fullmatch(NODE_NAME, name) or name.upper() == "ALL":
        raise InvalidRequest(f"{name!r} is not the name of a node.", field="name")
    return name


def _level(what: str) -> str:
    return f"AdminLevel={_ENOUGH[what][0]}"


def _missing(what: str, account: str, level: str) -> str:
    if not level:
        return (
            f"{_WHAT[what]} the account of SlurmUser: without accounting, '{account}' cannot "
            "have an AdminLevel."
        )
    return (
        f"{_WHAT[what]} {_level(what)} for the Slurm account '{account}', which has "
        f"AdminLevel={level}: sacctmgr modify user {account} set "
        f"adminlevel={_ENOUGH[what][0]}"
    )


def _unknown(why: str) -> Rights:
    message = f"The rights of the portal's Slurm account are not known now. {why}"
    return Rights(known=False, missing=dict.fromkeys(_ENOUGH, message))
