"""Expiry of the certificate with which browsers reach the portal."""

from __future__ import annotations

import contextlib
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from traitlets.config import Config

_PATIENCE = 3.0  # seconds for the handshake


def expiry_of(config: Config) -> float | None:
    """Return when the site's certificate expires (Unix seconds): of the Hub's own file, else the
    one shown at its public address, whichever program ends TLS there; None without HTTPS, or if
    nothing answers. Blocks."""
    hub = config.JupyterHub
    with contextlib.suppress(OSError, ValueError):
        if path := hub.get("ssl_cert", ""):
            return _not_after(Path(path).read_bytes())
        address = urlsplit(hub.get("public_url", "") or hub.get("subdomain_host", "") or "")
        if address.scheme == "https" and address.hostname:
            return _shown(address.hostname, address.port or 443)
    return None


def _shown(host: str, port: int) -> float:
    # Not verified: an expired certificate is what is looked for, and nothing secret is sent.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((host, port), timeout=_PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        der = connection.getpeercert(binary_form=True) or b""
    return _not_after(ssl.DER_cert_to_PEM_cert(der).encode())


def _not_after(pem: bytes) -> float:
    """Return the expiry of the first certificate: the others are of its authorities."""
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()
