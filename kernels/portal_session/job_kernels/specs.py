"""Kernelspecs of job kernels: one for each kernel, environment and GPU type that the portal offers.

They are ordinary kernelspecs in a folder of Jupyter's path, so that JupyterLab, VS Code, papermill
and any other Jupyter client can start them by name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jupyter_core.paths import jupyter_path

from ..kernels.container import HERE
from ..kernels.job_specs import FOLDER, METADATA

REFUSAL = "refusal"  # in the folder of the kernelspecs
_MOST = 300
_WORD = re.compile(r"[^a-z0-9._-]+")
_TIME = re.compile(r"(?:(\d+)-)?(\d+):(\d\d):\d\d")
_PYTHON = re.compile(r"^Python 3( \(ipykernel\))?$")  # as ipykernel titles its own


class JobKernelSpec(NamedTuple):
    """Kernelspec: ``request`` is what the service is asked for when the kernel starts."""

    name: str
    title: str
    language: str
    request: dict[str, Any]

    def content(self) -> dict[str, Any]:
        """Return the content of kernel.json."""
        argv = [sys.executable, "-I", "-m", "portal_session.job_kernels", "{connection_file}"]
        argv += ["--language", self.language, "--spec", self.name]
        argv += ["--request", json.dumps(self.request)]
        return {
            "argv": argv,
            "display_name": self.title,
            "language": self.language,
            "interrupt_mode": "signal",
            "metadata": {HERE: True, METADATA: self.request},
        }


def offered(answer: Mapping[str, Any]) -> Iterator[JobKernelSpec]:
    """Yield the kernelspecs of what the portal offers (``GET session/kernels``): with one GPU of
    each type."""
    for environment in answer.get("items", ()):
        for kernel in environment["kernels"]:
            for gpu_type in environment["gpu_types"] or [""]:
                resources: dict[str, Any] = {"gpus": 1}
                if gpu_type:
                    resources["gpu_type"] = gpu_type
                yield spec_of(environment, kernel, resources)


def spec_of(
    environment: Mapping[str, Any],
    kernel: Mapping[str, Any],
    resources: Mapping[str, Any],
    nouns: Mapping[str, str] = {},
) -> JobKernelSpec:
    """Return the kernelspec of ``kernel`` in ``environment`` (both of the portal's offer) with
    these ``resources``, in the order of its title; the usual ones are left out of its name.
    ``nouns``: of what the numbers count, by name (``options`` of the offer)."""
    count, gpu_type = resources.get("gpus") or 0, str(resources.get("gpu_type") or "")
    parts = ["job", environment["environment"], kernel["name"]]
    if gpu_type:
        parts.append(gpu_type)
    if set(resources) - {"gpus", "gpu_type"} or count != 1:
        text = json.dumps(dict(resources), sort_keys=True)
        parts.append(f"{count}gpu-{hashlib.sha256(text.encode()).hexdigest()[:6]}")
    gpus = f"{count} \u00d7 {gpu_type.upper()}" if gpu_type else f"{count} GPU{'s' * (count != 1)}"
    amounts = [gpus] if count else []
    for name, value in resources.items():
        if name == "time" and value:
            amounts.append(_duration(str(value)))
        elif value and name not in ("gpus", "gpu_type"):
            noun = nouns.get(name, "").removesuffix("s" * (value == 1))
            amounts.append(f"{value} {noun}".rstrip())
    chosen = ", ".join(amounts) or "CPUs"
    words = [_PYTHON.sub("Python", str(kernel["title"])), chosen]
    if environment["environment"] != os.environ.get("PORTAL_ENVIRONMENT"):  # the session's own
        words.append(str(environment["title"]))
    return JobKernelSpec(
        name=_WORD.sub("-", "-".join(parts).lower())[:120],
        title=" · ".join(words),
        language=str(kernel.get("language") or "python"),
        request={
            "environment": environment["environment"],
            "kernel": kernel["name"],
            **resources,
        },
    )


def _duration(text: str) -> str:
    """Return "2 h 30 min" for "2:30:00", as the portal's pages do; other text unchanged."""
    if not (match := _TIME.fullmatch(text)):
        return text
    days, hours, minutes = (int(part or 0) for part in match.groups())
    days, hours = days + hours // 24, hours % 24
    parts = {"d": days, "h": hours, "min": 0 if days else minutes}
    return " ".join(f"{number} {unit}" for unit, number in parts.items() if number) or text


def set_folder(folder: Path) -> None:
    """Make ``folder`` one in which Jupyter finds kernelspecs: here, in kernels and terminals."""
    os.environ[FOLDER] = str(folder)
    others = [part for part in os.environ.get("JUPYTER_PATH", "").split(os.pathsep) if part]
    os.environ["JUPYTER_PATH"] = os.pathsep.join([*others, str(folder)])


def write(folder: Path, specs: Iterator[JobKernelSpec] | list[JobKernelSpec]) -> list[str]:
    """Write kernelspecs; return their names. One that exists is replaced at once."""
    names = []
    for spec in list(specs)[:_MOST]:
        place = folder / "kernels" / spec.name
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = place / "kernel.json.new"
        new.write_text(json.dumps(spec.content()))
        for logo in _logos(str(spec.request["kernel"])):
            with contextlib.suppress(OSError):
                shutil.copyfile(logo, place / logo.name)
        new.replace(place / "kernel.json")
        names.append(spec.name)
    return names


def _logos(kernel: str) -> list[Path]:
    """Return the images by which the session's own kernel of this name is known."""
    if not re.fullmatch(r"[A-Za-z0-9._-]+", kernel):
        return []
    candidates = (sorted(Path(path, kernel).glob("logo-*")) for path in jupyter_path("kernels"))
    return next((logos for logos in candidates if logos), [])


def note_refusal(folder: Path, sentence: str) -> None:
    """Write why no kernels are offered, for the magic ``%%gpu`` in the session's kernels; "":
    remove it. Raises OSError."""
    path = folder / REFUSAL
    if sentence:
        path.write_text(sentence)
    else:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def keep_only(folder: Path, names: set[str]) -> None:
    """Remove all other kernelspecs: they are no longer offered."""
    for place in (folder / "kernels").glob("job-*"):
        if place.name not in names:
            shutil.rmtree(place, ignore_errors=True)
