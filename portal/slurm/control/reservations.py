"""Reservations that the portal creates, changes and removes, as its own account.

Slurm requires an Operator for that (validate_operator in src/slurmctld/proc_req.c; sacctmgr(1)
names the levels). Times are passed to scontrol(1) in UTC, so that no clock change can shift them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from portal.errors import Conflict, InvalidRequest, SlurmRefused
from portal.models.cluster.cluster import Reservation

from .. import parse
from ..commands import queries
from ..commands.run import SlurmRunner
from ..parse import rights

NAME = r"[a-z0-9][a-z0-9-]{0,62}-[0-9]{8}T[0-9]{4}"
# In an update, scontrol reads a sign before a name as "add" or "remove".
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+\\-]{0,127}")
_TYPE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}")
_UTC = {"TZ": "UTC"}
# Points of runs that still wait at its end go on outside of it; Slurm would hold them.
_FLAGS = "Flags=NO_HOLD_JOBS_AFTER"
# slurm_strerror (src/common/slurm_errno.c): ESLURM_RESERVATION_INVALID, …_BUSY, …_NAME_DUP.
_GONE = ("requested reservation is invalid", "reservation not found")
_BUSY = "requested reservation is in use"
_TAKEN = "duplicate reservation name"
_FULL = "requested nodes are busy"  # ESLURM_NODES_BUSY, behind a note about partitions
_GPUS_SINCE = (24, 11)  # tested there; 22.05 refuses, and versions in between were not tested
_NO_RIGHT = ("invalid user id", "access/permission denied", "permission denied")
_NO_TYPE = "invalid trackable resource"  # ESLURM_INVALID_TRES: slurmctld counts no such GRES
# What 22.05 says of GPUs (scontrol_parse_res_options in src/scontrol/create_res.c).
_NO_GPUS = re.compile(r"not supported with reservations|unknown parameter tres|invalid tres", re.I)


@dataclass(frozen=True)
class DesiredReservation:
    """Desired reservation. Times are Unix seconds; "" for ``account``, ``partition`` and
    ``gpu_type`` leaves the choice to Slurm."""

    name: str
    begins: float
    ends: float
    users: tuple[str, ...]  # not empty
    nodes: int = 0
    gpus: int = 0  # with ``nodes``: that many nodes, which have these GPUs in total
    partition: str = ""
    account: str = ""
    gpu_type: str = ""

    def words(self, began: bool = False) -> list[str]:
        """Return its arguments for scontrol; ``began``: the start can no longer be set. Raises
        InvalidRequest for names that scontrol would misread."""
        if not re.fullmatch(NAME, self.name):
            raise InvalidRequest(f"{self.name!r} is not the name of a reservation of the portal.")
        for user in self.users:
            if not _USER.fullmatch(user):
                raise InvalidRequest(f"{user!r} is not a valid user name for a reservation.")
        if self.gpu_type and not _TYPE.fullmatch(self.gpu_type):
            raise InvalidRequest(f"{self.gpu_type!r} is not a GPU type.")
        gpus = f"gres/gpu:{self.gpu_type}" if self.gpu_type else "gres/gpu"
        return [
            f"ReservationName={self.name}",
            *([] if began else [f"StartTime={_time(self.begins)}"]),
            f"EndTime={_time(self.ends)}",
            f"Users={','.join(self.users)}",
            *([f"Accounts={self.account}"] if self.account else []),
            *([f"PartitionName={self.partition}"] if self.partition else []),
            *([f"NodeCnt={self.nodes}"] if self.nodes else []),
            *([f"TRES={gpus}={self.gpus}"] if self.gpus else []),
        ]


class GpusNotReservable(SlurmRefused):
    """Refusal: Slurm reserves whole nodes only, or does not distinguish GPUs of this type."""


class ReservationControl:
    """Slurm's reservations, through ``runner``. Methods raise SlurmRefused, SlurmUnavailable."""

    def __init__(self, runner: SlurmRunner) -> None:
        self._runner = runner
        self._version = ""

    async def all(self) -> dict[str, Reservation]:
        """Return Slurm's reservations by name, queried now."""
        return parse.reservations((await self._runner.run(queries.RESERVATIONS)).stdout)

    async def version(self) -> str:
        """Return Slurm's version, such as "22.05.8"; queried once."""
        if not self._version:
            output = await self._runner.run(queries.CONFIG)
            self._version = rights.config(output.stdout).get("SLURM_VERSION", "")
        return self._version

    async def untracked(self, gpu_type: str) -> str:
        """Return why Slurm cannot reserve GPUs of this type ("": of any), as a sentence; "" if it
        can. It counts only what AccountingStorageTRES names (slurm.conf(5)). Queried anew each
        time."""
        config = rights.config((await self._runner.run(queries.CONFIG)).stdout)
        version = config.get("SLURM_VERSION", "")
        if tuple(int(part) for part in re.findall(r"[0-9]+", version)[:2]) < _GPUS_SINCE:
            return _whole_nodes(version)
        wanted = f"gres/gpu:{gpu_type}" if gpu_type else "gres/gpu"
        tracked = config.get("AccountingStorageTRES", "").lower().split(",")
        return "" if wanted.lower() in tracked else _not_tracked(wanted)

    async def create(self, wanted: DesiredReservation) -> None:
        """Create it. Raises Conflict if the name is taken, and GpusNotReservable."""
        try:
            arguments = ["scontrol", "create", "reservation", *wanted.words(), _FLAGS]
            await self._runner.run(arguments, env=_UTC)
        except SlurmRefused as error:
            raise await self._refusal_of(error, wanted) from None

    async def update(self, wanted: DesiredReservation, now: float) -> None:
        """Update the reservation of its name at ``now`` (Unix seconds). Raises Conflict if there
        is none."""
        arguments = wanted.words(began=wanted.begins <= now)
        try:
            await self._runner.run(["scontrol", "update", *arguments], env=_UTC)
        except SlurmRefused as error:
            raise await self._refusal_of(error, wanted) from None

    async def delete(self, name: str) -> None:
        """Delete a reservation, if it still exists. Raises Conflict while jobs are in it."""
        if not re.fullmatch(NAME, name):
            raise InvalidRequest(f"{name!r} is not the name of a reservation of the portal.")
        try:
            await self._runner.run(["scontrol", "delete", f"ReservationName={name}"])
        except SlurmRefused as error:
            message = error.message.lower()
            if any(phrase in message for phrase in _GONE):
                return
            if _BUSY in message:
                raise Conflict(f"Jobs use the reservation {name}.") from None
            raise

    async def _refusal_of(
        self, error: SlurmRefused, wanted: DesiredReservation
    ) -> Conflict | SlurmRefused:
        message = error.message.lower()
        if _TAKEN in message:
            return Conflict(
                f"A reservation {wanted.name} that the portal did not create already exists."
            )
        if any(phrase in message for phrase in _GONE):
            return Conflict(f"The reservation {wanted.name} no longer exists.")
        if _FULL in message:
            return SlurmRefused(
                "Not enough nodes are free at that time: other reservations, or jobs that may "
                "still run then, use them."
            )
        if wanted.gpus and _NO_TYPE in message:
            gpus = f"gres/gpu:{wanted.gpu_type}" if wanted.gpu_type else "gres/gpu"
            return GpusNotReservable(_not_tracked(gpus))
        if wanted.gpus and _NO_GPUS.search(message):
            return GpusNotReservable(_whole_nodes(await self.version()))
        if any(phrase in message for phrase in _NO_RIGHT):
            return SlurmRefused(
                f"{error.message} Either a user has no account on the cluster, or the "
                "portal's Slurm account is not an Operator (sacctmgr modify user … set "
                "adminlevel=Operator)."
            )
        return error


def _whole_nodes(version: str) -> str:
    return (
        f"This Slurm ({version}) reserves whole nodes, not GPUs. Enter the number of nodes "
        "that are needed."
    )


def _not_tracked(wanted: str) -> str:
    return (
        f"Slurm does not track '{wanted}' and cannot reserve it. An admin must add it to "
        "AccountingStorageTRES in slurm.conf and restart slurmctld."
    )


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S}"
