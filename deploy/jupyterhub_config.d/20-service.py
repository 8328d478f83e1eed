"""The portal's web service: started by the Hub, which routes /services/portal/ to it."""

import os
import sys
from pathlib import Path

from jupyterhub.app import JupyterHub
from traitlets.config import Application

from portal.models import scope
from portal.slurm.watch import exchange
from spawners.web.domains import SERVICE, host_of

c = get_config()  # noqa: F821

# The service reads the same file as the Hub, so the catalog is configured in a single place.
app = Application.instance() if Application.initialized() else None
if isinstance(app, JupyterHub):
    config_file = Path(app.config_file).resolve()
    # For this process and the service: each uses the other's answers from Slurm.
    os.environ[exchange.VARIABLE] = exchange.new_folder()
else:  # read by the service itself or by `portal doctor`
    config_file = Path(__file__).resolve().parents[1] / "jupyterhub_config.py"

# Loopback only, and plain HTTP even with internal_ssl: JupyterHub 6.1.1 cannot check a managed
# service at an https address (it uses its server's TLS context as the client's). The service's own
# requests to the Hub are encrypted then, as everything else is.
port = os.environ.get("PORTAL_SERVICE_PORT", "8010")

c.JupyterHub.services.append(
    {
        "name": SERVICE,
        "url": f"http://127.0.0.1:{port}",
        "command": [sys.executable, "-m", "portal", "service", f"--config={config_file}"],
        # Variables that the configuration file may read; the Hub passes no others to a service.
        "environment": {
            name: value
            for name, value in os.environ.items()
            if name.startswith("PORTAL_")
            or name in ("SLURM_CONF", "CREDENTIALS_DIRECTORY", "PGPASSFILE")
        }
        | {"PORTAL_HUB_PID": str(os.getpid())},  # the service ends with this process
        "timeout": 120,  # the Hub exits if its service starts later; busy machines are slow
        "oauth_no_confirm": True,  # part of the portal: no confirmation page
        "display": True,
        # A login at the service has only those of these scopes that the user holds.
        "oauth_client_allowed_scopes": sorted(set(scope.MEANINGS) - scope.OF_SESSIONS),
    }
)

# The typeface of all pages, which the service sends (templates/assets/typeface.css). The login page
# has it too, where the Hub names no services.
c.JupyterHub.template_vars.update(
    {"portal_typeface": f"services/{SERVICE}/static/typeface/vendor/inter/"}
)

# If sessions have subdomains (c.JupyterHub.subdomain_host), the service stays on the Hub's host,
# because its pages and the Hub's send requests to each other.
c.JupyterHub.subdomain_hook = host_of

# Scopes of the service in addition to JupyterHub's own; 30-roles.py assigns them.
c.JupyterHub.custom_scopes.update(
    {name: {"description": words} for name, words in scope.MEANINGS.items()}
)
# All users may use the service. (A site's own role "user" in load_roles would replace this: use
# extra_user_scopes there too.)
c.JupyterHub.extra_user_scopes.update({"access:services!service=portal"})

# The service calls the Hub with each user's own token. With its own token it stops sessions on
# behalf of users whose rights it has checked, and names them (spawners/lifecycle/stop_reason.py),
# and starts a TensorBoard for a user who requests it; the Hub checks that launch like any other.
c.JupyterHub.load_roles.append(
    {
        "name": "portal-service",
        "description": "The portal's web service: starts and stops sessions of users",
        "scopes": ["delete:servers", "read:servers", "start:servers"],
        "services": ["portal"],
    }
)
