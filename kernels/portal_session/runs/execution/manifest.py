"""Manifest of a point: what was executed with what, and how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ...measurements.gpus import gpu_reader, inventory
from ...measurements.gpus.programs import program_output

FILE = "manifest.json"
_PATIENCE = 60.0  # seconds until the packages are known; the file system may be slow
_SHORT = 200  # characters of a message on a full disk
# What is left out there, the largest first; at last, all but what must be there.
_LESS = (("python",), ("metrics", "drift"), ("gpus", "parameters"), ())
_END = ("run", "point", "attempt", "state", "exit", "message", "started_at", "ended_at")
# Runs in the Python of the kernel or script, which may be older than this one.
_PACKAGES = """
import json, sys
try:
    from importlib.metadata import distributions
except ImportError:
    from importlib_metadata import distributions
known = set()
for each in distributions():
    try:
        known.add("%s==%s" % (each.metadata["Name"], each.version))
    except Exception:
        pass  # its files are damaged, or not all there
about = {"version": sys.version.split()[0], "packages": sorted(known, key=str.lower)}
sys.stdout.write("\\nPORTAL " + json.dumps(about))
"""


class Manifest:
    """Manifest in ``folder``, with what is known from the beginning: ``facts``."""

    def __init__(self, folder: Path, facts: Mapping[str, Any]) -> None:
        self._path = folder / FILE
        self._facts = {**facts, "state": "running", "started_at": _now()}

    @property
    def facts(self) -> dict[str, Any]:
        """Facts that are known by now."""
        return dict(self._facts)

    def note(self, **facts: Any) -> None:
        """Add facts; they are written with the next `write`."""
        self._facts.update(facts)

    def end(self, **facts: Any) -> str:
        """Write the end of the point; return "" or why that failed."""
        return self.write(**facts, ended_at=_now())

    def write(self, **facts: Any) -> str:
        """Write the manifest, whole or not at all; return "" or why that failed. On a full disk,
        the end of the point is written in the place of what was there."""
        self._facts.update(facts)
        new = self._path.with_name(f".{FILE}.new")
        try:
            new.write_text(json.dumps(self._facts, indent=1, default=str) + "\n")
            new.replace(self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                new.unlink()
            if "ended_at" in self._facts and self._overwrite():
                return f"{FILE} has the end of the point, but not all else: {error.strerror}."
            return f"{FILE} cannot be written: {error.strerror}."
        return ""

    def _overwrite(self) -> bool:
        """Write as much as has room in the file that is there, whose blocks the disk need not find;
        return True if the end of the point had."""
        facts = {**self._facts, "message": str(self._facts.get("message", ""))[:_SHORT]}
        try:
            with self._path.open("r+b") as file:
                room = file.seek(0, os.SEEK_END)
                for names in _LESS:
                    facts = {name: value for name, value in facts.items() if name not in names}
                    if not names:
                        facts = {name: facts[name] for name in _END if name in facts}
                    text = json.dumps(facts, default=str).encode()
                    if len(text) <= room:
                        file.seek(0)
                        file.write(text.ljust(room))
                        file.flush()
                        os.fsync(file.fileno())
                        return True
        except OSError:
            pass  # such as on a file system that copies on write
        return False


def slurm_facts(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the numbers of the Slurm job, its node, and its partition and account."""
    names = {
        "job_id": "SLURM_JOB_ID",
        "array_job_id": "SLURM_ARRAY_JOB_ID",
        "array_task_id": "SLURM_ARRAY_TASK_ID",
        "node": "SLURMD_NODENAME",
        "partition": "SLURM_JOB_PARTITION",
        "account": "SLURM_JOB_ACCOUNT",
    }
    return {name: environ.get(variable, "") for name, variable in names.items()}


def environment_facts(version: int, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the environment's version (None: unknown) and the digest of its image ("": it has
    none)."""
    digest = environ.get("PORTAL_IMAGE_DIGEST", "")
    return {"environment_version": version or None, "image_digest": digest}


def gpu_facts(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the number of the job's GPUs and their names. Blocks for some seconds at most."""
    reader = gpu_reader(environ)
    try:
        count = len(reader.read())
    finally:
        reader.close()
    if not count:
        return {"count": 0, "names": []}
    about = inventory(environ, lambda argv: program_output(argv, environ))
    return {"count": count, "names": list(about.get("names") or ())}


def program_of(argv: Sequence[str]) -> str:
    """Return the program of a kernelspec's argv: jupyter_client starts this Python for a plain
    "python" (KernelManager.format_kernel_cmd)."""
    major, minor = sys.version_info[:2]
    plain = ("python", f"python{major}", f"python{major}.{minor}")
    return sys.executable if argv[0] in plain else argv[0]


def python_facts(argv: Sequence[str], variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the ``version`` and the ``packages`` ("name==version") of a Python; if it does not say
    so, the ``problem``. ``argv``: its program. Blocks for _PATIENCE at most."""
    try:
        done = subprocess.run(
            [*argv, "-c", _PACKAGES],
            env=dict(variables),
            cwd=os.sep,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {"problem": f"{type(error).__name__}: {error}"[-500:]}
    text = done.stdout.decode("utf-8", "replace").rpartition("\nPORTAL ")[2]
    try:
        about = json.loads(text)
    except ValueError:
        about = None
    if not isinstance(about, dict):
        last = done.stderr.decode("utf-8", "replace").strip()[-500:]
        return {"problem": f"Exit code {done.returncode}: {last}"}
    return about


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
