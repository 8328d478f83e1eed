"""Container images for tests, as OCI layouts: made once, without a registry or privileges, and
cached in PORTAL_CACHE under names that change with their inputs.

``small`` has Python 3 and Bash; ``bare`` a shell and no Python; ``broken`` a Python that cannot
start kernels; ``foreign`` is declared for another architecture; ``tools``
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
from portal.images.apptainer.enclosure import TEMPORARY

OWN = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]  # as OCI calls it
OTHER = "arm64" if OWN == "amd64" else "amd64"
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHELL = ["base-files", "base-passwd", "bash", "coreutils", "dash", "grep", "sed", "libc-bin"]
SHELL += ["usr-is-merged"] if os_release().get("ID") == "debian" else []
_NOT_NEEDED = ("doc", "man", "info", "locale", "lintian", "zoneinfo")  # of /usr/share


class OciImage(NamedTuple):
    """Image in an OCI layout (a folder), under a tag. ``architecture``: OCI's name."""

    layout: Path
    architecture: str = OWN
    tag: str = "latest"


def small() -> OciImage:
    """Return an image with Debian's Python 3 and Bash (24 MB of packages), used by most tests."""
    # libstdc++ for pyzmq, as every distribution has it.
    return make_image("small", [*SHELL, "python3", "libstdc++6"])


def bare() -> OciImage:
    """Return an image with a shell and no Python: its notebook server can only run beside it."""
    return make_image("bare", SHELL)


def broken() -> OciImage:
    """Return an image whose Python 3 starts but no kernel: ZeroMQ's C++ library is missing."""
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
    """Return an empty image declared for a processor that this machine does not have."""
    return make_image("foreign", [], architecture=OTHER)


def make_image(
    name: str,
    packages: Sequence[str],
    change: Callable[[Path], None] | None = None,
    *,
    recipe: str = "",
    architecture: str = OWN,
) -> OciImage:
    """Return the image ``name`` from the cache; if missing, make it from the distribution's
    ``packages`` and apply ``change`` to its tree. ``recipe``: text that changes with ``change``."""
    release = os_release()
    suite = release.get("VERSION_CODENAME", "")
    key = digest(release.get("ID", ""), suite, architecture, recipe, *packages)
    folder = _folder()
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
                    files = fetch_packages(apt, suite, packages, with_dependencies=True)
                    unpack_base(files, root)
                    for part in _NOT_NEEDED:
                        shutil.rmtree(root / "usr/share" / part, ignore_errors=True)
                if change is not None:
                    change(root)
                (root / "etc").mkdir(exist_ok=True)
                (root / "etc/image-of-the-tests").write_text(f"{name}\n")
                _write(root, layout, architecture)
    return OciImage(layout, architecture)


def _folder() -> Path:
    """Return the folder of the images: in the cache, unless that is in a temporary folder, which
    definition files that name an image by its path cannot do."""
    cache = Home.find().cache
    if not any(Path(os.path.realpath(cache)).is_relative_to(top) for top in TEMPORARY):
        return cache / "test-images"
    base = Path.home() / ".cache" if os.geteuid() else Path("/var/cache")
    return base / "data-scientist-portal/test-images"


def _write(root: Path, layout: Path, architecture: str) -> None:
    """Convert the tree ``root`` into an OCI layout with a single layer."""
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
