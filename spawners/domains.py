"""`spawners.domains.sessions_below`, as sites' configurations name it."""

from .web.domains import sessions_below as sessions_below
