"""The portal's web service: the Hub starts it and sends /services/portal/ to it."""

import os
import sys
from pathlib import Path

from jupyterhub.app import JupyterHub
from traitlets.config import Application

from portal.models import scope
from spawners.web.domains import SERVICE, host_of

c = get_config()  # noqa: F821

# The service reads the same file as the Hub, so the catalog is configured in one place.
app = Application.instance() if Application.initialized() else None
if isinstance(app, JupyterHub):
    config_file = Path(app.config_file).resolve()
else:  # read by the service itself or by `portal doctor`
    config_file = Path(__file__).resolve().parents[1] / "jupyterhub_config.py"

# Loopback only, and plain HTTP there even with internal_ssl: JupyterHub 6.1.1 cannot check a
# managed service at an https address (it takes its server's TLS context for the client's). The
# service's own questions to the Hub are encrypted then, as everything else is.
port = os.environ.get("PORTAL_SERVICE_PORT", "8010")

c.JupyterHub.services.append(
    {
        "name": SERVICE,
        "url": f"http://127.0.0.1:{port}",
        "command": [sys.executable, "-m", "portal", "service", f"--config={config_file}"],
        # What the configuration file may read; the Hub gives a service no more than this.
        "environment": {
            name: value
            for name, value in os.environ.items()
            if name.startswith("PORTAL_")
            or name in ("SLURM_CONF", "CREDENTIALS_DIRECTORY", "PGPASSFILE")
        }
        | {"PORTAL_HUB_PID": str(os.getpid())},  # with which it ends
        "timeout": 120,  # a Hub without its service at its own start exits: not on a busy machine
        "oauth_no_confirm": True,  # part of the portal: no question whether to trust it
        "display": True,
        # A login at the service carries those of its scopes that the person holds, no others.
        "oauth_client_allowed_scopes": sorted(set(scope.MEANINGS) - scope.OF_SESSIONS),
    }
)

# Where sessions have hosts of their own (c.JupyterHub.subdomain_host), the service stays with the
# Hub: its pages and the Hub's ask each other.
c.JupyterHub.subdomain_hook = host_of

# What the service knows beside JupyterHub's own scopes; who holds which: 30-roles.py.
c.JupyterHub.custom_scopes.update(
    {name: {"description": words} for name, words in scope.MEANINGS.items()}
)
# Everyone who may log in may use the service. (A role "user" of one's own in load_roles would
# replace this: use extra_user_scopes there too.)
c.JupyterHub.extra_user_scopes.update({"access:services!service=portal"})

# The service asks with each person's own token. With its own it stops sessions, for people whom
# it has checked, and says for whom (spawners/lifecycle/stop_reason.py). It starts a TensorBoard for
# those who ask for one themselves; the Hub judges that launch like every other.
c.JupyterHub.load_roles.append(
    {
        "name": "portal-service",
        "description": "The portal's web service: starts and stops sessions for those who may",
        "scopes": ["delete:servers", "read:servers", "start:servers"],
        "services": ["portal"],
    }
)
