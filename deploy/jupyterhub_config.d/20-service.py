"""The portal's web service: the Hub starts it and sends /services/portal/ to it."""

import os
import sys
from pathlib import Path

from jupyterhub.app import JupyterHub
from traitlets.config import Application

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
        "name": "portal",
        "url": f"http://127.0.0.1:{port}",
        "command": [sys.executable, "-m", "portal", "service", f"--config={config_file}"],
        # What the configuration file may read; the Hub gives a service no more than this.
        "environment": {
            name: value
            for name, value in os.environ.items()
            if name.startswith("PORTAL_") or name in ("SLURM_CONF", "CREDENTIALS_DIRECTORY")
        },
        "oauth_no_confirm": True,  # part of the portal: no question whether to trust it
        "display": False,  # no page of its own yet
    }
)

# Everyone who may log in may use the service. It asks with the person's own token, so the service
# itself needs no rights on the Hub.
c.JupyterHub.load_roles.append(
    {"name": "user", "scopes": ["self", "access:services!service=portal"]}
)
