"""Remote side of ``%%gpu``, in the kernel with the GPUs: it receives variables and sends others.

``SETUP`` is run there before each cell and does nothing if it has been run before. Everything
passes as messages of a comm (jupyter_client, "Custom Messages"), whose buffers are no text.
"""

from __future__ import annotations

import json
from typing import Any

from .variables import Refused, pack, unpack

TARGET = "portal_gpu"  # name of the comm's target
_WHERE = "in the kernel with the GPU"
_MODULES = ("variables", "remote")

_SETUP = """
def _portal_setup():
    import json, sys, types
    if "_portal_gpu" not in sys.modules:
        package = sys.modules["_portal_gpu"] = types.ModuleType("_portal_gpu")
        package.__path__ = []
        for name, text in json.loads({sources!r}).items():
            module = types.ModuleType("_portal_gpu." + name)
            module.__package__ = "_portal_gpu"
            sys.modules[module.__name__] = module
            exec(compile(text, "<%%gpu, " + name + ">", "exec"), module.__dict__)
        sys.modules["_portal_gpu.remote"].serve(get_ipython())
try:
    _portal_setup()
finally:
    del _portal_setup
"""


def setup(sources: dict[str, str]) -> str:
    """Return the code that sets up this side. ``sources``: the texts of the modules, by name."""
    return _SETUP.format(sources=json.dumps({name: sources[name] for name in _MODULES}))


def serve(shell: Any) -> None:
    """Serve the notebook's kernel. ``shell``: IPython's."""

    def opened(comm: Any, _message: Any) -> None:
        comm.on_msg(lambda message: _answer(comm, shell.user_ns, message))

    shell.kernel.comm_manager.register_target(TARGET, opened)


def _answer(comm: Any, namespace: dict[str, Any], message: dict[str, Any]) -> None:
    data = message["content"]["data"]
    try:
        if "set" in data:
            namespace.update(unpack(data["set"], message["buffers"], _WHERE))
            comm.send({"done": True})
        else:
            headers, buffers = pack(namespace, data["get"], data["limit"], _WHERE)
            comm.send({"values": headers}, buffers=buffers)
    except Refused as error:
        comm.send({"refused": str(error)})
    except Exception as error:  # memory, for example
        comm.send({"refused": f"The variables were not sent: {type(error).__name__}: {error}."})
