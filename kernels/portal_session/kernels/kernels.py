"""Kernels that a session shows: those that its environment names, and the person's own.

If the server runs beside the container, the kernelspecs are the container's: they are read there,
once, and `command_line.SessionProvisioner` starts their commands in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager, NoSuchKernel
from jupyter_core.paths import jupyter_path
from traitlets import default

from . import job_specs
from .container import HERE, Container
from .environment import for_commands
from .logos import folder_with_logo
from .plain_spec import named
from .sockets import PORTS_ONLY, READABLE

BASH = "bash"
_PATIENCE = 120  # seconds until a container has answered; a cold image takes some
# The folder that a build adds, and those where Jupyter looks in most images.
_FOLDERS = (
    "/opt/data-scientist-portal/share/jupyter/kernels",
    "/usr/local/share/jupyter/kernels",
    "/usr/share/jupyter/kernels",
    "/opt/conda/share/jupyter/kernels",
)
# Prints NAME NUL TEXT NUL for each kernel.json, and "/bash" for a bash.
_READ = """for folder do
  for file in "$folder"/*/kernel.json; do
    [ -r "$file" ] && printf '%s\\0' "$file" && cat "$file" && printf '\\0'
  done
done
command -v bash >/dev/null 2>&1 && printf '/bash\\0\\0'
exit 0
"""


class SessionKernelSpecs(KernelSpecManager):
    """Kernelspecs of jupyter_client, with the environment's choice and titles."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._titles = named(os.environ)
        container = Container.from_environ(os.environ)
        self._in_container = None if container is None else KernelsInContainer(container)

    @default("kernel_dirs")
    def _kernel_dirs_default(self) -> list[str]:
        # As jupyter_client has it, which loads all of IPython for the last one.
        ipython = os.environ.get("IPYTHONDIR") or Path.home() / ".ipython"
        return [*jupyter_path("kernels"), str(Path(ipython) / "kernels")]

    def find_kernel_specs(self) -> dict[str, str]:
        """Return folders by name: the environment's own kernels in its order, then the
        person's."""
        specs = {name: folder for name, folder in self._all().items() if self._shown(name, folder)}
        if self.allowed_kernelspecs:
            specs = {name: at for name, at in specs.items() if name in self.allowed_kernelspecs}
        order = {name: place for place, name in enumerate(self._titles)}
        return dict(sorted(specs.items(), key=lambda item: order.get(item[0], len(order))))

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Return a kernelspec. Raises NoSuchKernel, also for a kernel that this session does not
        show."""
        name = kernel_name.lower()
        if name not in {spec_name.lower() for spec_name in self.find_kernel_specs()}:
            raise NoSuchKernel(kernel_name)
        own = self._own(name)
        if self._is_job_kernel(name):
            spec = KernelSpec.from_resource_dir(self._all()[name])
        elif self._in_container is not None and not own:
            spec = self._in_container.specs()[name]
        else:
            spec = _plain(self._all()[name]) or super().get_kernel_spec(kernel_name)
            if self._in_container is not None:
                _keep_inside(spec)
        if self._titles.get(name) and not own:
            spec.display_name = self._titles[name]
        if spec.metadata.get(PORTS_ONLY):
            spec.display_name = f"{spec.display_name} ({READABLE})"
        spec.resource_dir = folder_with_logo(spec.resource_dir, spec.language, spec.argv)
        return spec

    def get_all_specs(self) -> dict[str, Any]:
        """Return all kernelspecs as jupyter_client does, each with the folder that has its
        logo."""
        found = super().get_all_specs()
        for known in found.values():
            spec = known["spec"]
            folder = folder_with_logo(known["resource_dir"], spec["language"], spec["argv"])
            known["resource_dir"] = folder
        return found

    def _all(self) -> dict[str, str]:
        if self._in_container is None:
            specs = {name: str(path) for name, path in super().find_kernel_specs().items()}
            return {**specs, **job_specs.in_folder(job_specs.folder())}
        container_specs = {
            name: str(spec.resource_dir) for name, spec in self._in_container.specs().items()
        }
        user_specs = job_specs.in_folder(Path(self.user_kernel_dir))
        return {**user_specs, **container_specs, **job_specs.in_folder(job_specs.folder())}

    def _shown(self, name: str, folder: str) -> bool:
        known = not self._titles or name in self._titles
        return known or self._own(name, folder) or self._is_job_kernel(name, folder)

    def _is_job_kernel(self, name: str, folder: str = "") -> bool:
        """Return True for a kernel in a job of its own, which the portal offers."""
        offered = job_specs.folder()
        folder = folder or self._all().get(name, "")
        return offered is not None and Path(folder).parent == offered

    def _own(self, name: str, folder: str = "") -> bool:
        """Return True if the person has installed this kernel."""
        folder = folder or self._all().get(name, "")
        return Path(folder).parent == Path(self.user_kernel_dir)


def _plain(folder: str) -> KernelSpec | None:
    """Return the kernelspec of a folder; None without a file there, or if the kernel has a
    provisioner of its own, which jupyter_client looks for. It loads IPython first, which takes a
    fifth of the time in which a kernel starts."""
    if not (Path(folder) / "kernel.json").is_file():
        return None
    spec = KernelSpec.from_resource_dir(folder)
    return None if "kernel_provisioner" in spec.metadata else spec


class KernelsInContainer:
    """Kernelspecs of a container beside this server, read on first use."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._lock = threading.Lock()
        self._found: dict[str, KernelSpec] | None = None

    def specs(self) -> dict[str, KernelSpec]:
        """Return the kernelspecs by name. Blocks once, while the container starts; a container
        that does not start has none, and is asked again the next time."""
        with self._lock:
            if self._found is not None:
                return self._found
            try:
                done = subprocess.run(
                    self._container.command(["/bin/sh", "-c", _READ, "sh", *_FOLDERS]),
                    env=self._container.environment(for_commands(os.environ)),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    timeout=_PATIENCE,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired):
                return {}
            if done.returncode:
                return {}
            self._found = _read_specs(done.stdout)
            return self._found


def _read_specs(data: bytes) -> dict[str, KernelSpec]:
    """Parse the output of ``_READ``. Invalid kernelspecs are left out; the first of a name
    counts."""
    specs: dict[str, KernelSpec] = {}
    parts = data.decode("utf-8", "replace").split("\0")
    for path, text in zip(parts[::2], parts[1::2]):
        if path == "/bash":
            specs[BASH] = _bash()
            continue
        folder = Path(path).parent
        try:
            content = json.loads(text)
            spec = KernelSpec(resource_dir=str(folder), **content)
        except Exception:  # noqa: S112 - a broken file must not stop the other kernels
            continue
        _keep_inside(spec)
        if folder.name.lower() != BASH:
            specs.setdefault(folder.name.lower(), spec)
    return specs


def _keep_inside(spec: KernelSpec) -> None:
    """Keep the programs of ``spec`` in the container: its contents can write kernelspecs too, and
    none of them may say that it runs on the node."""
    for name in ("kernel_provisioner", HERE):
        spec.metadata.pop(name, None)


def _bash() -> KernelSpec:
    """Return the kernelspec of bash_kernel in the portal's environment, whose bash is the
    container's."""
    argv = [
        sys.executable,
        "-I",
        "-m",
        "portal_session.kernels.container_bash",
        "-f",
        "{connection_file}",
    ]
    return KernelSpec(
        resource_dir="",
        argv=argv,
        display_name="Bash",
        language="bash",
        metadata={HERE: True},
    )
