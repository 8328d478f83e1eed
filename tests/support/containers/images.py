"""Container images for tests, as OCI layouts: made once, without a registry and without rights,
and kept in PORTAL_CACHE under names that change with their ingredients.

``small`` has Python 3 and Bash; ``bare`` a shell and no Python; ``broken`` a Python that cannot
start; ``foreign`` says that it is for another architecture; ``tools``
(tests/support/containers/tools_image.py) has Python 3, Python 2, R and Bash.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from portal.demo.environments.debian import fetch_packages, os_release
from portal.demo.environments.image import unpack_base
from portal.demo.environments.making import locked, new_directory, run
from portal.demo.environments.python_packages import digest
from portal.demo.home import Home

OWN = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]  # as OCI calls it
OTHER = "arm64" if OWN == "amd64" else "amd64"
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHELL = ["base-files", "base-passwd", "bash", "coreutils", "dash", "grep", "sed", "libc-bin"]
SHELL += ["usr-is-merged"] if os_release().get("ID") == "debian" else []
_NOT_NEEDED = ("doc", "man", "info", "locale", "lintian", "zoneinfo")  # of /usr/share


class OciImage(NamedTuple):
    """An image in an OCI layout (a folder), under a tag. ``architecture`` is OCI's word."""

    layout: Path
    architecture: str = OWN
    tag: str = "latest"


def small() -> OciImage:
    """Debian's Python 3 and Bash, 24 MB as packages: what most tests build from."""
    # libstdc++ for pyzmq, as every distribution has it.
    return make_image("small", [*SHELL, "python3", "libstdc++6"])


def bare() -> OciImage:
    """A shell and no Python: its notebook server can only run beside it."""
    return make_image("bare", SHELL)


def broken() -> OciImage:
    """Its Python 3 starts, and no kernel does: the library of C++ is gone, which ZeroMQ needs."""
    whole = small()
    layout = whole.layout.with_name(f"broken-cxx-{whole.layout.name}")
    with locked(layout.parent, "broken", print):
        if not layout.exists():
            with new_directory(layout) as new:
                shutil.copytree(whole.layout, new, dirs_exist_ok=True)
                missing = f"/usr/lib/{os.uname().machine}-linux-gnu/libstdc++.so.6"
                argv = ["umoci", "insert", *_rootless(), "--image", f"{new}:latest"]
                run([*argv, "--whiteout", missing], "break the OCI image")
                run(["chmod", "-R", "a+rX", new], "make the OCI image readable")
    return OciImage(layout)


def foreign() -> OciImage:
    """It says that it is for a processor that this machine has not; nothing is in it."""
    return make_image("foreign", [], architecture=OTHER)


def make_image(
    name: str,
    packages: Sequence[str],
    change: Callable[[Path], None] | None = None,
    *,
    recipe: str = "",
    architecture: str = OWN,
) -> OciImage:
    """The image ``name`` from the cache, else made now of the distribution's ``packages``, then
    changed in its folder. ``recipe`` is a text that changes when ``change`` does."""
    release = os_release()
    suite = release.get("VERSION_CODENAME", "")
    key = digest(release.get("ID", ""), suite, architecture, recipe, *packages)
    folder = Home.find().cache / "test-images"
    layout = folder / f"{name}-{key}"
    if layout.exists():
        return OciImage(layout, architecture)
    with locked(folder, name, print):
        if not layout.exists():
            with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder) as place:
                root = Path(place) / "root"
                root.mkdir()
                if packages:
                    apt = Path(place) / "apt"
                    found = fetch_packages(apt, suite, packages, with_dependencies=True)
                    unpack_base(found, root)
                    for part in _NOT_NEEDED:
                        shutil.rmtree(root / "usr/share" / part, ignore_errors=True)
                if change is not None:
                    change(root)
                (root / "etc").mkdir(exist_ok=True)
                (root / "etc/image-of-the-tests").write_text(f"{name}\n")
                _write(root, layout, architecture)
    return OciImage(layout, architecture)


def _write(root: Path, layout: Path, architecture: str) -> None:
    """Makes of the tree ``root`` an OCI layout with one layer."""
    with new_directory(layout) as new:
        new.rmdir()
        run(["umoci", "init", "--layout", new], "make an OCI layout")
        image = f"{new}:latest"
        run(["umoci", "new", "--image", image], "make an OCI image")
        run(["umoci", "insert", *_rootless(), "--image", image, root, "/"], "fill the OCI image")
        run(
            ["umoci", "config", "--image", image, "--architecture", architecture, "--os", "linux",
             "--config.env", _PATH, "--config.cmd", "/bin/bash"],
            "describe the OCI image",
        )  # fmt: skip
        run(["umoci", "gc", "--layout", new], "tidy the OCI image")
        run(["chmod", "-R", "a+rX", new], "make the OCI image readable")


def _rootless() -> list[str]:
    return ["--rootless"] if os.geteuid() else []
