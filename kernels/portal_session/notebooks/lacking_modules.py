"""Warning for a notebook whose kernel lacks what it imports, with a kernel that has it.

The kernel's own Python looks for the modules, without importing them; what other environments have
is known to the portal.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jupyter_client.kernelspec import KernelSpec, NoSuchKernel
from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import url_path_join
from tornado.web import authenticated

from ..kernels.container import HERE, Container
from ..kernels.environment import command_of, for_commands
from ..kernels.job_specs import METADATA
from ..local_api import LocalHandler, Refused
from ..runs import RunError
from ..runs.disk import read_regular
from ..runs.request import source_path
from ..runs.source import parsed
from ..service import Address, Service, ServiceError
from ..situation import in_thread
from .needed_modules import needed_modules

_LARGEST = 4 * 1024 * 1024  # bytes of a notebook; larger ones are not looked at
_PATIENCE = 20.0  # seconds for one kernel's Python
_OTHERS = 3  # further kernels that are looked at
_SHOWN = 3  # names in the sentence
_PYTHON = re.compile(r"python[0-9.]*")
# The folder of the notebook is where a kernel looks first; what is imported here is not its.
_LOOK = """
import sys
sys.path[:] = [folder for folder in sys.path if folder]
from importlib.util import find_spec
sys.path.insert(0, "")
def lacks(name):
    try:
        return find_spec(name) is None
    except Exception:
        return False
print(*filter(lacks, sys.argv[1:]))
"""


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension. ``app`` is jupyter_server's ServerApp."""
    address = Address.from_environ(os.environ)
    service = None if address is None else Service(address, os.environ)
    check = ModuleCheck(app.kernel_spec_manager, service, Path(app.root_dir))
    path = url_path_join(app.web_app.settings["base_url"], "portal", "lacking-modules")
    app.web_app.add_handlers(".*$", [(path, LackingModulesHandler, {"check": check})])


class ModuleCheck:
    """Check of notebooks below ``root``, one at a time, with the server's kernelspecs ``specs``."""

    def __init__(self, specs: Any, service: Service | None, root: Path) -> None:
        self._specs, self._service, self._root = specs, service, root
        self._free = asyncio.Semaphore(1)

    async def answer(self, path: str, kernel: str) -> dict[str, str]:
        """Return ``words``, a sentence about what the ``kernel`` of a notebook lacks, and
        ``kernel``, the name of one that has it; "" for nothing. Raises RunError, NoSuchKernel."""
        async with self._free:
            file = source_path(path, self._root)
            names = await in_thread(self._needed, file)
            spec = await ensure_async(self._specs.get_kernel_spec(kernel))
            own = await self._spec_here(spec, kernel)
            lacking = await self._lacking(own, kernel, names, file.parent) if own else []
            if not lacking:
                return {"words": "", "kernel": ""}
            shown = ", ".join(lacking[:_SHOWN])
            more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
            other, words = await self._alternative(kernel, lacking, file.parent)
            title = spec.display_name
            return {"words": f"{title} lacks {shown}{more}. {words}", "kernel": other}

    def _needed(self, file: Path) -> list[str]:
        try:
            content = read_regular(file, _LARGEST)
        except OSError:
            return []
        return [] if len(content) > _LARGEST else needed_modules(parsed(content, file.name))

    async def _spec_here(self, spec: KernelSpec, name: str) -> KernelSpec | None:
        """Return the kernelspec of a Python of this session: of a kernel in a job, the one of the
        session's own environment. None for any other."""
        request = spec.metadata.get(METADATA)
        if isinstance(request, dict):
            if request.get("environment") != os.environ.get("PORTAL_ENVIRONMENT"):
                return None
            spec = await ensure_async(self._specs.get_kernel_spec(str(request.get("kernel"))))
        program = Path(spec.argv[0]).name if spec.argv else ""
        is_python = spec.language == "python" and _PYTHON.fullmatch(program)
        return spec if is_python and not spec.metadata.get(HERE) else None

    async def _lacking(
        self, spec: KernelSpec, name: str, modules: Sequence[str], folder: Path
    ) -> list[str]:
        if not modules:
            return []
        return await in_thread(lacking, spec, name, modules, folder)

    async def _alternative(
        self, kernel: str, modules: Sequence[str], folder: Path
    ) -> tuple[str, str]:
        """Return the name of a kernel that has the modules, "" without one, and a sentence."""
        found = await ensure_async(self._specs.get_all_specs())
        specs = {name: KernelSpec(**known["spec"]) for name, known in found.items()}
        left = _OTHERS
        for name, spec in specs.items():
            own = None if METADATA in spec.metadata else await self._spec_here(spec, name)
            if name != kernel and own and left:
                left -= 1
                if not await self._lacking(own, name, modules, folder):
                    return name, f"The kernel '{spec.display_name}' has what is missing."
        environments = await self._environments(modules)
        for item in environments:
            for name, spec in specs.items():
                request = spec.metadata.get(METADATA)
                if isinstance(request, dict) and request.get("environment") == item["environment"]:
                    return name, f"The kernel '{spec.display_name}' has what is missing."
        if environments:
            return "", f"The environment '{environments[0]['title']}' has what is missing."
        return "", "Install it with %pip, or choose another kernel."

    async def _environments(self, modules: Sequence[str]) -> list[dict[str, Any]]:
        if self._service is None:
            return []
        query = urlencode({"names": ",".join(modules)})
        try:
            answer = await in_thread(self._service.ask, "GET", f"session/modules?{query}")
        except ServiceError:
            return []
        return list(answer.get("items", ()))


def lacking(spec: KernelSpec, name: str, modules: Sequence[str], folder: Path) -> list[str]:
    """Return those of the ``modules`` that the Python of a kernel, called ``name``, does not find
    from ``folder``; none if it does not say. Blocks."""
    argv = [spec.argv[0], "-c", _LOOK, *modules]
    if Container.from_environ(os.environ) is None and Path(argv[0]).name == argv[0]:
        argv[0] = sys.executable  # as jupyter_client has it (KernelManager.format_kernel_cmd)
    env = {**for_commands(os.environ), **spec.env}
    command = command_of(spec, name, argv, env, str(folder))
    try:
        done = subprocess.run(
            command.argv,
            env=command.env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    said = done.stdout.decode("utf-8", "replace").split()
    return [module for module in modules if module in said]


class LackingModulesHandler(LocalHandler):
    """``GET portal/lacking-modules?path=…&kernel=…``: see ModuleCheck.answer."""

    def initialize(self, check: ModuleCheck) -> None:
        self.check = check

    @authenticated
    @authorized
    async def get(self) -> None:
        self.check_owner()
        path, kernel = self.get_argument("path"), self.get_argument("kernel")
        try:
            self.finish(json.dumps(await self.check.answer(path, kernel)))
        except RunError as error:
            raise Refused(400, str(error)) from None
        except NoSuchKernel:
            raise Refused(404, "This session has no such kernel.") from None
