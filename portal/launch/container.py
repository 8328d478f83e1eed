"""The command of a session: Apptainer's argv for containers, the interpreter's for the others.

No value reaches a shell: this is the argv that the job script executes. Nothing secret is in it
(``ps`` shows it); the environment carries what must not be seen.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..models.environment import Bind, Environment, Kind
from ..models.resources import Resources

# -I: the server ignores the user's site-packages, PYTHONPATH and working directory, so nothing
# that a person installs can break it. The flag is not inherited: kernels see all of it.
SERVER = ("-I", "-m", "portal_session")


def user_base(environment: Environment, home: str) -> str:
    """The PYTHONUSERBASE of one person's environment: deleting it resets what they installed."""
    return f"{home}/.portal/{environment.name}"


def session_command(
    environment: Environment,
    resources: Resources,
    *,
    home: str,
    apptainer: str,
    binds: Sequence[Bind] = (),
    server: Sequence[str] = (),
    args: Sequence[str] = (),
) -> list[str]:
    """The argv that starts a session's server in ``environment``.

    ``server`` replaces the default server command (``python3 -I -m portal_session``); ``binds``
    are the site's, before the environment's own.
    """
    if environment.kind is Kind.CONTAINER:
        prefix = _apptainer(environment, resources, home, apptainer, binds)
        return [*prefix, *(server or ("python3", *SERVER)), *args]
    return [*(server or (f"{environment.path}/bin/python3", *SERVER)), *args]


def _apptainer(
    environment: Environment,
    resources: Resources,
    home: str,
    apptainer: str,
    binds: Sequence[Bind],
) -> list[str]:
    """``apptainer exec`` up to the image (apptainer-exec(1)).

    ``--cleanenv`` keeps the node's environment out; ``--no-eval`` keeps Apptainer from evaluating
    ``$(…)`` in the values that are passed through APPTAINERENV_.
    """
    argv = [apptainer, "exec", "--cleanenv", "--no-eval", "--no-mount", "cwd", "--pwd", home]
    if resources.gpus:
        argv.append("--nv")
    for bind in (*binds, *environment.binds):
        mode = ":ro" if bind.read_only else ""
        argv += ["--bind", f"{bind.source}:{bind.target or bind.source}{mode}"]
    return [*argv, environment.image or ""]
