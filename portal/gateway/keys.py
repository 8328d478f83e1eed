"""Certificate of the gateway, by which replicas know it; and the trust in theirs.

Each side accepts one certificate alone, that which the service has handed to it (mutual TLS, RFC
8446 section 4.4.2). The gateway's key never leaves its state directory.
"""

from __future__ import annotations

import datetime
import os
import ssl
from pathlib import Path

IDENTITY = "gateway-key.pem"  # key and certificate, mode 600
CERTIFICATE = "gateway.pem"  # the certificate alone, which is public
_NAME = "portal-gateway"
_VALID = datetime.timedelta(days=3650)
_EARLIER = datetime.timedelta(days=1)  # clocks of nodes differ


def ensure_identity(directory: Path) -> Path:
    """Return the file with the gateway's key and certificate; make both files if they are missing.

    Raises OSError, ValueError for a key that others can read.
    """
    path = directory / IDENTITY
    if not path.exists():
        certificate, key = _make()
        _write(path, key + certificate, 0o600)
    if path.stat().st_mode & 0o077 or path.stat().st_uid != os.getuid():
        raise ValueError(f"{path} must belong to the gateway's account, with mode 600.")
    text = path.read_text()
    _write(directory / CERTIFICATE, text[text.index("-----BEGIN CERTIFICATE") :], 0o644)
    return path


def client_context(identity: Path, certificate: str) -> ssl.SSLContext:
    """Return a TLS context that presents ``identity`` and accepts the ``certificate`` (PEM) alone.

    Raises OSError (ssl.SSLError) or ValueError for a damaged one.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False  # the one certificate is the identity, wherever it listens
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate)
    context.load_cert_chain(identity)
    return context


def _write(path: Path, text: str, mode: int) -> None:
    """Write a file anew, at once: another process may be reading it."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    new.replace(path)


def _make() -> tuple[str, str]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    now = datetime.datetime.now(datetime.UTC)
    usage = x509.KeyUsage(True, False, False, False, False, True, False, False, False)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        # Both are wanted from Python 3.13 on (VERIFY_X509_STRICT).
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(private.public_key()), False)
        .add_extension(usage, critical=True)
        .sign(private, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    key = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    return pem, key
