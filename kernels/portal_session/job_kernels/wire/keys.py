"""Keys of a job kernel: both ends of its connection prove that they have read its record.

Each kernel has one self-signed certificate, which both ends present and the only one that both
trust (mutual TLS, RFC 8446 section 4.4.2). TLS encrypts what goes over the network.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import ssl
import tempfile
from pathlib import Path
from typing import Any

_NAME = "portal-job-kernel"
_VALID = datetime.timedelta(days=400)  # longer than any walltime
_EARLIER = datetime.timedelta(days=1)  # clocks of nodes differ


def make_keys() -> tuple[str, str]:
    """Make a certificate and its private key, both PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        # RFC 5280 wants both of an authority, and so does Python from 3.13 on (VERIFY_X509_STRICT).
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(private.public_key()), False)
        .add_extension(_usage(x509), critical=True)
        .sign(private, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    secret = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    return pem, secret


def _usage(x509: Any) -> Any:
    """Return what the key is for: to sign itself, and handshakes."""
    names = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment")
    names += ("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only")
    return x509.KeyUsage(**{name: name in ("digital_signature", "key_cert_sign") for name in names})


def server_name(private_key: str) -> str:
    """Return the name that a client says at the beginning of its handshake, and that only readers
    of the record know. It proves nothing: it is not encrypted."""
    return "k" + hashlib.sha256(f"portal-server-name {private_key}".encode()).hexdigest()[:48]


def context(certificate: str, private_key: str, *, server: bool, peer: str = "") -> ssl.SSLContext:
    """Return a TLS context that presents ``certificate`` and accepts that of the ``peer`` alone;
    "": the same one.

    Raises ssl.SSLError, ValueError for keys that are damaged.
    """
    tls_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    tls_context.minimum_version = ssl.TLSVersion.TLSv1_2
    tls_context.check_hostname = False  # the one certificate is the identity, wherever it listens
    tls_context.verify_mode = ssl.CERT_REQUIRED
    tls_context.load_verify_locations(cadata=peer or certificate)
    # load_cert_chain reads files only (CPython issue 60691).
    descriptor, name = tempfile.mkstemp(prefix="portal-kernel-")  # mode 600
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(certificate + private_key)
        tls_context.load_cert_chain(name)
    finally:
        Path(name).unlink()
    return tls_context
