"""`spawners.proxy.SessionProxy`, as sites' configurations name it."""

from .config.proxy import SessionProxy as SessionProxy
