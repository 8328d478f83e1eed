"""Login with OpenID Connect: Keycloak, and whatever else speaks it."""

from __future__ import annotations

from .oauth import OAuthLogin

try:
    from oauthenticator.generic import GenericOAuthenticator
except ImportError as error:
    raise ImportError(
        "Login with OpenID Connect needs one more package: pip install data-scientist-portal[oidc]"
    ) from error


class OIDCAuthenticator(OAuthLogin, GenericOAuthenticator):
    """Log in with OpenID Connect: people and groups from the claims of a provider.

    Example::

        c.JupyterHub.authenticator_class = "portal-oidc"

    It is `oauthenticator`'s GenericOAuthenticator, with all of its settings, which courses,
    instructors and notices work with. It comes with `pip install data-scientist-portal[oidc]`.
    """
