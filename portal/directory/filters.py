"""Filters of searches in the directory."""

from __future__ import annotations

USERNAME = "{username}"  # is replaced by a user's name, escaped
GROUPS = (
    "(|(objectClass=groupOfNames)(objectClass=groupOfUniqueNames)"
    "(objectClass=posixGroup)(objectClass=group))"
)
