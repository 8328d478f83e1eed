"""The demo's Hub: deploy/jupyterhub_config.py as a site has it, and the values of this demo.

`portal demo` writes what it started (addresses, paths, ports) into the file that
PORTAL_DEMO_STATE names, and everything below is read from there.
"""

import json
import os
from pathlib import Path

c = get_config()  # noqa: F821  given by traitlets

load_subconfig(str(Path(__file__).resolve().parents[1] / "jupyterhub_config.py"))  # noqa: F821
demo = json.loads(Path(os.environ["PORTAL_DEMO_STATE"]).read_text())
one_account = demo["form"] != "people"

# Where it serves: loopback only. The proxy is a piece of the demo, so it outlives the Hub.
# Each person's sessions have a host of their own, NAME.localhost, so that what runs in them has
# another origin than the Hub's pages.
c.JupyterHub.bind_url = demo["bind_url"]
c.JupyterHub.subdomain_host = demo["url"]
c.JupyterHub.hub_bind_url = demo["hub_url"]
c.JupyterHub.hub_connect_url = demo["hub_url"]
c.ConfigurableHTTPProxy.should_start = False
c.ConfigurableHTTPProxy.api_url = demo["proxy_api_url"]
c.JupyterHub.cleanup_proxy = False
c.JupyterHub.db_url = "sqlite:///jupyterhub.sqlite"
c.JupyterHub.cookie_secret_file = str(Path(demo["hub_directory"]) / "cookie-secret")

# Who logs in.
c.LDAPAuthenticator.servers = [demo["ldap"]["uri"]]
c.LDAPAuthenticator.ca_file = demo["ldap"]["ca_file"]
c.LDAPAuthenticator.people_base = demo["ldap"]["people_dn"]
c.LDAPAuthenticator.groups_base = demo["ldap"]["groups_dn"]
c.LDAPAuthenticator.search_bind_dn = demo["ldap"]["bind_dn"]
c.LDAPAuthenticator.search_password_file = demo["ldap"]["password_file"]
c.LDAPAuthenticator.lockout_threshold = 0  # the demo's slapd locks nobody
c.LDAPAuthenticator.admin_groups = {"portal-admins"}
c.LDAPAuthenticator.instructor_groups = {"portal-instructors"}

# What sessions run in, and on.
c.EnvironmentCatalog.directory = demo["environments"]
c.PortalSpawner.apptainer = demo["apptainer"]
c.PortalSpawner.log_directory = demo["session_logs"]
c.PortalSpawner.listen_address = demo["slurm_address"]
# Slurm's commands and `module` in the container's terminals; its Debian is the machine's.
c.PortalSpawner.commands_in_containers = demo["commands_in_containers"]
storage = Path(demo["homes"]).parent  # portal.demo.home.Home made both folders
c.PortalSpawner.binds = [
    {"source": str(storage / "scratch"), "read_only": False},
    {"source": str(storage / "data"), "read_only": True},
]
c.Storage.areas = [
    {"title": "Home", "path": "{home}", "required": True},
    {"title": "Scratch", "path": str(storage / "scratch")},
    {"title": "Data", "path": str(storage / "data")},
]
# What its environments bind and set (portal.demo.environments.environments): the machine's index of
# packages with its certificates, shared folders, and where `module` finds the modules.
c.CatalogRules.allowed_binds = [
    "/etc/pip.conf",
    "/etc/ssl/certs",
    *(bind["source"] for bind in c.PortalSpawner.binds),
]
# Where images are built and environments tested, and as whom.
c.EnvironmentCatalog.kept_directory = demo["kept_environments"]
c.Workshop.interval = 0.5
# Instructors' courses wait for grace; their files come from the shared folder.
c.Courses.data_roots = [str(storage / "data" / "courses")]
c.Courses.exchange_directory = demo["exchange"]
c.CatalogRules.own_environments = "on"
c.Images.directory = demo["images"]
c.Images.service_account = demo["images_account"]
c.Images.slurm_account = "" if one_account else "images"
c.Images.log_directory = demo["image_logs"]
c.Images.node_cache = demo["node_cache"]  # empty until `portal images cache`
c.Images.python = demo["image_python"]
c.Images.wheels = demo["wheels"]
c.Images.beside = demo["venv"]
c.Images.apptainer = demo["apptainer"]
c.Images.simulated_gpus = demo["simulated_gpus"]
c.Images.resources = {"cpus": 2, "memory": "6G", "time": "1:00:00"}
c.Images.test_resources = {"cpus": 2, "memory": "3G", "time": "0:15:00"}
c.LaunchForm.simulated_gpus = demo["simulated_gpus"]

# The service: everything at a pace that one can watch. Its database is the Hub's neighbour.
c.Store.url = f"sqlite:///{demo['hub_directory']}/portal.sqlite"
c.Telemetry.source = "simulated" if demo["simulated_gpus"] else "none"
c.Dashboard.refresh_interval = 2
# Short, so that it can be seen; the readings are simulated, as every page says.
c.IdleGpus.mode = "on"
c.IdleGpus.idle_time = 1800
c.PortalSpawner.service_url = f"{demo['url']}/services/portal/"
c.PortalSpawner.telemetry_interval = 10
c.LaunchForm.gpu_types = {
    "v100": {"title": "V100", "memory": "32 GB", "interconnect": "NVLink"},
    "t4": {"title": "T4", "memory": "16 GB", "interconnect": "PCIe"},
}

# With this token `portal environments test` asks the service, as a timer of a site does.
c.JupyterHub.services.append(
    {
        "name": "environment-tests",
        "api_token": Path(demo["environments_token"]).read_text().strip(),
        "display": False,
    }
)
c.JupyterHub.load_roles.append(
    {
        "name": "environment-tests",
        "scopes": ["custom:portal:environments:manage", "access:services!service=portal"],
        "services": ["environment-tests"],
    }
)

notices = []
if demo["simulated_gpus"]:
    notices.append("The GPUs of this demo are simulated.")
if one_account:
    notices.append(f"Everyone's sessions run under one account, {demo['account']}.")

    from spawners.spawner import PortalSpawner

    class OneAccountSpawner(PortalSpawner):
        """Everyone's sessions under the account that started the demo, a folder for each."""

        @property
        def account(self) -> str:
            """Everyone's jobs belong to it."""
            return str(demo["account"])

        async def home(self) -> str:
            """This person's folder."""
            folder = Path(demo["homes"]) / self.user.name
            folder.mkdir(mode=0o700, exist_ok=True)
            return str(folder)

    c.JupyterHub.spawner_class = OneAccountSpawner
    c.SlurmRunner.sudo = []
    if demo["account"] == "root":  # where root may not make mount namespaces
        c.PortalSpawner.args = ["--allow-root"]
    c.PortalSpawner.binds.append({"source": demo["homes"], "read_only": False})
# update(): the pages' own variables (10-pages.py) stay.
c.JupyterHub.template_vars.update({"portal_notice": " ".join(["This is a demo.", *notices])})
