"""Contents of an image: its Pythons, kernels, distribution, and the versions of its software.

Scripts that need nothing but a POSIX shell, Python 2.7 or Python 3 run in a container of the image
that sees nothing of the node. Their output is the image's own claim: it decides what is added to
the image and what its page says, and nothing else.
"""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import ValidationError

from portal.models import Frozen
from portal.models.catalog.image_job import Facts

from ..apptainer.apptainer import Apptainer, ApptainerFailed
from ..outcome import WorkFailed

OLDEST = (3, 9)  # Python of a session's server (kernels/pyproject.toml)
_MARK = "PORTAL-FOUND"
_LIMIT = 180  # seconds for one script

_SHELL = r"""
say() { printf 'PORTAL-FOUND\t%s\t%s\n' "$1" "$2"; }
say architecture "$(uname -m)"
if [ -r /etc/os-release ]; then say distribution "$(. /etc/os-release; echo "$PRETTY_NAME")"; fi
libc=$(getconf GNU_LIBC_VERSION 2>/dev/null)
if [ -n "$libc" ]; then say libc "$libc"
elif ls /lib/ld-musl-* >/dev/null 2>&1; then say libc musl
else say libc "$(ldd --version 2>&1 | head -n 1)"; fi
for name in python3 python python2 python2.7; do
  found=$(command -v "$name") && say python "$found"
done
for folder in /opt/conda/bin /usr/local/bin /usr/bin; do
  for found in "$folder"/python3 "$folder"/python3.[0-9] "$folder"/python3.[0-9][0-9]; do
    [ -x "$found" ] && say python "$found"
  done
done
found=$(command -v bash) && say bash "$found"
if found=$(command -v R); then
  say R "$found"
  say r "$("$found" --version 2>/dev/null | head -n 1)"
  say IRkernel "$("$found" --slave -e 'cat(as.character(packageVersion("IRkernel")))' 2>/dev/null)"
fi
say CUDA_VERSION "$CUDA_VERSION"
say CUDNN_VERSION "$CUDNN_VERSION"
say NCCL_VERSION "$NCCL_VERSION"
for found in /usr/local/cuda/version.json /usr/local/cuda/version.txt; do
  [ -r "$found" ] && say cuda_file "$(tr -d '\n' <"$found" | head -c 4000)"
done
[ -r /opt/rocm/.info/version ] && say rocm "$(head -c 100 /opt/rocm/.info/version)"
for folder in /usr/lib /usr/lib64 /usr/lib/*-linux-gnu /usr/local/cuda/lib64 /usr/local/lib \
  /opt/conda/lib; do
  for found in "$folder"/libcudnn.so.*.* "$folder"/libnccl.so.*.*; do
    [ -e "$found" ] && say library "${found##*/}"
  done
done
if found=$(command -v mpirun); then say mpi "$("$found" --version 2>&1 | head -n 1)"; fi
"""

PYTHON = r"""
import json, os, subprocess, sys
try:
    from importlib import metadata
    packages = ["%s==%s" % (d.metadata["Name"], d.version) for d in metadata.distributions()]
except Exception:
    try:
        import pkg_resources
        packages = ["%s==%s" % (d.project_name, d.version) for d in pkg_resources.working_set]
    except Exception:
        packages = []
try:
    with open(os.devnull, "w") as null:
        said = subprocess.check_output([sys.executable, "-m", "pip", "freeze"], stderr=null)
    freeze = said.decode("utf-8", "replace").splitlines()
except Exception:
    freeze = None
try:
    import ipykernel
    kernel = str(ipykernel.__version__)
except Exception:
    kernel = None
try:
    import asyncio, ctypes, sqlite3, ssl, zlib
    complete = True
except Exception:
    complete = False
found = {
    "executable": sys.executable,
    "base": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
    "version": list(sys.version_info[:3]),
    "name": getattr(getattr(sys, "implementation", None), "name", "cpython"),
    "threads": "t" in getattr(sys, "abiflags", ""),
    "packages": sorted(set(packages)),
    "freeze": freeze,
    "ipykernel": kernel,
    "complete": complete,
}
sys.stdout.write("\nPORTAL-FOUND\tpython\t" + json.dumps(found) + "\n")
"""

# Distributions whose version is on the tile, and their names there.
_FRAMEWORKS = {
    "torch": "torch",
    "tensorflow": "tensorflow",
    "tensorflow-gpu": "tensorflow",
    "tensorflow-cpu": "tensorflow",
    "keras": "keras",
    "mxnet": "mxnet",
    "caffe2": "caffe2",
    "horovod": "horovod",
    "jax": "jax",
    "cudf": "rapids",
    "scikit-learn": "scikit-learn",
}


class FoundPython(Frozen):
    """Python of an image."""

    executable: str
    base: str  # the program itself, without links or a virtual environment
    version: tuple[int, int, int]
    name: str
    threads: bool
    packages: tuple[str, ...]
    freeze: tuple[str, ...] | None  # what ``pip freeze`` says, None without pip
    ipykernel: str | None
    complete: bool  # it has the modules of the standard library that a server needs

    @property
    def short(self) -> str:
        """Version as in "3.12"."""
        return f"{self.version[0]}.{self.version[1]}"

    @property
    def holds_server(self) -> bool:
        """Return True if a session's server can run in it."""
        new = self.version[:2] >= OLDEST
        return new and self.complete and self.name == "cpython" and not self.threads


class ImageContents(Frozen):
    """Contents of an image. Empty texts: not there. ``libc``: "glibc 2.36" or "musl"."""

    architecture: str
    distribution: str = ""
    libc: str = ""
    pythons: tuple[FoundPython, ...] = ()
    bash: str = ""
    r: str = ""
    ir_kernel: str = ""
    versions: dict[str, str] = {}

    @property
    def python3(self) -> FoundPython | None:
        """Python that the image itself calls python3 (or python)."""
        return next((python for python in self.pythons if python.version[0] == 3), None)

    @property
    def python2(self) -> FoundPython | None:
        """Python 2 that can be a kernel, since it has an ipykernel."""
        old = (python for python in self.pythons if python.version[0] == 2 and python.ipykernel)
        return next(old, None)

    @property
    def server_python(self) -> FoundPython | None:
        """Python for the session's server: the image's own, else the newest one; None if none is
        new enough."""
        own = self.python3
        if own and own.holds_server:
            return own
        candidates = [python for python in self.pythons if python.holds_server]
        return max(candidates, key=lambda python: python.version, default=None)

    def facts(self, added: tuple[str, ...] = ()) -> Facts:
        """Return the facts for the page of the environment."""
        python = self.python3
        frozen = (
            () if python is None else python.packages if python.freeze is None else python.freeze
        )
        return Facts(
            architecture=self.architecture,
            distribution=self.distribution,
            versions=self.versions,
            packages=frozen,
            added=added,
        )


def probe(apptainer: Apptainer, image: Path) -> ImageContents:
    """Look into ``image`` (a SIF or a sandbox directory). Raises WorkFailed."""
    try:
        answers = _answers(apptainer.execute(image, ["/bin/sh", "-c", _SHELL], limit=_LIMIT).text)
    except ApptainerFailed as error:
        if "/bin/sh" not in error.message:
            raise
        answers = []
    if not answers:
        raise WorkFailed(
            "This image has no working shell (/bin/sh), so sessions cannot start in it. "
            "Images with a single program, such as 'scratch' or 'distroless' images, are not "
            "supported."
        )
    first = {key: value for key, value in reversed(answers)}
    pythons = tuple(_pythons(apptainer, image, [v for k, v in answers if k == "python"]))
    return ImageContents(
        architecture=first.get("architecture", ""),
        distribution=first.get("distribution", "")[:200],
        libc=first.get("libc", "")[:80],
        pythons=pythons,
        bash=first.get("bash", ""),
        r=first.get("R", ""),
        ir_kernel=first.get("IRkernel", "")[:40],
        versions=_versions(answers, pythons),
    )


def _pythons(apptainer: Apptainer, image: Path, paths: list[str]) -> list[FoundPython]:
    pythons: dict[str, FoundPython] = {}
    for path in dict.fromkeys(paths):
        if not re.fullmatch(r"/[A-Za-z0-9._/+-]{1,300}", path):
            continue
        result = apptainer.execute(image, [path, "-c", PYTHON], limit=_LIMIT)
        if python := read_python(result.text):
            # Several names of one program; the first is the one that the image prefers.
            pythons.setdefault(f"{python.base}-{python.version}-{python.freeze}", python)
    return list(pythons.values())


def read_python(text: str) -> FoundPython | None:
    """Return what the script `PYTHON` said of the Python that ran it; None if it said nothing."""
    for key, value in _answers(text):
        if key == "python":
            try:
                return FoundPython.model_validate_json(value)
            except ValidationError:
                return None
    return None


def _answers(text: str) -> list[tuple[str, str]]:
    """Return a script's answers that have a value, in its order, as (key, value)."""
    pairs = []
    for line in text.splitlines():
        parts = line.split("\t", 2)
        if len(parts) == 3 and parts[0] == _MARK and parts[2].strip():
            pairs.append((parts[1], parts[2].strip()))
    return pairs


def _versions(answers: list[tuple[str, str]], pythons: tuple[FoundPython, ...]) -> dict[str, str]:
    versions: dict[str, str] = {}

    def note(word: str, text: str, pattern: str = r"(\d+(?:\.\d+)+)") -> None:
        match = re.search(pattern, text)
        if match and word not in versions:
            versions[word] = match.group(1)[:40]

    for python in pythons:
        word = "python" if python.version[0] == 3 else "python2"
        versions.setdefault(word, ".".join(map(str, python.version)))
    for python in pythons:
        for package in python.packages:
            name, _, version = package.partition("==")
            word = _FRAMEWORKS.get(name.lower().replace("_", "-"), "")
            if word and python.version[0] == 3:
                versions.setdefault(word, version[:40])
            # The libraries of CUDA also come as wheels.
            wheel = re.match(r"nvidia-(cudnn|nccl|cuda-runtime)-cu\d+$", name.lower())
            if wheel:
                versions.setdefault(wheel.group(1).replace("cuda-runtime", "cuda"), version[:40])
            # PyTorch's wheels for AMD: "torch==2.9.0+rocm6.4".
            local = re.search(r"\+rocm([0-9]+(?:\.[0-9]+)*)$", version)
            if local:
                versions.setdefault("rocm", local.group(1)[:40])
    for key, value in answers:
        match key:
            case "CUDA_VERSION":
                note("cuda", value)
            case "CUDNN_VERSION":
                note("cudnn", value)
            case "NCCL_VERSION":
                note("nccl", value)
            case "cuda_file":
                # JSON names many parts; the first is CUDA's own.
                note("cuda", value, r'"cuda"\s*:\s*\{.*?"version"\s*:\s*"([0-9.]+)"')
                note("cuda", value, r"CUDA Version ([0-9.]+)")
            case "library":
                for word in ("cudnn", "nccl"):
                    note(word, value, rf"^lib{word}\.so\.(\d+\.\d+(?:\.\d+)*)$")
            case "rocm":
                note("rocm", value)
            case "mpi":
                note("mpi", value)
            case "r":
                note("r", value)
    return versions
