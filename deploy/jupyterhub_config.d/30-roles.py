"""Roles and scopes of the portal: the role of its admins, and the scopes of all sessions.

Define roles with fewer rights in your own file, e.g. for read-only access::

    c.JupyterHub.load_roles.append({
        "name": "portal-viewer",
        "scopes": ["custom:portal:jobs:read", "custom:portal:usage:read"],
        "groups": ["helpdesk"],
    })

The scopes and their meanings are in portal/models/scope.py.
"""

from portal.models import scope
from spawners.config.roles import Members

c = get_config()  # noqa: F821  given by traitlets

# A session reports on its own GPUs and queries its own state. Its token is restricted to its own
# server (spawners/lifecycle/reports.py); JupyterHub gives a token no scopes that its owner lacks,
# so all users get them.
c.JupyterHub.extra_user_scopes.update({f"{name}!user" for name in scope.OF_SESSIONS})

# Endpoints say who may use them; with this scope, users can make tokens for models alone, and for a
# single one (custom:portal:models:use!service=NAME).
c.JupyterHub.extra_user_scopes.update({scope.MODELS_USE})

# The Hub's admins are the portal's admins, by group and by name; c.PortalAdmins adds others.
c.JupyterHub.load_roles.append(
    {
        "name": "portal-admin",
        "description": "Admins of the portal: see everything, manage jobs, nodes and sessions",
        "scopes": [*sorted(set(scope.MEANINGS) - scope.OF_SESSIONS), "access:servers"],
        "groups": Members("groups"),
        "users": Members("users"),
    }
)
