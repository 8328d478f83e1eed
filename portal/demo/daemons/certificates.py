"""Throwaway certificate authority for servers that listen on loopback only.

``cryptography`` is a dependency of JupyterHub (through certipy), so no program has to be installed.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_YEARS_10 = datetime.timedelta(days=3650)
_TOO_OLD = datetime.timedelta(days=30)


@dataclass(frozen=True)
class Certificates:
    """Files of a server: the CA's certificate, the server's certificate and its key."""

    ca_file: Path
    certificate: Path
    key: Path


def make_certificates(directory: Path, name: str = "server") -> Certificates:
    """Make certificates for 127.0.0.1, ::1 and localhost in ``directory``, valid for ten years.

    Existing ones are kept unless they expire within 30 days. The CA's own key is thrown away, so
    nobody can sign a second certificate with it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o755)  # clients read ca.pem; the key has its own mode
    certificates = Certificates(
        directory / "ca.pem", directory / f"{name}.pem", directory / f"{name}-key.pem"
    )
    if _usable(certificates):
        return certificates
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _named("Data Scientist Portal demo CA")
    ca = (
        _builder(ca_name, ca_name, ca_key, start)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), False)
        .sign(ca_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    names = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
    ]
    server = (
        _builder(_named("localhost"), ca_name, key, start)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), False)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), False
        )
        .sign(ca_key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    write_private(certificates.key, private.decode())
    certificates.certificate.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    certificates.ca_file.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    certificates.ca_file.chmod(0o644)
    return certificates


def write_private(path: Path, text: str) -> None:
    """Write ``text`` to a new file that only this account can read (created with mode 600)."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _usable(certificates: Certificates) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(certificates.certificate.read_bytes())
        ca = x509.load_pem_x509_certificate(certificates.ca_file.read_bytes())
        certificate.verify_directly_issued_by(ca)
    except (OSError, ValueError, TypeError, InvalidSignature):
        return False  # missing, truncated, or of another CA
    left = certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    return certificates.key.exists() and left > _TOO_OLD


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    start: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + _YEARS_10)
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
