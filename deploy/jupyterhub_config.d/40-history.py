"""History of sessions, started with the Hub: includes those that ended while it was down."""

from jupyterhub.app import JupyterHub
from traitlets.config import Application

from spawners.config import startup

app = Application.instance() if Application.initialized() else None
if isinstance(app, JupyterHub):
    startup.watch(app)
