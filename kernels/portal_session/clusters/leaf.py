"""Keys of one node of a Ray cluster, signed by the cluster's own (`record`), and the folder that
holds them. Ray compares the address of a node with the names in its certificate."""

from __future__ import annotations

import datetime
import ipaddress
import os
import socket
from pathlib import Path

from ..runs.ranks.network import own_address
from .record import ClusterRecord

# The longest of Ray's sockets below its folder.
SOCKET = "65535/r/session_2026-11-28_21-47-00_588114_1234567/sockets/plasma_store"
_VALID = datetime.timedelta(days=400)  # longer than any walltime
_EARLIER = datetime.timedelta(days=1)  # clocks of nodes differ


def address_of(name: str) -> str:
    """Return the IPv4 address of a node by its name. Ray takes what is on loopback for this
    machine's own, which is then the answer. Raises OSError."""
    try:
        address: str = socket.gethostbyname(name)
    except OSError:
        raise OSError(f"This node's name, '{name}', has no address: an admin can add it.") from None
    return own_address("192.0.2.1") if ipaddress.ip_address(address).is_loopback else address


def leaf(certificate: str, private_key: str, address: str) -> tuple[str, str]:
    """Return the certificate of a node at ``address``, and its private key, both PEM.
    ``certificate``, ``private_key``: the cluster's. Raises ValueError for damaged ones."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    issuer = x509.load_pem_x509_certificate(certificate.encode())
    signing = serialization.load_pem_private_key(private_key.encode(), None)
    own = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.timezone.utc)
    names = [x509.IPAddress(ipaddress.ip_address(text)) for text in {address, "127.0.0.1"}]
    signed = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "portal-ray-node")]))
        .issuer_name(issuer.subject)
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName([*names, x509.DNSName("localhost")]), False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()), False
        )
        .sign(signing, hashes.SHA256())  # type: ignore[arg-type]  # an elliptic curve's, of make_keys
    )
    pem = signed.public_bytes(serialization.Encoding.PEM).decode()
    secret = own.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    return pem, secret


def write_keys(folder: Path, record: ClusterRecord, address: str) -> None:
    """Write the files that Ray's settings name (job/ray_node.py) into a private ``folder``. Raises
    OSError, ValueError."""
    certificate, private_key = leaf(record.certificate, record.private_key, address)
    files = {"ca.pem": record.certificate, "certificate.pem": certificate, "key.pem": private_key}
    for name, text in {**files, "token": record.token}.items():
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
