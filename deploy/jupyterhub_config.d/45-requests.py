"""At which addresses the Hub answers, and how much it reads: c.HubRequests."""

from jupyterhub.app import JupyterHub
from traitlets.config import Application

from spawners import hub_application

app = Application.instance() if Application.initialized() else None
if isinstance(app, JupyterHub):
    hub_application.install(app)
