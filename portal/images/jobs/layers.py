"""Layers that a build adds to an image: virtual environment of the session's server, kernels.

All of it is in one folder of its own (`definition.PREFIX`), made outside of the image: the
packages come from the machine's own index, so that no address, no credential and no network is
needed in a container. The image's Pythons and their packages stay as they are. An ipykernel that a
Python lacks is in a folder that its kernel searches last.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from portal.models import Frozen
from portal.models.catalog.environment import Kernel, Server
from portal.session_packages import TOGETHER, constraints, requirements, uv_environment, uv_program

from ..outcome import WorkFailed
from .definition import BASH_KERNEL, PREFIX
from .probe import FoundPython, ImageContents

_TESTED = (3, 11)  # the Python that deploy/constraints.txt is for
_GLIBCS = (17, 28, *range(31, 41))  # minor versions that uv has names for
_LAST = "kernel-packages"  # the folder that the kernel searches last

# argv[1:] are ipykernel's. The folder of this file must not be on the path.
_LAUNCHER = '''\
"""Starts ipykernel in the image's own Python, which looks at this folder's packages last."""

import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != here]
sys.path.append(os.path.join(here, "packages"))

from ipykernel import kernelapp  # noqa: E402

kernelapp.launch_new_instance()
'''


class Added(Frozen):
    """Layers as put together. ``python`` holds the server (None: it runs beside the image).
    ``packages``: those that a kernel of the image's own Python sees in addition."""

    server: Server
    python: str | None
    kernels: tuple[Kernel, ...]
    packages: tuple[str, ...] = ()


def put_together(
    image: ImageContents, folder: Path, *, wheel: Path, cache: Path, log: Callable[[str], None]
) -> Added:
    """Fill ``folder``, which becomes PREFIX in the image. Raises WorkFailed."""
    folder.mkdir(parents=True)
    python = image.server_python
    if python:
        _environment(python, image, folder, wheel, cache, log)
    else:
        log(
            "No Python in the image can run the session's server: it will run beside the container."
        )
    packages: tuple[str, ...] = ()
    kernels: list[Kernel] = []
    if own := image.python3:
        packages, works = _python_kernel(own, image, folder, cache, log)
        if works:
            kernels.append(Kernel(name="python3", title=f"Python {own.short}", language="python"))
    if old := image.python2:
        argv = [old.executable, "-m", "ipykernel", "-f", "{connection_file}"]
        title = f"Python {old.short}"
        kernels.append(
            _kernel(folder, argv, Kernel(name="python2", title=title, language="python"))
        )
    if image.r and image.ir_kernel:
        argv = [image.r, "--slave", "-e", "IRkernel::main()", "--args", "{connection_file}"]
        title = f"R {image.versions.get('r', '')}".strip()
        kernels.append(_kernel(folder, argv, Kernel(name="ir", title=title, language="R")))
    if image.bash:
        kernel = Kernel(name="bash", title="Bash", language="bash")
        program = [f"{PREFIX}/bin/python3", "-I", "-m", "portal_session.kernels.bash"]
        argv = [*program, "-f", "{connection_file}"]
        # Beside the image the kernel runs in the portal's environment, and its bash in the image.
        kernels.append(_kernel(folder, argv, kernel) if python else kernel)
    if not kernels:
        raise WorkFailed(
            "No kernel can run in this image: it has no Python that ipykernel supports, no "
            "IRkernel, and no Bash."
        )
    _readable(folder)
    return Added(
        server=Server.INSIDE if python else Server.BESIDE,
        python=f"{PREFIX}/bin/python3" if python else None,
        kernels=tuple(kernels),
        packages=packages,
    )


def _environment(
    python: FoundPython,
    image: ImageContents,
    folder: Path,
    wheel: Path,
    cache: Path,
    log: Callable[[str], None],
) -> None:
    """Make a virtual environment as ``python -m venv --without-pip`` does, with the packages."""
    wanted = [*requirements(), BASH_KERNEL, str(wheel)]
    prefix = ["--prefix", str(folder)]
    tested = constraints()
    fits = tested is not None and python.version[:2] >= _TESTED
    try:
        pinned = ["--constraints", str(tested)] if fits else []
        _install(python, image, [*prefix, *pinned, *wanted], cache, log)
    except WorkFailed:
        # The tested versions do not support this Python: take the newest that do.
        log("The tested versions do not support this Python; trying other versions.")
        loose = [
            "jupyterhub>=5,<7" if requirement.startswith("jupyterhub==") else requirement
            for requirement in wanted
        ]
        try:
            _install(python, image, [*prefix, *loose], cache, log)
        except WorkFailed:
            log("There is no jupyter-collaboration for this Python: no notebooks can be shared.")
            loose.remove(TOGETHER)
            _install(python, image, [*prefix, *loose], cache, log)
    # uv's layout is that of the Python which ran it.
    for library in (folder / "lib").glob("python3.*"):
        if library.name != f"python{python.short}":
            library.rename(library.with_name(f"python{python.short}"))
    links = {"python3": python.base, "python": "python3", f"python{python.short}": "python3"}
    for name, target in links.items():
        (folder / "bin" / name).unlink(missing_ok=True)
        (folder / "bin" / name).symlink_to(target)
    (folder / "pyvenv.cfg").write_text(
        f"home = {Path(python.base).parent}\n"
        "include-system-site-packages = false\n"
        f"version = {'.'.join(map(str, python.version))}\n"
    )
    _point_scripts(folder / "bin")
    # The server's own Python is no kernel; and no place on this machine belongs into an image.
    shutil.rmtree(folder / "share/jupyter/kernels", ignore_errors=True)
    for pattern in ("direct_url.json", "uv_cache.json"):
        for path in folder.glob(f"lib/python3.*/site-packages/*.dist-info/{pattern}"):
            path.unlink()
    (folder / ".lock").unlink(missing_ok=True)


def _python_kernel(
    python: FoundPython, image: ImageContents, folder: Path, cache: Path, log: Callable[[str], None]
) -> tuple[tuple[str, ...], bool]:
    """Make the image's own Python a kernel; return what was added for it, and if there is one."""
    kernel = Kernel(name="python3", title=f"Python {python.short}", language="python")
    if python.ipykernel:
        argv = [python.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        _kernel(folder, argv, kernel)
        return (), True
    target = folder / _LAST
    target.mkdir()
    try:
        added = _lacking(python, image, target, cache, log)
        _install(
            python, image, ["--target", str(target / "packages"), "--no-deps", *added], cache, log
        )
    except WorkFailed as error:
        log(f"Python {python.short} of the image cannot be a kernel: {error.message}")
        shutil.rmtree(target)
        return (), False
    (target / "packages/.lock").unlink(missing_ok=True)
    shutil.rmtree(target / "packages/bin", ignore_errors=True)  # they name this machine's Python
    shutil.rmtree(target / "packages/share/jupyter/kernels", ignore_errors=True)
    (target / "launch.py").write_text(_LAUNCHER)
    _kernel(
        folder,
        [python.executable, f"{PREFIX}/{_LAST}/launch.py", "-f", "{connection_file}"],
        kernel,
    )
    return tuple(added), True


def _lacking(
    python: FoundPython, image: ImageContents, place: Path, cache: Path, log: Callable[[str], None]
) -> list[str]:
    """Return ipykernel and what it needs, less what the image has, as "name==version"."""
    has = {_normal(package.partition("==")[0]) for package in python.packages}
    theirs = place / "constraints.txt"
    exact = re.compile(r"^[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+$")
    theirs.write_text(
        "".join(f"{package}\n" for package in python.packages if exact.match(package))
    )
    wanted = place / "requirements.txt"
    wanted.write_text("ipykernel\n")
    args = ["compile", "-q", "--no-header", "--no-annotate", "--no-config", str(wanted)]
    try:
        try:
            text = _uv(
                [*args, "--constraints", str(theirs), *_for(python, image)], cache, log, quiet=True
            )
        except WorkFailed:
            # The index does not have the image's own versions: those win all the same.
            text = _uv([*args, *_for(python, image)], cache, log)
    finally:
        theirs.unlink()
        wanted.unlink()
    lines = [line.split(";")[0].strip() for line in text.splitlines()]
    return [
        package
        for package in lines
        if exact.match(package) and _normal(package.partition("==")[0]) not in has
    ]


def _normal(name: str) -> str:
    """Return a distribution's name as the index compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _kernel(folder: Path, argv: list[str], kernel: Kernel) -> Kernel:
    """Write a kernelspec (jupyter_client's documentation, "Kernel specs")."""
    place = folder / "share/jupyter/kernels" / kernel.name
    place.mkdir(parents=True, exist_ok=True)
    spec = {
        "argv": argv,
        "display_name": kernel.title,
        "language": kernel.language,
        "metadata": {"debugger": kernel.name == "python3"},
    }
    if kernel.name == "bash":
        spec["env"] = {"PS1": "$"}  # what bash_kernel waits for
    (place / "kernel.json").write_text(json.dumps(spec, indent=1) + "\n")
    return kernel


def _install(
    python: FoundPython,
    image: ImageContents,
    args: Sequence[str],
    cache: Path,
    log: Callable[[str], None],
) -> None:
    options = ["--link-mode", "copy", "--no-config", "--break-system-packages"]
    # --python: uv wants one that it can run; what is installed is for the image's.
    options += ["--python", sys.executable, *_for(python, image)]
    _uv(["install", *options, *args], cache, log)


def _for(python: FoundPython, image: ImageContents) -> list[str]:
    """Return uv's options for packages that run in the image. Nothing is compiled here."""
    return [
        "--python-version",
        python.short,
        "--python-platform",
        platform_of(image.architecture, image.libc),
        "--only-binary",
        ":all:",
    ]


def platform_of(architecture: str, libc: str) -> str:
    """Return uv's name of a machine ("x86_64") and its C library ("glibc 2.36", "musl")."""
    if "musl" in libc:
        return f"{architecture}-unknown-linux-musl"
    match = re.search(r"2\.(\d+)", libc)
    minor = int(match.group(1)) if match else 28
    known = [number for number in _GLIBCS if number <= minor]
    return f"{architecture}-manylinux_2_{known[-1] if known else 17}"


def _uv(
    args: Sequence[str], cache: Path, log: Callable[[str], None], *, quiet: bool = False
) -> str:
    """Run ``uv pip …`` and return its standard output. Raises WorkFailed with its reason."""
    done = subprocess.run(
        [uv_program(), "pip", *args],
        env=uv_environment(cache),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        umask=0o022,
        cwd="/",
        check=False,
    )
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        if not quiet:
            for line in lines[-40:]:
                log(line)
        raise WorkFailed(f"The packages cannot be installed: {' '.join(lines[-6:])[:600]}")
    return done.stdout


def _point_scripts(folder: Path) -> None:
    """Point scripts that name this machine's Python to the environment's."""
    for path in folder.iterdir():
        if path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        if data.startswith(b"#!") and b"python" in data[:300]:
            first, _, rest = data.partition(b"\n")
            if first.startswith(b"#!/bin/sh") and b"'''" in rest:
                # A long path: a script of sh, with a line that Python takes for a text.
                rest = rest.split(b"' '''\n", 1)[-1]
            path.write_bytes(f"#!{PREFIX}/bin/python3\n".encode() + rest)


def _readable(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(0o755 if path.is_dir() or mode & 0o100 else 0o644)
