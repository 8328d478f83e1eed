"""The demo's web service, as its Hub started it: its token, and its end by SIGKILL."""

from __future__ import annotations

from typing import Any

from processes import PID, variables_of


def service_token(demo: Any) -> str:
    """Return the token with which the service asks the Hub."""
    (token,) = {token for token, _ in _processes(demo)}
    return token


def kill_service(demo: Any) -> None:
    """Kill the service of this demo, and of no other: its Hub starts another one."""
    pids = service_pids(demo)
    assert pids, "there is no service"
    demo.run(["kill", "-KILL", *pids], user=demo.user("portal"))


def service_pids(demo: Any) -> list[str]:
    """Return the ids of the service's processes; none while there is no service."""
    return [pid for _, pid in _processes(demo)]


def _processes(demo: Any) -> list[tuple[str, str]]:
    """Return each process's token and id."""
    names = ("JUPYTERHUB_SERVICE_NAME", "JUPYTERHUB_API_TOKEN", PID)
    found = variables_of(demo, "portal", *names)
    return [(token, pid) for name, token, pid in found if name == "portal"]
