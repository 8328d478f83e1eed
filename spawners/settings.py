"""Settings of sessions."""

from __future__ import annotations

from batchspawner import SlurmSpawner
from jupyterhub.app import JupyterHub
from traitlets import Any, Dict, Float, Integer, List, Unicode, default
from traitlets.config import Config

from portal.launch.request import DEFAULT_RESOURCES
from portal.models.catalog.environment import Bind

from .web.service_address import service_address

# Prefixes of batchspawner's unused settings, and what to use instead.
_INSTEAD = {
    "req_prologue": "Put what sessions need into the modules and variables of their environment.",
    "req_epilogue": "Slurm's own Epilog runs after each job.",
    "req_keepvars": "Name variables in the environment's file (variables).",
    "req_": "Set it in c.PortalSpawner.default_resources or in the environment's file (default).",
    "batch_script": "The job script is constant; an environment's file defines what runs in it.",
    "batch_": "c.SlurmRunner defines how Slurm's commands are called.",
    "exec_prefix": "c.SlurmRunner.sudo defines how Slurm's commands run as a user.",
    "ip": "c.PortalSpawner.listen_address is the address that sessions listen on.",
    "startup_poll_interval": "c.PortalSpawner.watch_interval sets how often a start is checked.",
    "": "The portal reads Slurm's states and nodes itself.",
}


class SessionSettings(SlurmSpawner):
    """batchspawner's SlurmSpawner with the portal's settings; PortalSpawner does the work."""

    start_timeout = Integer(
        7 * 86400,
        help="""Seconds from the launch until the server answers, including the wait in Slurm's
        queue. The default is a week, since Slurm decides how long that wait is; `server_timeout`
        limits the time once the job runs.
        Example: c.PortalSpawner.start_timeout = 86400""",
    ).tag(config=True)
    server_timeout = Integer(
        300,
        help="""Seconds that a server has to answer once its job runs.
        Example: c.PortalSpawner.server_timeout = 120""",
    ).tag(config=True)
    http_timeout = Integer(
        120,
        help="""Seconds that the Hub tries to reach a server that has reported its port.
        Example: c.PortalSpawner.http_timeout = 60""",
    ).tag(config=True)
    poll_interval = Integer(
        10,
        help="""Seconds between checks of a running session. All checks read one shared snapshot,
        so the number of sessions does not matter to Slurm.
        Example: c.PortalSpawner.poll_interval = 30""",
    ).tag(config=True)
    watch_interval = Float(
        2.0,
        help="""Seconds between checks of a session that is starting or stopping.
        Example: c.PortalSpawner.watch_interval = 5""",
    ).tag(config=True)
    move_patience = Float(
        15.0,
        help="""Seconds that open pages of a session have to save their documents when the session
        moves to another job ("Change resources"). Without an open page, the move does not wait.
        Example: c.PortalSpawner.move_patience = 30""",
    ).tag(config=True)
    account_timeout = Float(
        5.0,
        help="""Seconds that a launch waits for the lookup of the user's Unix account (NSS: files,
        sssd, nslcd).
        Example: c.PortalSpawner.account_timeout = 15""",
    ).tag(config=True)
    cmd = List(
        Unicode(),
        [],
        help="""Server command that replaces the environment's own (`python3 -I -m portal_session`,
        a jupyterhub-singleuser that reports its port).
        Example: c.PortalSpawner.cmd = ["/opt/site/start-server"]""",
    ).tag(config=True)
    apptainer = Unicode(
        "apptainer",
        help="""Command that starts Apptainer on the nodes.
        Example: c.PortalSpawner.apptainer = "/usr/bin/singularity" """,
    ).tag(config=True)
    binds = List(
        Dict(),
        help="""Bind mounts of every container, in addition to the home.
        Example: c.PortalSpawner.binds = [{"source": "/data", "read_only": True}]""",
    ).tag(config=True)
    commands_in_containers = List(
        Unicode(),
        help="""Files and folders of the nodes that containers see at the same path, read-only, so
        that Slurm's commands and `module` work in terminals and notebooks there: the commands,
        their libraries, slurm.conf, munge's socket. All of them must exist on every node; otherwise
        no container starts. docs/how-to/command-line.md has an initial list.
        Example: c.PortalSpawner.commands_in_containers = ["/usr/bin/sbatch", "/etc/slurm"]""",
    ).tag(config=True)
    kept_variables = List(
        Unicode(),
        help="""Variables of the session that are passed to terminals and kernels although they are
        removed by default: SLURM_… of its job, JUPYTERHUB_API_TOKEN. Jobs submitted from there
        inherit them.
        Example: c.PortalSpawner.kept_variables = ["SLURM_CPUS_PER_TASK"]""",
    ).tag(config=True)
    log_directory = Unicode(
        "/var/lib/data-scientist-portal/log",
        help="""Directory of the jobs' logs, on a file system that the Hub and the nodes share,
        owned by the Hub's account with mode 0711. The Hub creates each log, its job appends to it,
        and only the Hub can read it.
        Example: c.PortalSpawner.log_directory = "/shared/portal/log" """,
    ).tag(config=True)
    listen_address = Unicode(
        "0.0.0.0",  # noqa: S104  nodes are other machines
        help="""Address on which sessions listen on their node. Default: all, since the Hub and the
        proxy are on other machines.
        Example: c.PortalSpawner.listen_address = "127.0.0.1" """,
    ).tag(config=True)
    session_umask = Unicode(
        "0022",
        help="""umask of sessions.
        Example: c.PortalSpawner.session_umask = "0027" """,
    ).tag(config=True)
    default_resources = Dict(
        DEFAULT_RESOURCES,
        help="""Resources of a session if neither the user nor the environment sets them.
        Example: c.PortalSpawner.default_resources = {"cpus": 4, "memory": "16G"}""",
    ).tag(config=True)
    tensorboard_resources = Dict(
        {"cpus": 1, "memory": "4G", "time": "1:00:00"},
        help="""Default and maximum resources of a TensorBoard for the logs of an ended session. It
        never has GPUs.
        Example: c.PortalSpawner.tensorboard_resources = {"cpus": 2, "partition": "cpu"}""",
    ).tag(config=True)
    service_url = Unicode(
        help="""Address of the portal's service as seen from the nodes; sessions report the use of
        their GPUs there. Default: JupyterHub's `public_url`, else the proxy's address (`bind_url`)
        unless it is a loopback address. Empty: sessions do not report.
        Example: c.PortalSpawner.service_url = "https://portal.example.org/services/portal/" """,
    ).tag(config=True)
    telemetry_interval = Float(
        30.0,
        min=0.0,
        help="""Seconds between reports of a session about its own GPUs and memory; 0: no reports.
        Example: c.PortalSpawner.telemetry_interval = 60""",
    ).tag(config=True)
    tensorboard_memory = Integer(
        4096,
        min=256,
        help="""Maximum MiB of memory of a TensorBoard in a session, and never more than half of
        the job's. A TensorBoard that exceeds it is stopped, and its user is notified.
        Example: c.PortalSpawner.tensorboard_memory = 8192""",
    ).tag(config=True)
    tensorboard_roots = List(
        Unicode(),
        help="""Directories below which TensorBoard may show logs, in addition to the home and to
        writable bind mounts of `binds` and the environment. Use absolute paths, as sessions see
        them.
        Example: c.PortalSpawner.tensorboard_roots = ["/scratch"]""",
    ).tag(config=True)
    welcome_notebook = Unicode(
        help="""Notebook on which the first session of each user opens: a file that every session
        can read, in a bind mount for containers. It is copied to ~/README.ipynb, unless there is
        one. Empty: JupyterLab opens on its launcher.
        Example: c.PortalSpawner.welcome_notebook = "/shared/portal/README.ipynb" """,
    ).tag(config=True)
    preparation_hook = Any(
        None,
        allow_none=True,
        help="""Function called with the spawner, on the launch page and before a launch is
        validated, for sites that create homes or Slurm associations on demand. It is called only if
        the user has no account, no home or no association. A plain function runs in its own thread,
        so it may block, but it must use only `spawner.user.name` of the Hub; an async function runs
        in the Hub's event loop. An exception refuses the launch: the message of a
        `portal.errors.NotAllowed` is shown to the user, others only appear in the Hub's log.
        Example: c.PortalSpawner.preparation_hook = create_home""",
    ).tag(config=True)
    preparation_timeout = Float(
        30.0,
        help="""Seconds that a launch and its page wait for `preparation_hook`. After that, an
        async hook is cancelled; a plain function continues, and the next attempt waits for it.
        Example: c.PortalSpawner.preparation_timeout = 60""",
    ).tag(config=True)

    @classmethod
    def unused_settings(cls, config: Config) -> dict[str, str]:
        """Return the settings of batchspawner in ``config`` that have no effect, such as
        "c.SlurmSpawner.req_partition", each with what to use instead."""
        theirs = {
            name
            for name, trait in cls.class_traits(config=True).items()
            if trait.this_class.__module__.partition(".")[0] == "batchspawner"
        }
        return {
            f"c.{kind.__name__}.{name}": next(
                instead for prefix, instead in _INSTEAD.items() if name.startswith(prefix)
            )
            for kind in cls.__mro__
            for name in sorted(theirs & config.get(kind.__name__, {}).keys())
        }

    def container_binds(self) -> list[Bind]:
        """Return the bind mounts of every container, before its environment's own."""
        commands = [Bind(source=path) for path in self.commands_in_containers]
        return [*commands, *(Bind(**bind) for bind in self.binds)]

    @default("service_url")
    def _service_url_default(self) -> str:
        return service_address(JupyterHub.instance()) if JupyterHub.initialized() else ""
