"""What counts as activity, and what ends sessions in which there is none.

A site switches the latter on in a file of its own (docs/how-to/idle.md)::

    c.IdleGpus.mode = "on"
    c.IdleSessions.timeout = 8 * 3600
"""

from jupyterhub.app import JupyterHub
from traitlets.config import Application

from spawners.lifecycle import culler

c = get_config()  # noqa: F821  given by traitlets

# What goes through the proxy is no activity; what a session reports of itself is.
c.JupyterHub.proxy_class = "spawners.proxy.SessionProxy"

app = Application.instance() if Application.initialized() else None
if isinstance(app, JupyterHub):
    culler.offer(app)
