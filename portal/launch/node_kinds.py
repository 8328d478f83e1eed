"""Kinds of nodes of each partition, made once for each answer of Slurm: a cluster has thousands of
nodes and few kinds, and each choice on a launch page is compared with all partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..models.cluster.cluster import ClusterSnapshot, Node, Partition

_Nodes = Mapping[str, Node]
_Partitions = Mapping[str, Partition]


class NodeKind(NamedTuple):
    """Nodes of a partition that have the same features, GPUs, CPUs, sockets and memory."""

    node: Node  # one of them
    number: int  # of all
    usable: int  # number of those that take new jobs


_made: list[tuple[_Nodes, _Partitions, Mapping[str, tuple[NodeKind, ...]]]] = []  # the last two


def kinds_of(partition: Partition, snapshot: ClusterSnapshot) -> tuple[NodeKind, ...]:
    """Return the kinds of a partition's known nodes."""
    nodes, partitions = snapshot.nodes, snapshot.partitions
    if partitions.get(partition.name) is not partition:
        return _kinds(partition, {name: _key(node) for name, node in nodes.items()}, nodes)
    for of_nodes, of_partitions, kinds in _made:
        if of_nodes is nodes and of_partitions is partitions:
            return kinds[partition.name]
    keys = {name: _key(node) for name, node in nodes.items()}
    made = {name: _kinds(known, keys, nodes) for name, known in partitions.items()}
    _made.insert(0, (nodes, partitions, made))
    del _made[2:]
    return made[partition.name]


def _key(node: Node) -> object:
    gpus = tuple((pool.type, pool.count) for pool in (*node.gpus, *node.shares))
    return node.features, gpus, node.cpus, node.sockets, node.memory


def _kinds(partition: Partition, keys: Mapping[str, object], nodes: _Nodes) -> tuple[NodeKind, ...]:
    counts: dict[object, list[int]] = {}
    first: dict[object, Node] = {}
    for name in partition.nodes:
        if name in keys:
            key = keys[name]
            count = counts.setdefault(key, [0, 0])
            count[0] += 1
            count[1] += nodes[name].usable
            first.setdefault(key, nodes[name])
    return tuple(NodeKind(first[key], *count) for key, count in counts.items())
