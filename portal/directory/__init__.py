"""Directories: who people are, which groups they are in, and logging in to the Hub."""

from .authenticator import LDAPAuthenticator, ServerAnswer
from .choice import directory_of
from .directory import Directory

__all__ = ["Directory", "LDAPAuthenticator", "ServerAnswer", "directory_of"]
