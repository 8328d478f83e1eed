"""Drift of a repetition: the differences between a point and the original point, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..frozen import FILE, read_plan
from .task import Task, manifest_of, point_folders

MOST = 30  # sentences, as the portal takes them
_MOST_PACKAGES = 15
_LONGEST = 300  # characters


def drift_of(task: Task, facts: Mapping[str, Any]) -> list[str]:
    """Return what differs between the manifest of a point (``facts``) and the original's; [] if
    nothing does. Blocks; raises nothing."""
    if task.origin is None:
        return []
    try:
        of_run = [str(sentence) for sentence in read_plan(task.folder, task.id).get("drift") or ()]
    except Exception as error:  # the comparison must not end the point
        of_run = [f"{FILE} cannot be read: {error}"]
    manifests = [manifest_of(folder) for folder in point_folders(task.origin.folder, task.number)]
    # An attempt that failed may have failed for what differs now.
    manifests.sort(key=lambda manifest: manifest.get("state") != "succeeded")
    if not manifests or not manifests[0]:
        of_point = ["The original point has no readable manifest to compare with."]
    else:
        of_point = differences(facts, manifests[0])
    sentences = [*of_run, *of_point]
    return ["".join(c if c.isprintable() else "?" for c in text)[:_LONGEST]
            for text in sentences[:MOST]]  # fmt: skip


def differences(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Return what differs between two manifests, in sentences."""
    return [
        *_changed("The environment", now.get("environment"), before.get("environment")),
        *_of_version(now, before),
        *_of_image(now, before),
        *_changed("The kernel", now.get("kernel"), before.get("kernel")),
        *_of_python(_mapping(now, "python"), _mapping(before, "python")),
        *_changed("GPUs:", gpus_in_words(now), gpus_in_words(before), verb=""),
        *_changed("The node", _node(now), _node(before)),
    ]


def of_git(now: Mapping[str, Any] | None, before: Any) -> list[str]:
    """Return what differs in the git repository of the source: ``before`` is its state when the
    original was frozen."""
    if not isinstance(before, dict):
        return []
    commit = str(before.get("commit") or "")[:12]
    if now is None:
        return [f"The commit of the git repository is not known; it was {commit}."]
    sentences = _changed("The git commit", str(now.get("commit") or "")[:12], commit)
    if before.get("dirty"):
        sentences.append("The original ran with uncommitted changes.")
    if now.get("dirty"):
        sentences.append("The git repository has uncommitted changes.")
    return sentences


def _changed(what: str, now: Any, before: Any, verb: str = " is") -> list[str]:
    if not now or not before or now == before:
        return []
    return [f"{what}{verb} {now} instead of {before}."]


def _of_version(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    name = "environment_version"
    return _changed("The version of the environment", now.get(name), before.get(name))


def _of_image(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    digest, former_digest = (str(facts.get("image_digest") or "")[:19] for facts in (now, before))
    return _changed("The image", digest, former_digest)


def _of_python(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    sentences = _changed("Python", now.get("version"), before.get("version"))
    packages, former_packages = _packages(now), _packages(before)
    if not packages or not former_packages:
        if former_packages or packages:
            sentences.append("The packages cannot be compared: they are known for only one run.")
        return sentences
    changes = []
    for name in sorted({*packages, *former_packages}, key=str.lower):
        if name not in former_packages:
            changes.append(f"{name} {packages[name]} was not installed.")
        elif name not in packages:
            changes.append(f"{name} {former_packages[name]} is missing.")
        elif packages[name] != former_packages[name]:
            changes.append(f"{name} is {packages[name]} instead of {former_packages[name]}.")
    more = len(changes) - _MOST_PACKAGES
    if more > 0:
        changes[_MOST_PACKAGES:] = [f"{more} more packages differ: see the manifests."]
    return sentences + changes


def _packages(python: Mapping[str, Any]) -> dict[str, str]:
    packages = python.get("packages")
    pairs = [str(item).partition("==") for item in packages if item] if packages else []
    return {name: version for name, _, version in pairs}


def gpus_in_words(facts: Mapping[str, Any]) -> str:
    """Return the number and type of the GPUs of a manifest; "" if they are not known."""
    gpus = _mapping(facts, "gpus")
    if not isinstance(gpus.get("count"), int):
        return ""
    names = ", ".join(dict.fromkeys(str(name) for name in gpus.get("names") or ()))
    if not gpus["count"]:
        return "none"
    return f"{gpus['count']} of type {names}" if names else str(gpus["count"])


def _node(facts: Mapping[str, Any]) -> str:
    return str(_mapping(facts, "slurm").get("node") or "")


def _mapping(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = facts.get(name)
    return value if isinstance(value, dict) else {}
