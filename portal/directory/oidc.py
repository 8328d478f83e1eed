"""Login with OpenID Connect: Keycloak and other providers."""

from __future__ import annotations

from .oauth import OAuthLogin

try:
    from oauthenticator.generic import GenericOAuthenticator
except ImportError as error:
    raise ImportError(
        "Login with OpenID Connect needs one more package: pip install data-scientist-portal[oidc]"
    ) from error


class OIDCAuthenticator(OAuthLogin, GenericOAuthenticator):
    """OpenID Connect authenticator: people and groups from the claims of a provider.

    Example::

        c.JupyterHub.authenticator_class = "portal-oidc"

    `oauthenticator`'s GenericOAuthenticator with all of its settings, made to work with the
    portal's groups, roles and notices. Install it with `pip install data-scientist-portal[oidc]`.
    """
