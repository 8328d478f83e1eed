"""Configuration of the demo's Hub: deploy/jupyterhub_config.py, as at a site, with demo values.

`portal demo` writes its addresses, paths and ports into the file named by PORTAL_DEMO_STATE, from
which everything below is read.
"""

import json
import os
from datetime import datetime
from pathlib import Path

c = get_config()  # noqa: F821  given by traitlets

load_subconfig(str(Path(__file__).resolve().parents[1] / "jupyterhub_config.py"))  # noqa: F821
demo = json.loads(Path(os.environ["PORTAL_DEMO_STATE"]).read_text())
one_account = demo["form"] != "people"

# Addresses: loopback only. The proxy is a separate process, so it outlives the Hub. Each user's
# sessions have a subdomain, NAME.localhost, so that their origin differs from the Hub's pages.
c.JupyterHub.bind_url = demo["bind_url"]
c.JupyterHub.subdomain_host = demo["url"]
c.JupyterHub.hub_bind_url = demo["hub_url"]
c.JupyterHub.hub_connect_url = demo["hub_url"]
c.ConfigurableHTTPProxy.should_start = False
c.ConfigurableHTTPProxy.api_url = demo["proxy_api_url"]
c.JupyterHub.cleanup_proxy = False
c.JupyterHub.db_url = "sqlite:///jupyterhub.sqlite"
c.JupyterHub.cookie_secret_file = str(Path(demo["hub_directory"]) / "cookie-secret")

# The gateway of endpoints is a process beside the proxy.
c.Proxy.extra_routes = {"/services/portal/models/": demo["gateway_url"]}

# Logins.
c.LDAPAuthenticator.servers = [demo["ldap"]["uri"]]
c.LDAPAuthenticator.ca_file = demo["ldap"]["ca_file"]
c.LDAPAuthenticator.people_base = demo["ldap"]["people_dn"]
c.LDAPAuthenticator.groups_base = demo["ldap"]["groups_dn"]
c.LDAPAuthenticator.search_bind_dn = demo["ldap"]["bind_dn"]
c.LDAPAuthenticator.search_password_file = demo["ldap"]["password_file"]
c.LDAPAuthenticator.lockout_threshold = 0  # the demo's slapd locks no accounts
c.LDAPAuthenticator.admin_groups = {"portal-admins"}
c.LDAPAuthenticator.instructor_groups = {"portal-instructors"}

# Environments and storage of sessions.
c.EnvironmentCatalog.directory = demo["environments"]
c.PortalSpawner.apptainer = demo["apptainer"]
c.PortalSpawner.log_directory = demo["session_logs"]
c.PortalSpawner.listen_address = demo["slurm_address"]
# Slurm's commands and `module` in the container's terminals; its Debian release is the machine's.
c.PortalSpawner.commands_in_containers = demo["commands_in_containers"]
storage = Path(demo["homes"]).parent  # portal.demo.home.Home made both folders
c.PortalSpawner.binds = [
    {"source": str(storage / "scratch"), "read_only": False},
    {"source": str(storage / "data"), "read_only": True},
]
if not one_account:
    c.Projects.root = str(storage / "projects")  # portal.demo.project_folders made it
c.Storage.areas = [
    {"title": "Home", "path": "{home}", "required": True},
    {"title": "Scratch", "path": str(storage / "scratch")},
    {"title": "Data", "path": str(storage / "data")},
]
# Bind mounts of its environments (portal.demo.environments.environments): the configuration of the
# machine's package index with its certificates, and shared folders.
c.CatalogRules.allowed_binds = [
    "/etc/pip.conf",
    "/etc/ssl/certs",
    *(bind["source"] for bind in c.PortalSpawner.binds),
]
# Image builds and tests of environments: directories and accounts.
c.EnvironmentCatalog.kept_directory = demo["kept_environments"]
c.BuildScheduler.interval = 0.5
# Courses of instructors need approval by an admin (grace); their files come from the shared folder.
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

# What `portal demo --bare` leaves out.
c.PortalSpawner.welcome_notebook = demo.get("welcome_notebook", "")
c.EnvironmentCatalog.show_upcoming = True

# The service, with intervals short enough to watch. Its database is beside the Hub's.
c.Store.url = f"sqlite:///{demo['hub_directory']}/portal.sqlite"
c.Telemetry.source = "simulated" if demo["simulated_gpus"] else "none"
c.Dashboard.refresh_interval = 2
# Short, so that users of the demo see it; the readings are simulated, as every page says.
c.IdleGpus.mode = "on"
c.IdleGpus.idle_time = 1800
c.PortalSpawner.service_url = f"{demo['url']}/services/portal/"
c.PortalSpawner.telemetry_interval = 10
c.LaunchForm.gpu_types = {
    "v100": {"title": "V100", "memory": "32 GB", "interconnect": "NVLink"},
    "t4": {"title": "T4", "memory": "16 GB", "interconnect": "PCIe"},
}

# Token with which `portal environments test` calls the service, as a site's timer does.
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
if demo.get("examples_before"):
    day = datetime.fromtimestamp(demo["examples_before"]).strftime("%-d %B %Y, %H:%M")
    notices.append(f"Jobs named example-… and all records from before {day} are made up.")
    notices.append("Grace's run 'two-moons' was started by the demo.")
if one_account:
    notices.append(f"All sessions run under one account, {demo['account']}.")

    from spawners.spawner import PortalSpawner

    class OneAccountSpawner(PortalSpawner):
        """Spawner of all sessions under the account that started the demo, with a folder each."""

        @property
        def account(self) -> str:
            """Account of all jobs."""
            return str(demo["account"])

        async def home(self) -> str:
            """Return the person's folder, created if missing."""
            folder = Path(demo["homes"]) / self.user.name
            folder.mkdir(mode=0o700, exist_ok=True)
            return str(folder)

    c.JupyterHub.spawner_class = OneAccountSpawner
    c.SlurmRunner.sudo = []
    if demo["account"] == "root":  # root without permission for mount namespaces
        c.PortalSpawner.args = ["--allow-root"]
    c.PortalSpawner.binds.append({"source": demo["homes"], "read_only": False})
# update() keeps the pages' own variables (10-pages.py).
c.JupyterHub.template_vars.update({"portal_notice": " ".join(["This is a demo.", *notices])})
