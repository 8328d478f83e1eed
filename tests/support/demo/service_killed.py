"""End of the demo's web service by SIGKILL: its Hub starts another one."""

from __future__ import annotations

from typing import Any

_KILL = """import os, signal
for name in os.listdir("/proc"):
    try:
        with open(f"/proc/{name}/environ", "rb") as file:
            if b"JUPYTERHUB_SERVICE_NAME=portal" in file.read().split(b"\\0"):
                os.kill(int(name), signal.SIGKILL)
                print(name)
    except (OSError, ValueError):
        pass
"""


def kill_service(demo: Any) -> None:
    """Kill the processes of the web service."""
    killed = demo.run(["/usr/bin/python3", "-c", _KILL]).stdout
    assert killed.strip(), "there is no service"
