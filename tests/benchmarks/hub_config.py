"""Configuration of the benchmarks' Hubs, which differ only in the spawner (BENCH_SPAWNER).

Settings not given here have JupyterHub's defaults in all of them; those without which a spawner
cannot run on this cluster are in its own part.
"""

import os
from pathlib import Path

c = get_config()  # noqa: F821  given by traitlets

kind = os.environ["BENCH_SPAWNER"]
responder = os.environ["BENCH_PORT"]
stub = os.environ["BENCH_STUB"]
partition = os.environ["BENCH_PARTITION"]
here = Path.cwd()

os.umask(0o027)
c.JupyterHub.bind_url = os.environ["BENCH_URL"]
c.JupyterHub.hub_bind_url = c.JupyterHub.hub_connect_url = os.environ["BENCH_HUB_URL"]
c.ConfigurableHTTPProxy.command = [os.environ["BENCH_PROXY"]]
c.ConfigurableHTTPProxy.api_url = os.environ["BENCH_PROXY_API_URL"]
c.JupyterHub.db_url = f"sqlite:///{here}/jupyterhub.sqlite"
c.JupyterHub.cookie_secret_file = str(here / "cookie-secret")
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.cleanup_servers = False
c.JupyterHub.concurrent_spawn_limit = 0
# The response to a launch waits for the server, so that nobody has to poll the Hub.
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 600}

c.JupyterHub.services = [{"name": "bench", "api_token": os.environ["BENCH_TOKEN"]}]
c.JupyterHub.load_roles = [
    {"name": "bench", "services": ["bench"], "scopes": ["admin:users", "admin:servers"]}
]

if kind == "noop":
    from tests.benchmarks.noop import NoopSpawner

    c.JupyterHub.spawner_class = NoopSpawner
elif kind == "stock":
    c.JupyterHub.spawner_class = "batchspawner.SlurmSpawner"
    c.SlurmSpawner.batchspawner_singleuser_cmd = stub
    c.SlurmSpawner.cmd = ["batchspawner", responder]
    c.SlurmSpawner.req_partition = partition
    c.SlurmSpawner.req_memory = "100"
    c.SlurmSpawner.req_runtime = "30"
    c.SlurmSpawner.state_exechost_exp = "127.0.0.1"  # the nodes' names do not resolve here
    c.JupyterHub.default_url = "/hub/home"  # a visitor's login would start a server
    if os.environ.get("BENCH_STOCK_SRUN") == "0":
        c.SlurmSpawner.req_srun = ""
elif kind == "moss":
    from jupyterhub_moss import set_config

    set_config(c)
    environment = {"description": "Stub", "path": "/usr/bin", "add_to_path": False}
    c.MOSlurmSpawner.partitions = {
        partition: {"jupyter_environments": {"stub": environment}, "simple": True}
    }
elif kind in ("ours", "course", "page"):
    from portal.paths import data_path
    from spawners import hub_patches
    from spawners.hub_setup import set_up_hub

    deploy = data_path("deploy") / "jupyterhub_config.d"

    without = os.environ.get("BENCH_WITHOUT", "").split()  # patches.py
    if unknown := {*without} - {patch.name for patch in hub_patches.PATCHES}:
        raise ValueError(f"BENCH_WITHOUT names no patch: {unknown}")  # it would measure nothing
    hub_patches.PATCHES = tuple(patch for patch in hub_patches.PATCHES if patch.name not in without)
    set_up_hub()
    c.JupyterHub.spawner_class = "spawners.spawner.PortalSpawner"
    c.PortalSpawner.cmd = [stub, "portal/port", responder]
    c.PortalSpawner.default_resources = {
        "cpus": 1,
        "memory": "100M",
        "time": "0:30:00",
        "partition": partition,
    }
    c.PortalSpawner.log_directory = os.environ["BENCH_LOGS"]
    c.EnvironmentCatalog.directory = os.environ["BENCH_ENVIRONMENTS"]
    c.EnvironmentCatalog.offer_untested = True
    # As at every site: the portal's tables and pages are made at the Hub's start, not by a launch.
    load_subconfig(str(deploy / "40-history.py"))  # noqa: F821

if kind == "page":
    load_subconfig(str(deploy / "10-pages.py"))  # noqa: F821

if kind == "course":
    # The same with the portal's service and the sessions of a course: the stub in place of
    # Apptainer.
    for name in ("20-service.py", "30-roles.py", "60-courses.py"):
        load_subconfig(str(deploy / name))  # noqa: F821
    c.JupyterHub.services[-1]["environment"] |= {  # it reads this file, too
        name: value for name, value in os.environ.items() if name.startswith("BENCH_")
    }
    c.JupyterHub.allow_named_servers = True
    c.PortalSpawner.apptainer = stub
    c.BuildScheduler.test_by_itself = False
    c.Store.url = f"sqlite:///{here}/portal.sqlite"
