"""LDAP: who people are, which groups they are in, and logging in to the Hub with it."""

from .authenticator import LDAPAuthenticator, ServerAnswer

__all__ = ["LDAPAuthenticator", "ServerAnswer"]
