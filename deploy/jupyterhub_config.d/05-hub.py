"""The Hub is prepared for the portal: what is changed in JupyterHub, and the portal's routes of its
API (spawners/hub_patches/, spawners/api/routes.py). At which addresses it answers and how much it
reads: c.HubRequests."""

from spawners.hub_setup import set_up_hub

set_up_hub()
