"""Settings of sessions."""

from __future__ import annotations

from batchspawner import SlurmSpawner
from jupyterhub.app import JupyterHub
from traitlets import Any, Dict, Float, Integer, List, Unicode, default
from traitlets.config import Config

from portal.launch.request import DEFAULT_RESOURCES
from portal.models.catalog.environment import Bind
from portal.setting import setting

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
    "startup_poll_interval": "The portal checks a start every two seconds.",
    "": "The portal reads Slurm's states and nodes itself.",
}


class SessionSettings(SlurmSpawner):
    """batchspawner's SlurmSpawner with the portal's settings; PortalSpawner does the work."""

    start_timeout = setting(
        Integer(7 * 86400),
        """Seconds from the launch until the server answers, including the wait in Slurm's queue.
        The default is a week, since Slurm decides how long that wait is; `server_timeout` limits
        the time once the job runs.""",
        "c.PortalSpawner.start_timeout = 86400",
    )
    server_timeout = setting(
        Integer(300),
        "Seconds that a server has to answer once its job runs.",
        "c.PortalSpawner.server_timeout = 120",
    )
    watch_interval = 2.0  # seconds between checks of a session that is starting or stopping
    # Seconds that open pages of a session have to save their documents when the session moves to
    # another job. Without an open page, the move does not wait.
    move_patience = 15.0
    account_timeout = setting(
        Float(5.0),
        """Seconds that a launch waits for the lookup of the user's Unix account (NSS: files, sssd,
        nslcd).""",
        "c.PortalSpawner.account_timeout = 15",
    )
    cmd = setting(
        List(Unicode(), []),
        """Server command that replaces the environment's own (`python3 -I -m portal_session`, a
        jupyterhub-singleuser that reports its port).""",
        'c.PortalSpawner.cmd = ["/opt/site/start-server"]',
    )
    apptainer = setting(
        Unicode("apptainer"),
        "Command that starts Apptainer on the nodes.",
        'c.PortalSpawner.apptainer = "/usr/bin/singularity"',
    )
    binds = setting(
        List(Dict()),
        "Bind mounts of every container, in addition to the home.",
        'c.PortalSpawner.binds = [{"source": "/data", "read_only": True}]',
    )
    commands_in_containers = setting(
        List(Unicode()),
        """Files and folders of the nodes that containers see at the same path, read-only, so that
        Slurm's commands and `module` work in terminals and notebooks there: the commands, their
        libraries, slurm.conf, munge's socket. All of them must exist on every node; otherwise no
        container starts. docs/how-to/command-line.md has an initial list.""",
        'c.PortalSpawner.commands_in_containers = ["/usr/bin/sbatch", "/etc/slurm"]',
    )
    kept_variables = setting(
        List(Unicode()),
        """Variables of the session that are passed to terminals and kernels although they are
        removed by default: SLURM_… of its job, JUPYTERHUB_API_TOKEN. Jobs submitted from there
        inherit them.""",
        'c.PortalSpawner.kept_variables = ["SLURM_CPUS_PER_TASK"]',
    )
    log_directory = setting(
        Unicode("/var/lib/data-scientist-portal/log"),
        """Directory of the jobs' logs, on a file system that the Hub and the nodes share, owned by
        the Hub's account with mode 0711. The Hub creates each log, its job appends to it, and only
        the Hub can read it.""",
        'c.PortalSpawner.log_directory = "/shared/portal/log"',
    ).tag(backup="")
    listen_address = setting(
        Unicode("0.0.0.0"),  # noqa: S104  nodes are other machines
        """Address on which sessions listen on their node. Default: all, since the Hub and the proxy
        are on other machines.""",
        'c.PortalSpawner.listen_address = "127.0.0.1"',
    )
    session_umask = setting(
        Unicode("0022"),
        "umask of sessions.",
        'c.PortalSpawner.session_umask = "0027"',
    )
    default_resources = setting(
        Dict(DEFAULT_RESOURCES),
        "Resources of a session if neither the user nor the environment sets them.",
        'c.PortalSpawner.default_resources = {"cpus": 4, "memory": "16G"}',
    )
    tensorboard_resources = setting(
        Dict({"cpus": 1, "memory": "4G", "time": "1:00:00"}),
        """Default and maximum resources of a TensorBoard for the logs of an ended session. It never
        has GPUs.""",
        'c.PortalSpawner.tensorboard_resources = {"cpus": 2, "partition": "cpu"}',
    )
    service_url = setting(
        Unicode(),
        """Address of the portal's service as seen from the nodes; sessions report the use of their
        GPUs there. Default: JupyterHub's `public_url`, else the proxy's address (`bind_url`) unless
        it is a loopback address. Empty: sessions do not report.""",
        'c.PortalSpawner.service_url = "https://portal.example.org/services/portal/"',
    )
    telemetry_interval = setting(
        Float(30.0, min=0.0),
        "Seconds between reports of a session about its own GPUs and memory; 0: no reports.",
        "c.PortalSpawner.telemetry_interval = 60",
    )
    tensorboard_memory = setting(
        Integer(4096, min=256),
        """Maximum MiB of memory of a TensorBoard in a session, and never more than half of the
        job's. A TensorBoard that exceeds it is stopped, and its user is notified.""",
        "c.PortalSpawner.tensorboard_memory = 8192",
    )
    tensorboard_roots = setting(
        List(Unicode()),
        """Directories below which TensorBoard may show logs, in addition to the home and to
        writable bind mounts of `binds` and the environment. Use absolute paths, as sessions see
        them.""",
        'c.PortalSpawner.tensorboard_roots = ["/scratch"]',
    )
    welcome_notebook = setting(
        Unicode(),
        """Notebook on which the first session of each user opens: a file that every session can
        read, in a bind mount for containers. It is copied to ~/README.ipynb, unless there is one.
        Empty: JupyterLab opens on its launcher.""",
        'c.PortalSpawner.welcome_notebook = "/shared/portal/README.ipynb"',
    ).tag(backup="files")
    preparation_hook = setting(
        Any(None, allow_none=True),
        """Function called with the spawner, on the launch page and before a launch is validated,
        for sites that create homes or Slurm associations on demand. It is called only if the user
        has no account, no home or no association. A plain function runs in its own thread, so it
        may block, but it must use only `spawner.user.name` of the Hub; an async function runs in
        the Hub's event loop. An exception refuses the launch: the message of a
        `portal.errors.NotAllowed` is shown to the user, those of others appear only in the Hub's
        log.""",
        "c.PortalSpawner.preparation_hook = create_home",
    )
    preparation_timeout = setting(
        Float(30.0),
        """Seconds that a launch and its page wait for `preparation_hook`. After that, an async hook
        is cancelled; a plain function continues, and the next attempt waits for it.""",
        "c.PortalSpawner.preparation_timeout = 60",
    )

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

    @default("http_timeout")
    def _http_timeout_default(self) -> int:
        return 120  # JupyterHub's own setting; nodes may be busy

    @default("poll_interval")
    def _poll_interval_default(self) -> int:
        return 10  # JupyterHub's own setting; all checks read one shared snapshot

    @default("service_url")
    def _service_url_default(self) -> str:
        return service_address(JupyterHub.instance()) if JupyterHub.initialized() else ""
