"""Kernels that programs in a session's terminals and notebooks start themselves: jupyter console,
nbconvert, nbgrader, papermill. They too listen on Unix sockets.

``portal_session.pth`` calls `follow` in every Python that has this package, and
``settings/jupyter_config.py`` in Jupyter's programs of any other. The session's own server has its
provisioner for it (`command_line`). Nothing is imported here that a bare Python has not loaded:
`typing` alone would double what this costs each start of a Python.
"""

from __future__ import annotations

import sys

_MODULE = "jupyter_client.provisioning.local_provisioner"


def follow() -> None:
    """Change jupyter_client's local provisioner, or the one that is imported later."""
    if _MODULE in sys.modules:
        _change(sys.modules[_MODULE])
    elif not any(type(finder).__name__ == _Finder.__name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]


class _Finder:
    """Finder of that one module: it has the others find it, and changes it once it is run."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name != _MODULE:
            return None
        from importlib.util import find_spec

        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_changed(module):  # type: ignore[no-untyped-def]
                run(module)
                _change(module)

            spec.loader.exec_module = run_changed
        return spec


def _change(module):  # type: ignore[no-untyped-def]
    provisioner = module.LocalProvisioner
    prepare = provisioner.pre_launch

    async def pre_launch(self, **kwargs):  # type: ignore[no-untyped-def]
        from .sockets import PORTS_ONLY, use_unix_sockets

        if self.parent is not None and not self.kernel_spec.metadata.get(PORTS_ONLY):
            use_unix_sockets(self.parent)
        return await prepare(self, **kwargs)

    provisioner.pre_launch = pre_launch
