"""A real container registry for tests: Debian's docker-registry, on a free loopback port.

    with registry(tls=True, login=("$oauthtoken", "key")) as r:
        r.push("nvidia/pytorch", "25.10-py3", image)   # from tests/support/containers/images.py
        r.host                                         # "127.0.0.1:21234"

It ends with the test and leaves nothing behind.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import hashlib
import json
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
from images import OciImage
from machine import patience

from portal.demo.daemons.certificates import Certificates, make_certificates
from portal.demo.daemons.ports import free_port

_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"


class Registry:
    """Container registry. ``ca_file``: CA of its certificate, None without TLS; ``login``: its only
    user and the password, None if everybody may pull and push."""

    def __init__(
        self, place: Path, *, tls: bool = False, login: tuple[str, str] | None = None
    ) -> None:
        self.place = place
        self.tls, self.user = tls, login
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"
        self.log = place / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self._certificates: Certificates | None = None
        if tls:
            self._certificates = make_certificates(place / "tls")
        self.ca_file = self._certificates.ca_file if self._certificates else None
        self._configure()

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}"

    def start(self) -> None:
        """Start the registry and wait until it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                ["docker-registry", "serve", self.place / "config.json"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        end = time.monotonic() + patience(120)
        while not self._answers():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop the registry; ``start`` restarts it with its images."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(30)
            self.process = None

    def push(self, repository: str, tag: str, image: OciImage) -> str:
        """Push an image; return its digest."""
        name, digest_file = f"docker://{self.host}/{repository}:{tag}", self.place / "digest"
        argv = ["skopeo", "copy", "--insecure-policy", "--digestfile", str(digest_file)]
        if self._certificates:
            argv += ["--dest-cert-dir", str(self.certificates_folder())]
        else:
            argv += ["--dest-tls-verify=false"]
        if self.user:
            argv += ["--dest-authfile", str(self.login(self.place / "push.json"))]
        done = subprocess.run(
            [*argv, f"oci:{image.layout}:{image.tag}", name],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return digest_file.read_text().strip()

    def push_list(self, repository: str, tag: str, images: Sequence[OciImage]) -> str:
        """Push a manifest list with an image per architecture; return the digest of the list."""
        manifests = []
        for image in images:
            digest = self.push(repository, f"{tag}-{image.architecture}", image)
            response = self.ask("GET", f"/v2/{repository}/manifests/{digest}", headers=_accept())
            manifests.append(
                {
                    "mediaType": response.headers["Content-Type"],
                    "digest": digest,
                    "size": len(response.content),
                    "platform": {"os": "linux", "architecture": image.architecture},
                }
            )
        text = json.dumps({"schemaVersion": 2, "mediaType": _LIST, "manifests": manifests}).encode()
        response = self.ask(
            "PUT",
            f"/v2/{repository}/manifests/{tag}",
            content=text,
            headers={"Content-Type": _LIST},
        )
        assert response.status_code == 201, response.text
        return f"sha256:{hashlib.sha256(text).hexdigest()}"

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request as the registry's user."""
        verify = str(self.ca_file) if self.ca_file else True
        return httpx.request(method, self.url + path, auth=self.user, verify=verify, **options)

    def login(self, path: Path, *names: str) -> Path:
        """Write a file with user and password, as `docker login` does, for the host names by which
        the registry is addressed (its own if none are given); return ``path``."""
        user, password = self.user or ("", "")
        text = base64.b64encode(f"{user}:{password}".encode()).decode()
        path.write_text(
            json.dumps({"auths": {name: {"auth": text} for name in names or (self.host,)}})
        )
        path.chmod(0o600)
        return path

    def mirror_of(self, *hosts: str) -> str:
        """Return text for registries.conf with this registry as mirror of ``hosts`` ("nvcr.io")."""
        return "".join(
            f'[[registry]]\nlocation = "{host}"\n[[registry.mirror]]\nlocation = "{self.host}"\n'
            f"insecure = {json.dumps(not self.tls)}\n"
            for host in hosts
        )

    def certificates_folder(self) -> Path:
        """Make a folder for ``--cert-dir`` (containers-certs.d(5)) with the CA."""
        folder = self.place / "certs"
        folder.mkdir(exist_ok=True)
        assert self.ca_file is not None
        shutil.copyfile(self.ca_file, folder / "ca.crt")
        return folder

    def requests(self, pattern: str) -> list[str]:
        """Return the requests, as "GET /v2/…/blobs/sha256:…", that match a regular expression."""
        asked = re.findall(r'"((?:GET|HEAD|PUT|POST|PATCH) \S+) HTTP', self.log.read_text())
        return [request for request in asked if re.search(pattern, request)]

    def delivered(self, digest: str = r"\S+") -> list[int]:
        """Return the bytes sent for each GET of this blob (by default, of any blob).

        Apptainer also opens blobs that it already has, without reading them: bytes in the socket
        buffers are counted all the same.
        """
        line = rf'"GET \S+/blobs/{digest} HTTP/1\.1" 200 (\d+)'
        return [int(size) for size in re.findall(line, self.log.read_text())]

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False

    def _configure(self) -> None:
        http: dict[str, Any] = {
            "addr": f"127.0.0.1:{self.port}",
            "secret": secrets.token_hex(8),
        }
        if self._certificates:
            http["tls"] = {
                "certificate": str(self._certificates.certificate),
                "key": str(self._certificates.key),
            }
        configuration: dict[str, Any] = {
            "version": "0.1",
            "log": {"level": "warn", "accesslog": {"disabled": False}},
            "storage": {
                "filesystem": {"rootdirectory": str(self.place / "data")},
                "delete": {"enabled": True},
            },
            "http": http,
        }
        if self.user:
            htpasswd = self.place / "htpasswd"
            htpasswd.write_text(f"{self.user[0]}:{_bcrypt(self.user[1])}\n")
            configuration["auth"] = {"htpasswd": {"realm": "tests", "path": str(htpasswd)}}
        # JSON is YAML.
        (self.place / "config.json").write_text(json.dumps(configuration))


@contextlib.contextmanager
def registry(*, tls: bool = False, login: tuple[str, str] | None = None) -> Iterator[Registry]:
    """Run a registry while the block runs."""
    place = Path(tempfile.mkdtemp(prefix="registry-", dir="/var/tmp"))
    place.chmod(0o755)  # other accounts read the certificate
    server = Registry(place, tls=tls, login=login)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(place)


def _accept() -> dict[str, str]:
    kinds = (
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
    return {"Accept": ", ".join(kinds)}


def _bcrypt(password: str) -> str:
    """Hash with bcrypt, the only hash that docker-registry accepts, by the C library's crypt(3):
    Python 3.13 has none."""
    crypt = ctypes.CDLL("libcrypt.so.1").crypt
    crypt.restype = ctypes.c_char_p
    letters = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    salt = "$2b$05$" + "".join(secrets.choice(letters) for _ in range(21)) + "O"
    return str(crypt(password.encode(), salt.encode()).decode())
