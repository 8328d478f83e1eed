"""Preparation of the Hub: the portal's changes of JupyterHub and its routes in the Hub's API
(spawners/hub_patches/, spawners/api/routes.py). c.HubRequests sets the addresses that it answers
to and the size of requests that it reads."""

from spawners.hub_setup import set_up_hub

set_up_hub()
