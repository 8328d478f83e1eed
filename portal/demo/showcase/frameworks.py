"""Base images of the demo's frameworks: PyTorch for CPUs, and scikit-learn with R.

They consist of the distribution's packages, since the wheel of PyTorch on the Python index depends
on gigabytes of CUDA libraries. The portal's own build adds the session's server.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from portal.errors import ConfigurationError
from portal.session_packages import constraints, uv_environment, uv_program

from ..environments import image
from ..environments.apptainer import apptainer_environment
from ..environments.debian import fetch_packages, os_release
from ..environments.environments import remove_old
from ..environments.image import SQUASHFS, base_packages, unpack_base
from ..environments.making import Progress, locked, make_readable_directory, run, timed
from ..environments.python_packages import SYSTEM_PYTHON, digest, remove_tree

_PYTHON = ("python3-numpy", "python3-pandas", "python3-matplotlib", "python3-tqdm")
# Documentation; and what packages depend on for compiling and for drawing on a screen: half of all.
_UNUSED = (
    *(f"usr/share/{folder}" for folder in ("doc", "man", "info", "locale", "lintian")),
    *("usr/include", "usr/lib/*/*.a", "usr/lib/*/*/*.a", "usr/bin/*lto-dump*"),
    *("usr/lib/gcc/*/*/cc1*", "usr/lib/gcc/*/*/lto*", "usr/lib/*/dri", "usr/lib/*/libLLVM*"),
)
# The distribution's NumPy is the one that its packages were built with.
_OVERRIDES = "numpy ; python_version < '3'\n"
_NICE = ("nice", "-n", "19")  # the demo's users come first


@dataclass(frozen=True)
class Framework:
    """Framework of an environment."""

    name: str  # of the environment, whose definition is deploy/demo/showcase/NAME.yaml
    packages: tuple[str, ...]  # of the distribution, besides those of every environment
    wheels: tuple[str, ...] = ("tensorboard",)  # from the Python index, without NumPy


FRAMEWORKS = (
    Framework("pytorch-cpu", ("python3-torch", *_PYTHON)),
    Framework("scikit-learn-r", ("python3-sklearn", "r-cran-irkernel", "r-recommended", *_PYTHON)),
)


def base_image(framework: Framework, cache: Path, apptainer: Path, progress: Progress) -> Path:
    """Return the SIF file of ``framework`` in ``cache``, made first if it is missing.

    Raises ConfigurationError, with the last lines of the command's output.
    """
    images = cache / "images"
    release = os_release()
    suite = release.get("VERSION_CODENAME", "")
    packages = [*base_packages(), *framework.packages]
    recipe = [Path(__file__).read_text(), Path(image.__file__).read_text()]
    key = digest(release.get("ID", ""), suite, *packages, *recipe)
    image_file = images / f"{framework.name}-{key}.sif"
    with locked(cache, framework.name, progress):
        if image_file.exists():
            return image_file
        make_readable_directory(images)
        remove_old(images, f"{framework.name}-", image_file)
        with (
            tempfile.TemporaryDirectory(prefix=f".{framework.name}-", dir=images) as name,
            timed(progress, f"Environment '{framework.name}': installing its packages"),
        ):
            work = Path(name)
            root = work / "root"
            root.mkdir()
            unpack_base(fetch_packages(work / "apt", suite, packages, with_dependencies=True), root)
            _install(framework, root, cache, work)
            for path in [path for pattern in _UNUSED for path in root.glob(pattern)]:
                remove_tree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            _compile(root)
            new = work / "new.sif"
            run(
                [*_NICE, apptainer, "build", "--mksquashfs-args", SQUASHFS, new, root],
                f"write the image of {framework.name}",
                env={
                    **uv_environment(cache),
                    **apptainer_environment(),
                    "APPTAINER_TMPDIR": str(work),
                    "APPTAINER_CACHEDIR": str(work / "cache"),
                },
                timeout=1200,
            )
            new.chmod(0o644)
            new.rename(image_file)
    return image_file


def _install(framework: Framework, root: Path, cache: Path, work: Path) -> None:
    """Install the wheels where the distribution's Python looks for local packages."""
    overrides, limits = work / "overrides.txt", work / "constraints.txt"
    overrides.write_text(_OVERRIDES)
    limits.write_text(path.read_text() if (path := constraints()) else "")
    prefix = root / "usr/local"
    run(
        [
            *(*_NICE, uv_program(), "pip", "install", "-q", "--no-config"),
            *("--python", SYSTEM_PYTHON, "--break-system-packages", "--prefix", prefix),
            *("--link-mode", "copy", "--overrides", overrides, "--constraints", limits),
            *framework.wheels,
        ],
        f"install {framework.wheels[0]}",
        env=uv_environment(cache),
    )
    for packages in prefix.glob("lib/python3.*/site-packages"):
        packages.rename(packages.with_name("dist-packages"))


def _compile(root: Path) -> None:
    """Compile the packages' modules, as their installation scripts would: images are read-only."""
    folders: list[Path] = [*root.glob("usr/lib/python3*"), *root.glob("usr/local/lib/python3*")]
    if not folders:
        raise ConfigurationError("The distribution's packages have no Python 3.")
    # Some of the distribution's files are for other versions of Python, so the status says nothing.
    options: list[str | Path] = ["-q", "-j", "0", "-x", "/tests?/", "-s", root, "-p", "/"]
    script = 'nice -n 19 "$@" >/dev/null 2>&1 || true'
    run(
        ["sh", "-c", script, "sh", SYSTEM_PYTHON, "-m", "compileall", *options, *folders],
        "compile the packages",
        timeout=1200,
    )
