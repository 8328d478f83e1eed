"""Template variables and logo of the portal's pages. Add your own in a separate file, e.g.
``c.JupyterHub.template_vars.update({"portal_contact": "hpc@example.org"})``; the variables are
portal_title, portal_notice (the footer), portal_contact and portal_login_hint."""

from portal.paths import data_path
from spawners.context import announcements
from spawners.form import words

c = get_config()  # noqa: F821  given by traitlets

c.JupyterHub.template_vars.update({"words": words.FOR_PAGES, "portal_announcements": announcements})
c.JupyterHub.logo_file = str(data_path("static") / "logo.svg")
