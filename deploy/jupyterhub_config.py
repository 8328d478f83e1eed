"""Configuration of the Hub that all sites share. A site's own settings go into files in
``jupyterhub_config.d`` beside this one (read in the order of their names) or in the directory
named by PORTAL_CONFIG_D."""

import os
from pathlib import Path

from portal.paths import data_path
from spawners.config.named_servers import NamedServers

# The Hub's files are private. sbatch passes the umask on; sessions get their own back
# (PortalSpawner.session_umask).
os.umask(0o027)

c = get_config()  # noqa: F821  given by traitlets

# Sessions are Slurm jobs; users log in with their LDAP account.
c.JupyterHub.spawner_class = "portal"
c.JupyterHub.authenticator_class = "portal-ldap"
c.Authenticator.manage_groups = True
c.Authenticator.enable_auth_state = False
c.JupyterHub.allow_named_servers = True
c.JupyterHub.named_server_limit_per_user = NamedServers(5)  # in addition to those of courses

# Slurm queues jobs; a limit here would only reject launches with status 429.
c.JupyterHub.concurrent_spawn_limit = 0
# Sessions outlive the Hub, as does the routing table of a proxy that is a separate unit.
c.JupyterHub.cleanup_servers = False

c.JupyterHub.template_paths = [str(data_path("templates"))]

# The files beside this one (the web service, roles, …), then the site's own.
for _file in sorted(Path(__file__).with_name("jupyterhub_config.d").glob("*.py")):
    load_subconfig(str(_file))  # noqa: F821  given by traitlets
if _site := os.environ.get("PORTAL_CONFIG_D"):
    for _file in sorted(Path(_site).glob("*.py")):
        load_subconfig(str(_file))  # noqa: F821

# Sessions on subdomains could set the Hub's login cookies; with HTTPS, the prefix __Host- prevents
# that. Without subdomains, the prefix would expose those cookies to the sessions instead.
_address = c.JupyterHub.get("public_url", "") or c.JupyterHub.get("subdomain_host", "")
if c.JupyterHub.get("subdomain_host", "") and not _address.startswith("http:"):
    if "cookie_host_prefix_enabled" not in c.JupyterHub:
        c.JupyterHub.cookie_host_prefix_enabled = True
# The portal's service reads this file too.
if c.JupyterHub.get("cookie_host_prefix_enabled", False):
    c.HubOAuth.cookie_host_prefix_enabled = True
