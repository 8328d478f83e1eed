"""Kernels and terminals of a session's server: how they are started (`environment`)."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Callable

from jupyter_client.provisioning import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from .container import Container
from .environment import add_library, command_of, for_commands, interrupt_inside
from .job_specs import begin, continue_life
from .shell import shell_command
from .sockets import PORTS_ONLY, remove_sockets, use_unix_sockets

_OFTEN = 5.0  # seconds; a relay that is killed again within them is left to Jupyter
PROVISIONER = "portal-provisioner"  # an entry point of this package


class SessionProvisioner(LocalProvisioner):
    """Provisioner that starts kernels as jupyter_client does, in the container if one is beside
    this server."""

    _in_container = False
    _launched: tuple[list[str], dict[str, Any]] | None = None
    _killing = False  # the server itself ends the process
    _continued_at = float("-inf")  # monotonic time of the last relay that follows a killed one
    _continuing = False

    def _finalize_env(self, env: dict[str, str]) -> None:
        super()._finalize_env(env)
        clean = for_commands(env)
        env.clear()
        env.update(clean)

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Prepare a launch as LocalProvisioner does."""
        if self.parent is not None and not self.kernel_spec.metadata.get(PORTS_ONLY):
            use_unix_sockets(self.parent)
        await begin(self.parent, self.kernel_spec, self.kernel_id)
        return await super().pre_launch(**kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Launch a kernel as LocalProvisioner does; ``cmd`` is the kernelspec's argv."""
        name = str(getattr(self.parent, "kernel_name", ""))
        cwd = str(kwargs.get("cwd") or "")
        address = str(getattr(self.parent, "ip", ""))
        sockets = os.path.dirname(address) if address.startswith("/") else ""  # noqa: PTH120
        command = command_of(self.kernel_spec, name, cmd, kwargs["env"], cwd, sockets)
        self._in_container = command.in_container
        kwargs["env"] = command.env
        self._launched, self._killing = (command.argv, dict(kwargs)), False
        return await super().launch_kernel(command.argv, **kwargs)

    async def cleanup(self, restart: bool = False) -> None:
        """Clean up as LocalProvisioner does, and remove the sockets that a kernel has left."""
        await super().cleanup(restart)
        if not restart and self.parent is not None:
            remove_sockets(self.parent)

    async def poll(self) -> int | None:
        """Return the exit code of the kernel's process, None while it runs. A relay of a job
        kernel that was killed by others is started again: its kernel is healthy, and Jupyter would
        restart that."""
        if self._continuing:
            return None
        code: int | None = await super().poll()
        if code is None or code >= 0 or self._launched is None or self._killing:
            return code
        ending = getattr(self.parent, "shutting_down", False)
        if ending or time.monotonic() - self._continued_at < _OFTEN:
            return code
        self._continuing = True
        try:
            if not await continue_life(self.parent, self.kernel_spec, self.kernel_id):
                return code
            if self._killing:  # meanwhile
                return code
            argv, kwargs = self._launched
            await super().launch_kernel(argv, **kwargs)
            self._continued_at = time.monotonic()
        finally:
            self._continuing = False
        return None

    async def kill(self, restart: bool = False) -> None:
        """Kill the kernel's process as LocalProvisioner does."""
        self._killing = True
        await super().kill(restart)

    async def terminate(self, restart: bool = False) -> None:
        """Terminate the kernel's process as LocalProvisioner does."""
        self._killing = True
        await super().terminate(restart)

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel's whole process group."""
        if signum == signal.SIGINT and self._in_container and self.pgid and self.process:
            interrupt_inside(self.pgid, self.process.pid)
        else:
            await super().send_signal(signum)


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension, after jupyter_server's terminals (extensions load by name)."""
    kernels = KernelProvisionerFactory.instance(parent=app)
    if kernels.default_provisioner_name == "local-provisioner":
        # Not by its environment variable, which a Jupyter in another environment would inherit.
        kernels.default_provisioner_name = PROVISIONER
    terminals = app.web_app.settings.get("terminal_manager")
    if terminals is not None:
        container = Container.from_environ(os.environ)
        if container is not None:
            terminals.shell_command = container.shell()
        elif not getattr(app, "terminado_settings", {}).get("shell_command"):  # else the site's
            terminals.shell_command = shell_command(os.environ)
        terminals.make_term_env = _clean(terminals.make_term_env, container)


def _clean(
    make: Callable[..., dict[str, str]], container: Container | None = None
) -> Callable[..., dict[str, str]]:
    """Wrap terminado's ``make_term_env``, so that new terminals get a cleaned environment."""

    def make_term_env(*args: Any, **kwargs: Any) -> dict[str, str]:
        clean = for_commands(make(*args, **kwargs))
        if container is not None:
            return container.environment(clean)
        add_library(clean)
        return clean

    return make_term_env
