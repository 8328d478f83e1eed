"""Activity of sessions, and limits for idle ones.

Enable the limits in your own file (docs/how-to/idle.md)::

    c.IdleGpus.mode = "on"
    c.IdleSessions.timeout = 8 * 3600
"""

from jupyterhub.app import JupyterHub
from traitlets.config import Application

from spawners.lifecycle import culler

c = get_config()  # noqa: F821  given by traitlets

# Traffic through the proxy does not count as activity; a session's own reports do.
c.JupyterHub.proxy_class = "spawners.proxy.SessionProxy"

app = Application.instance() if Application.initialized() else None
if isinstance(app, JupyterHub):
    culler.offer(app)
