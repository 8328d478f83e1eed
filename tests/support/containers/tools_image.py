"""The image ``tools`` for tests: Python 3, Python 2.7, R and Bash in one, each with its kernel's
package but Python 3 and Bash, whose come from the portal.

Debian 12 (bookworm) has IRkernel and no Python 2 any more; Python 2.7 is bullseye's, the last
release that has it. An ipykernel for it is on the Python index only (4.10, of 2018), and pip 20.3
is the last that runs there: it does, outside of the image, in the unpacked packages. What has no
wheel for Python 2 is pure Python or can do without its compiled part, so no compiler is needed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from images import SHELL, OciImage, make_image

from portal.demo.environments.debian import fetch_packages
from portal.demo.environments.image import unpack_package
from portal.demo.environments.making import run

# tornado is older than the one of a session: neither may disturb the other.
_PACKAGES = [*SHELL, "python3", "python3-pip", "python3-tornado", "r-cran-irkernel"]
_BULLSEYE = (
    "libffi7",
    "libpython2-stdlib",
    "libpython2.7-minimal",
    "libpython2.7-stdlib",
    "libssl1.1",
    "python-pkg-resources",
    "python-setuptools",
    "python2",
    "python2-minimal",
    "python2.7",
    "python2.7-minimal",
)
_PIP = "pip==20.3.4"
# The newest that say that they run on Python 2.7.
_OF_ITS_TIME = (
    "ipykernel==4.10.1",
    "backports-abc==0.5",
    "backports.functools-lru-cache==1.6.6",
    "backports.shutil-get-terminal-size==1.0.0",
    "decorator==4.4.2",
    "enum34==1.1.10",
    "futures==3.4.0",
    "ipython==5.10.0",
    "ipython-genutils==0.2.0",
    "jupyter-client==5.3.5",
    "jupyter-core==4.6.3",
    "pathlib2==2.3.7.post1",
    "pexpect==4.9.0",
    "pickleshare==0.7.5",
    "prompt-toolkit==1.0.18",
    "ptyprocess==0.7.0",
    "pygments==2.5.2",
    "python-dateutil==2.9.0.post0",
    "pyzmq==19.0.2",
    "scandir==1.10.0",
    "simplegeneric==0.8.1",
    "singledispatch==3.7.0",
    "six==1.17.0",
    "tornado==5.1.1",
    "traitlets==4.3.3",
    "typing==3.10.0.0",
    "wcwidth==0.2.13",
)


def tools() -> OciImage:
    """Python 3.11, Python 2.7 with ipykernel, R with IRkernel, Bash: 250 MB, 100 MB packed. Made
    in about a minute and a half the first time."""
    return make_image("tools", _PACKAGES, _add, recipe=Path(__file__).read_text())


def _add(root: Path) -> None:
    """Add Python 2.7."""
    place = root.with_name("bullseye")
    found = fetch_packages(place, "bullseye", _BULLSEYE, with_dependencies=False)
    old = place / "tree"
    for package in found:
        run(["dpkg-deb", "-x", package, old], f"unpack {package.name}")
        unpack_package(package, root)
    _install_for_python2(old, root / "usr/local/lib/python2.7/dist-packages", place)


def _install_for_python2(old: Path, target: Path, work: Path) -> None:
    """Puts ipykernel and what it needs into the folder ``target``. ``old`` is Python 2.7's tree,
    run with the machine's own libc and the two libraries that it no longer has."""
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
    run([*download, "--dest", work, _PIP], "fetch pip for Python 2")
    pip = next(work.glob("pip-*.whl"))
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(old / f"usr/lib/{os.uname().machine}-linux-gnu"),
        "PYTHONHOME": str(old / "usr"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PIP_NO_CACHE_DIR": "1",
    }
    for name in ("PYTHONPATH", "PIP_CONSTRAINT", "PIP_REQUIREMENT"):
        environment.pop(name, None)
    target.mkdir(parents=True, exist_ok=True)
    argv = [old / "usr/bin/python2.7", pip / "pip", "install", "-q", "--no-deps", "--no-compile"]
    run(
        [*argv, "--target", target, *_OF_ITS_TIME],
        "install ipykernel for Python 2",
        env=environment,
    )
