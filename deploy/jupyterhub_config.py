"""The Hub's configuration: what every site shares. A site's own settings go into files of
``jupyterhub_config.d`` beside this one (read in the order of their names) or of the directory
that PORTAL_CONFIG_D names."""

import os
from pathlib import Path

from portal.where import data_path
from spawners.config.named_servers import NamedServers

# Files of the Hub are its own. sbatch passes the umask on; sessions get theirs back
# (PortalSpawner.session_umask).
os.umask(0o027)

c = get_config()  # noqa: F821  given by traitlets

# Sessions: Slurm jobs. Who logs in: people of the directory.
c.JupyterHub.spawner_class = "portal"
c.JupyterHub.authenticator_class = "portal-ldap"
c.Authenticator.manage_groups = True
c.Authenticator.enable_auth_state = False
c.JupyterHub.allow_named_servers = True
c.JupyterHub.named_server_limit_per_user = NamedServers(5)  # beside those of courses

# Slurm has a queue of its own; a 429 from the Hub would only move it into people's browsers.
c.JupyterHub.concurrent_spawn_limit = 0
# Sessions outlive the Hub, and so does the proxy's table when it is a unit of its own.
c.JupyterHub.cleanup_servers = False

c.JupyterHub.template_paths = [str(data_path("templates"))]

# The web service, managed by the Hub.
for _file in sorted(Path(__file__).with_name("jupyterhub_config.d").glob("*.py")):
    load_subconfig(str(_file))  # noqa: F821  given by traitlets
if _site := os.environ.get("PORTAL_CONFIG_D"):
    for _file in sorted(Path(_site).glob("*.py")):
        load_subconfig(str(_file))  # noqa: F821

# With hosts of their own, sessions could set the Hub's login cookies; with HTTPS a prefix, __Host-,
# keeps them from that. Without such hosts it would show those cookies to the sessions instead.
_address = c.JupyterHub.get("public_url", "") or c.JupyterHub.get("subdomain_host", "")
if c.JupyterHub.get("subdomain_host", "") and not _address.startswith("http:"):
    if "cookie_host_prefix_enabled" not in c.JupyterHub:
        c.JupyterHub.cookie_host_prefix_enabled = True
# The portal's service reads this file too.
if c.JupyterHub.get("cookie_host_prefix_enabled", False):
    c.HubOAuth.cookie_host_prefix_enabled = True
