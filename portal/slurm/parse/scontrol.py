"""Nodes, partitions and reservations from ``scontrol show … -o``: one line, ``Key=value`` pairs.

Their free texts (a node's reason, a comment) are written by operators, not by users. Still the
first value of a key wins, so that a reason cannot change a state that stands before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...models.cluster.cluster import Node, Partition, Reservation
from .gres import pools, shares, tres, tres_gpus
from .values import (
    hosts,
    is_none,
    mebibytes,
    names,
    node_state,
    number,
    seconds,
    text_of,
    timestamp,
)

_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z_:/]*)=")
_RESTLESS = re.compile(r" (?:CPULoad|FreeMem|LastBusyTime|CurrentWatts|AveWatts|ExtSensors\w+)=\S*")
_WRITTEN_BY = re.compile(r"\s*\[[^\[\]@]*@([^\[\]]*)\]\s*$")


def nodes(text: str) -> dict[str, Node]:
    """Parse nodes by name from ``scontrol show node -d -o``; () GPUs if a node has none."""
    return {node.name: node for node in nodes_by_record(text).values()}


def nodes_by_record(text: str, known: Mapping[str, Node] | None = None) -> dict[str, Node]:
    """Parse nodes as ``nodes`` does, but by scontrol's text of each node, less the ever-changing
    values that the portal does not read (its load, its free memory).

    ``known`` is the last answer: a node whose text has not changed is the same object again.
    """
    known = known or {}
    by_record = {}
    for line in _lines(text, "NodeName="):
        head, reason, rest = line.partition(" Reason=")
        record = _RESTLESS.sub("", head) + reason + rest
        by_record[record] = known.get(record) or _node(_fields(line))
    return by_record


def _node(field: dict[str, str]) -> Node:
    name, reason = field["NodeName"], field.get("Reason", "")
    written = _WRITTEN_BY.search(reason)
    return Node.trusted(
        name=name,
        address=field.get("NodeAddr") or name,
        state=node_state(field.get("State", "UNKNOWN")),
        # CPUEfctv leaves out the CPUs that Slurm keeps for itself.
        cpus=number(field.get("CPUEfctv") or field.get("CPUTot", "")) or 0,
        cpus_allocated=number(field.get("CPUAlloc", "")) or 0,
        sockets=number(field.get("Sockets", "")) or 0,
        memory=_node_memory(field),
        memory_allocated=mebibytes(field.get("AllocMem", "")) or 0,
        gpus=pools(field.get("Gres", ""), field.get("GresUsed", "")),
        shares=shares(field.get("Gres", ""), field.get("GresUsed", "")),
        partitions=names(field.get("Partitions", "")),
        features=names(field.get("ActiveFeatures") or field.get("AvailableFeatures", "")),
        reason=text_of(_WRITTEN_BY.sub("", reason)),
        reason_at=timestamp(written[1]) if written else None,
    )


def partitions(text: str) -> dict[str, Partition]:
    """Parse partitions by name from ``scontrol show partition -o``, in Slurm's order."""
    by_name = {}
    for line in _lines(text, "PartitionName="):
        field = _fields(line)
        name = field["PartitionName"]
        by_name[name] = Partition(
            name=name,
            default=field.get("Default") == "YES",
            state=field.get("State", "UP"),
            nodes=hosts(field.get("Nodes", "")),
            max_time=seconds(field.get("MaxTime", "")),
            default_time=seconds(field.get("DefaultTime", "")),
            min_nodes=number(field.get("MinNodes", "")) or 0,
            max_nodes=number(field.get("MaxNodes", "")),
            max_cpus_per_node=number(field.get("MaxCPUsPerNode", "")),
            max_cpus_per_socket=number(field.get("MaxCPUsPerSocket", "")),
            max_memory_per_node=mebibytes(field.get("MaxMemPerNode", "")),
            max_memory_per_cpu=mebibytes(field.get("MaxMemPerCPU", "")) or None,
            default_memory_per_cpu=mebibytes(field.get("DefMemPerCPU", "")),
            default_memory_per_node=mebibytes(field.get("DefMemPerNode", "")),
            allow_accounts=names(field.get("AllowAccounts", "")),
            deny_accounts=names(field.get("DenyAccounts", "")),
            allow_qos=names(field.get("AllowQos", "")),
            deny_qos=names(field.get("DenyQos", "")),
            qos=text_of(field.get("QoS", "")),
            allow_groups=names(field.get("AllowGroups", "")),
            alloc_nodes=_submit_hosts(field.get("AllocNodes", "")),
            root_only=field.get("RootOnly") == "YES",
            no_root_jobs=field.get("DisableRootJobs") == "YES",
            requires_reservation=field.get("ReqResv") == "YES",
            hidden=field.get("Hidden") == "YES",
            whole_nodes=field.get("OverSubscribe") == "EXCLUSIVE",
            one_user=field.get("ExclusiveUser") == "YES" or field.get("Exclusive") == "USER",
            resume_seconds=number(field.get("ResumeTimeout", "")),
            priority_tier=number(field.get("PriorityTier", "")) or 0,
            preemptable=field.get("PreemptMode", "OFF") not in ("OFF", "GANG"),
        )
    return by_name


def _submit_hosts(text: str) -> tuple[str, ...]:
    """Return the hosts of AllocNodes; () for all."""
    return () if text in ("ALL", "") else hosts(text)


def reservations(text: str) -> dict[str, Reservation]:
    """Parse reservations by name from ``scontrol show reservation -o``; {} if there are none."""
    by_name = {}
    for line in _lines(text, "ReservationName="):
        field = _fields(line)
        name = field["ReservationName"]
        gpus, gpu_type = tres_gpus(field.get("TRES", ""))
        by_name[name] = Reservation(
            name=name,
            state=field.get("State", ""),
            start_time=timestamp(field.get("StartTime", "")) or 0.0,
            end_time=timestamp(field.get("EndTime", "")) or 0.0,
            nodes=hosts(field.get("Nodes", "")),
            users=names(field.get("Users", "")),
            accounts=names(field.get("Accounts", "")),
            groups=names(field.get("Groups", "")),
            partition="" if is_none(field.get("PartitionName", "")) else field["PartitionName"],
            flags=names(field.get("Flags", "")),
            gpus=gpus,
            gpu_type=gpu_type,
        )
    return by_name


def _node_memory(field: dict[str, str]) -> int:
    """Return the MiB that jobs can have: RealMemory less MemSpecLimit."""
    memory = mebibytes(field.get("RealMemory", ""))
    if memory is None:
        memory = mebibytes(tres(field.get("CfgTRES", "")).get("mem", "")) or 0
    return max(0, memory - (mebibytes(field.get("MemSpecLimit", "")) or 0))


def _lines(text: str, start: str) -> list[str]:
    """Return the records; a line that does not start one is joined to the one before."""
    records: list[str] = []
    for line in text.split("\n"):
        if line.startswith(start):
            records.append(line)
        elif records and line.strip():
            records[-1] += " " + line.strip()
    return records


def _fields(line: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    parts = _KEY.split(line)
    for key, value in zip(parts[1::2], parts[2::2], strict=True):
        if key == "Reason" and key not in fields:
            # A reason may contain "word=": it extends to the name of its author.
            rest = line[line.index(" Reason=") + 8 :]
            by = re.match(r".*?\[[^\[\]@]*@[^\[\]]*\]", rest)
            value = by[0] if by else value
        fields.setdefault(key, value.strip())
    return fields
