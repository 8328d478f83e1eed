"""What begins with the Hub: it remembers sessions, also those that ended while it was away."""

from jupyterhub.app import JupyterHub
from traitlets.config import Application

from spawners.config import startup

app = Application.instance() if Application.initialized() else None
if isinstance(app, JupyterHub):
    startup.watch(app)
