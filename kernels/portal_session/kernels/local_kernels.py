"""Kernels that programs in a session's terminals and notebooks start themselves: jupyter console,
nbconvert, nbgrader, papermill. They too listen on Unix sockets, and so does marimo; what it cannot
run so is refused.

`portal_session.python_start` calls `follow` in every Python that has this package, and
``settings/jupyter_config.py`` in Jupyter's programs of any other. The session's own server has its
provisioner for it (`command_line`). Nothing is imported here that a bare Python has not loaded:
`typing` alone would double what this costs each start of a Python.
"""

from __future__ import annotations

import sys


def follow() -> None:
    """Change the modules of `_CHANGES`, or those of them that are imported later."""
    later = {}
    for name, change in _CHANGES.items():
        if name in sys.modules:
            change(sys.modules[name])
        else:
            later[name] = change
    if later and not any(type(finder).__name__ == _Finder.__name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(later))  # type: ignore[arg-type]


class _Finder:
    """Finder of these modules: it has the others find them, and changes each once it is run."""

    def __init__(self, changes):  # type: ignore[no-untyped-def]
        self._changes = changes

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        change = self._changes.pop(name, None)
        if change is None:
            return None
        from importlib.util import find_spec

        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_changed(module):  # type: ignore[no-untyped-def]
                run(module)
                change(module)

            spec.loader.exec_module = run_changed
        return spec


def _use_unix_sockets(module):  # type: ignore[no-untyped-def]
    provisioner = module.LocalProvisioner
    prepare = provisioner.pre_launch

    async def pre_launch(self, **kwargs):  # type: ignore[no-untyped-def]
        from .sockets import PORTS_ONLY, use_unix_sockets

        if self.parent is not None and not self.kernel_spec.metadata.get(PORTS_ONLY):
            use_unix_sockets(self.parent)
        return await prepare(self, **kwargs)

    provisioner.pre_launch = pre_launch


def _use_unix_listener(module):  # type: ignore[no-untyped-def]
    """Let marimo wait for a kernel's process at a Unix socket. Its port asks nobody for a password:
    the first to connect is the kernel, and what it sends is unpickled."""

    class Connection:
        """In place of multiprocessing.connection, of which that module uses `Listener` alone."""

        @staticmethod
        def Listener(*args, **kwargs):  # type: ignore[no-untyped-def]
            from multiprocessing.connection import Listener

            from .sockets import new_place

            return Listener(new_place(), "AF_UNIX")

    module.connection = Connection


def _refuse_ports(module):  # type: ignore[no-untyped-def]
    """Refuse marimo's other kernels, which have ZeroMQ sockets on ports, without a key: a client
    gets the cells' code, and what it sends is shown as output, or unpickled."""

    def create(*args, **kwargs):  # type: ignore[no-untyped-def]
        from marimo._session.managers.ipc import KernelStartupError

        raise KernelStartupError(_REFUSAL)

    for name in ("Connection", "AppHostConnection"):
        if hasattr(module, name):
            getattr(module, name).create = create


def _refuse_language_servers(module):  # type: ignore[no-untyped-def]
    """Refuse marimo's language servers before 0.25.1, whose ports ask for no token."""
    if hasattr(module.LspServer, "auth_token"):
        return

    async def start(self):  # type: ignore[no-untyped-def]
        return module.AlertNotification(
            title="Language servers are off", description=_REFUSED_SERVERS, variant="danger"
        )

    module.BaseLspServer.start = start


_REFUSED_SERVERS = (
    "Before version 0.25.1 of marimo, other users of this node could use them, and so read files as"
    " you. Install a newer marimo, or turn them off in the settings."
)
_REFUSAL = (
    "marimo runs notebooks with an environment of their own ([tool.marimo.venv], --sandbox), and"
    " several apps at once, by ports that other users of this node can read and write. Remove that"
    " from the notebook and install its packages in this session, or run one app at a time."
)
_CHANGES = {
    "jupyter_client.provisioning.local_provisioner": _use_unix_sockets,
    "marimo._session.managers.kernel": _use_unix_listener,
    "marimo._ipc.connection": _refuse_ports,
    "marimo._session.app_host.connection": _refuse_ports,
    "marimo._server.lsp": _refuse_language_servers,
}
