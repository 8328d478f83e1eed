"""Measurements of the LDAP servers for Prometheus: of the Hub's logins, or of the service."""

from __future__ import annotations

import ssl
from typing import Any

from prometheus_client import Gauge, Histogram

ANSWERED, FAILED = "answered", "failed"

# In the registry of the process, which the Hub exposes; the service adds them to its own.
LDAP_SECONDS = Histogram(
    "portal_ldap_request_seconds",
    "Time of a question to an LDAP server, connection and TLS included.",
    ("outcome",),
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10),
)
LDAP_CERTIFICATES = Gauge(
    "portal_ldap_certificate_expiry_timestamp_seconds",
    "Time at which the certificate that an LDAP server has shown last expires.",
    ("server",),
)
for _outcome in (ANSWERED, FAILED):
    LDAP_SECONDS.labels(_outcome)  # a rate needs a beginning at 0


def note_certificate(server: str, connection: Any) -> None:
    """Note the certificate that ``server`` shows on this connection, if it was verified."""
    certificate = connection.getpeercert() if isinstance(connection, ssl.SSLSocket) else None
    if certificate and "notAfter" in certificate:
        expiry = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
        LDAP_CERTIFICATES.labels(server).set(expiry)
