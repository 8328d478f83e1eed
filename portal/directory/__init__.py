"""Directories of people and their groups, and the Hub's authenticators."""

from .authenticator import LDAPAuthenticator, ServerAnswer
from .choice import directory_of
from .directory import Directory

__all__ = ["Directory", "LDAPAuthenticator", "ServerAnswer", "directory_of"]
