"""Custom scopes of the Hub's RBAC that the portal's service knows.

A role grants them (deploy/jupyterhub_config.d/30-roles.py); the service reads them from the Hub's
model of the requester. JupyterHub demands the prefix ``custom:``.
"""

from __future__ import annotations

JOBS_READ = "custom:portal:jobs:read"
JOBS_MANAGE = "custom:portal:jobs:manage"
NODES_MANAGE = "custom:portal:nodes:manage"
SESSIONS_READ = "custom:portal:sessions:read"
SERVERS_OPEN = "custom:portal:servers:open"
USAGE_READ = "custom:portal:usage:read"
AUDIT_READ = "custom:portal:audit:read"
ANNOUNCEMENTS_MANAGE = "custom:portal:announcements:manage"
ENVIRONMENTS_MANAGE = "custom:portal:environments:manage"
USERS_MANAGE = "custom:portal:users:manage"
METRICS_READ = "custom:portal:metrics:read"
COURSES_CREATE = "custom:portal:courses:create"
COURSES_MANAGE = "custom:portal:courses:manage"
PROJECTS_MANAGE = "custom:portal:projects:manage"
MODELS_USE = "custom:portal:models:use"  # with !service=NAME, of one model (portal/gateway)
# A session's own token holds these two, with !server=…; no role of a person needs them.
TELEMETRY_REPORT = "custom:portal:telemetry:report"
SESSION_OWN = "custom:portal:session:own"
OF_SESSIONS = frozenset({TELEMETRY_REPORT, SESSION_OWN})
# What each lets its holder do, in words for role pages and the reference.
MEANINGS = {
    JOBS_READ: "See the owners and names of all jobs on the cluster.",
    JOBS_MANAGE: "Stop sessions; cancel, hold and release jobs of other users.",
    NODES_MANAGE: "Drain and resume nodes.",
    SESSIONS_READ: "See other users' sessions and the last lines of their logs.",
    SERVERS_OPEN: "Open other users' running sessions from the portal's pages.",
    USAGE_READ: "See everyone's usage.",
    AUDIT_READ: "Read the audit log.",
    ANNOUNCEMENTS_MANAGE: "Write and withdraw announcements.",
    ENVIRONMENTS_MANAGE: "Curate the catalog: build, test, publish and withdraw environments.",
    USERS_MANAGE: "See all users; as an admin of the Hub, appoint admins and delete users.",
    METRICS_READ: "Read the service's metrics for Prometheus.",
    COURSES_CREATE: "Request courses and teach them.",
    COURSES_MANAGE: "See, approve and archive everyone's courses.",
    PROJECTS_MANAGE: "See, approve, change and archive everyone's projects.",
    MODELS_USE: "Use the models that are served to their user.",
    TELEMETRY_REPORT: "Report the GPU usage of a session.",
    SESSION_OWN: "See a session and change its time and resources, from inside it.",
}


def right(scope: str) -> str:
    """Return what a scope lets its holder do, for a sentence after "the right to"."""
    meaning = MEANINGS[scope].rstrip(".")
    return meaning[0].lower() + meaning[1:]
