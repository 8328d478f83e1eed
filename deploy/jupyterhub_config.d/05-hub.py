"""Preparation of the Hub: the portal's patches of JupyterHub (spawners/hub_patches/) and its routes
in the Hub's API (spawners/api/routes.py). c.HubRequests limits host names and request sizes."""

from spawners.hub_setup import set_up_hub

set_up_hub()
