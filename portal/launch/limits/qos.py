"""QOS of a session: which one it has, where it may be used, and whose limits count before it.

slurm.conf(5) "AllowQos", "DenyQos", "QOS"; sacctmgr(1), flags of a QOS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...models.cluster.cluster import Association, ClusterSnapshot, Partition, Qos

OVER_PARTITION = "OverPartQOS"  # the job's QOS comes before the partition's


def charged(
    account: str | None, partition: str | None, associations: Sequence[Association]
) -> list[Association]:
    """Return the associations that a job may be charged to: of the ``account``, else of the
    default one; those bound to the ``partition`` before those bound to none."""
    if account:
        rows = [row for row in associations if row.account == account]
    else:
        rows = [row for row in associations if row.is_default_account] or [*associations]
    bound = [row for row in rows if row.partition and row.partition == partition]
    return bound or [row for row in rows if not row.partition] or rows


def default_qos(rows: Sequence[Association]) -> str | None:
    """Return the QOS of a job that names none; None if ``rows`` do not agree on it."""
    names = {row.default_qos or (row.qos[0] if len(row.qos) == 1 else "normal") for row in rows}
    return names.pop() if len(names) == 1 else None


def effective_qos(
    qos: str | None,
    account: str | None,
    partition: str | None,
    associations: Sequence[Association] | None,
) -> str | None:
    """Return the QOS that a job would have; None if that is not known (``associations`` None)."""
    return qos or default_qos(charged(account, partition, associations or ()))


def admits_qos(partition: Partition, qos: str) -> bool:
    """Return True if jobs with this QOS may be in the partition."""
    if partition.allow_qos:
        return qos in partition.allow_qos
    return qos not in partition.deny_qos


def limiting(snapshot: ClusterSnapshot, qos: str | None, partition: str | None) -> list[Qos]:
    """Return the QOS whose limits a job has, in order of precedence."""
    where = snapshot.partitions.get(partition or "")
    own = snapshot.qos.get(qos or "")
    of_partition = snapshot.qos.get(where.qos) if where and where.qos else None
    if own and OVER_PARTITION in own.flags:
        return [candidate for candidate in (own, of_partition) if candidate]
    return [candidate for candidate in (of_partition, own) if candidate]


def longest_walls(
    associations: Sequence[Association], known: Mapping[str, Qos]
) -> list[int | None]:
    """Return the longest times, in seconds, of a person's associations and QOS; None: no limit."""
    walls: list[int | None] = []
    for row in associations:
        limits = [known[name].max_wall if name in known else None for name in row.qos]
        walls += [row.max_wall if limit is None else limit for limit in limits or [None]]
    return walls
