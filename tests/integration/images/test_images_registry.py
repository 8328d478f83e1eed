"""portal/images/registry/registry.py with real registries: what a tag is, and what bad answers "
"say."""

from __future__ import annotations

import asyncio
import contextlib
import json
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import images
import pytest
from quiet_http import QuietHandler, serving
from registry import Registry, registry

from portal.errors import ConfigurationError, InvalidRequest, RegistryUnavailable
from portal.images.registry import pull_files
from portal.images.registry.credentials import Secrets
from portal.images.registry.pull_files import authorities_in, environment_of
from portal.images.registry.registry import Registries
from portal.images.registry.words import Fault, fault_of
from portal.models.catalog.catalog import Registry as RegistryRow
from portal.models.catalog.catalog import StoredRegistry
from portal.models.catalog.image import Source, parse_source

USER, PASSWORD = "$oauthtoken", "nvapi-Ünter:my-key"


@pytest.fixture(scope="module")
def open_registry() -> Iterator[Registry]:
    """Without TLS and without a password."""
    with registry() as server:
        server.push("nvidia/pytorch", "25.09-py3", images.small())
        server.push("nvidia/pytorch", "25.10-py3", images.small())
        server.push("nvidia/arm", "1", images.foreign())
        yield server


@pytest.fixture(scope="module")
def closed_registry() -> Iterator[Registry]:
    """With TLS and a password."""
    with registry(tls=True, login=(USER, PASSWORD)) as server:
        server.push("nvidia/pytorch", "25.10-py3", images.bare())
        yield server


@pytest.fixture
def registries(tmp_path: Path) -> Registries:
    secrets = Secrets(key_file=str(tmp_path / "key"), password_directory=str(tmp_path))
    return Registries(secrets=secrets, timeout=20)


def source(server: Registry | str, name: str) -> Source:
    host = server if isinstance(server, str) else server.host
    return parse_source(f"docker://{host}/{name}")


def stored(host: str, secret: str = "", **more: Any) -> StoredRegistry:
    values: dict[str, Any] = {
        "username": USER if secret else "",
        "password_file": "",
        "mirror": "",
        "insecure": False,
        "ca_file": "",
        "author": "grace",
        "at": 1.0,
    }
    row = RegistryRow(host=host, has_password=bool(secret), **(values | more))
    return StoredRegistry(row, secret)


def insecure(server: Registry) -> list[StoredRegistry]:
    return [stored(server.host, insecure=True)]


async def test_a_tag_is_a_digest_with_its_size(
    registries: Registries, open_registry: Registry
) -> None:
    asked = source(open_registry, "nvidia/pytorch:25.10-py3")
    found = await registries.resolve(asked, insecure(open_registry))
    answer = open_registry.ask(
        "GET",
        "/v2/nvidia/pytorch/manifests/25.10-py3",
        headers={"Accept": "application/vnd.oci.image.manifest.v1+json"},
    )
    manifest = answer.json()
    assert found.digest == answer.headers["Docker-Content-Digest"]
    assert found.architecture == images.OWN
    assert found.size == manifest["config"]["size"] + sum(
        layer["size"] for layer in manifest["layers"]
    )
    assert found.created
    # The same again by its digest; nothing was pulled.
    pinned = asked.pinned(found.digest)
    assert await registries.resolve(pinned, insecure(open_registry)) == found
    layer = manifest["layers"][0]["digest"]
    assert not open_registry.requests(f"^GET .*{layer}")


async def test_a_list_gives_the_image_of_this_architecture(
    registries: Registries, open_registry: Registry
) -> None:
    small = open_registry.push("nvidia/pytorch", "24.01-py3", images.small())
    digest = open_registry.push_list("multi/arch", "1", [images.foreign(), images.small()])
    asked = source(open_registry, "multi/arch:1")
    found = await registries.resolve(asked, insecure(open_registry))
    assert found.digest == small != digest
    by_digest = await registries.resolve(asked.pinned(digest), insecure(open_registry))
    assert by_digest == found
    registries.architecture = "s390x"
    with pytest.raises(InvalidRequest, match=r"is built for amd64, arm64, but .* nodes are s390x"):
        await registries.resolve(asked, insecure(open_registry))


async def test_an_image_for_another_architecture_is_refused(
    registries: Registries, open_registry: Registry
) -> None:
    with pytest.raises(InvalidRequest, match=f"is built for {images.OTHER}, but") as raised:
        await registries.resolve(source(open_registry, "nvidia/arm:1"), insecure(open_registry))
    assert raised.value.field == "source"


async def test_an_unknown_tag_names_those_near_it(
    registries: Registries, open_registry: Registry
) -> None:
    asked = source(open_registry, "nvidia/pytorch:25.11-py3")
    with pytest.raises(InvalidRequest, match=r"no tag '25\.11-py3' of nvidia/pytorch") as raised:
        await registries.resolve(asked, insecure(open_registry))
    assert "25.10-py3" in raised.value.message
    assert raised.value.field == "source"


async def test_an_unknown_repository_is_said(
    registries: Registries, open_registry: Registry
) -> None:
    with pytest.raises(InvalidRequest, match=r"(no repository|no tag '1' of) '?nvidia/none"):
        await registries.resolve(source(open_registry, "nvidia/none:1"), insecure(open_registry))
    missing = "sha256:" + "0" * 64
    with pytest.raises(InvalidRequest, match="has no image"):
        await registries.resolve(
            source(open_registry, f"nvidia/pytorch@{missing}"), insecure(open_registry)
        )


async def test_plain_http_has_to_be_allowed(
    registries: Registries, open_registry: Registry
) -> None:
    with pytest.raises(InvalidRequest, match=r"plain HTTP.*insecure"):
        await registries.resolve(source(open_registry, "nvidia/pytorch:25.10-py3"), [])


async def test_with_password_and_authority(
    registries: Registries, closed_registry: Registry, tmp_path: Path
) -> None:
    asked = source(closed_registry, "nvidia/pytorch:25.10-py3")
    secret = registries.secrets.encrypt(PASSWORD)
    host, authority = closed_registry.host, str(closed_registry.ca_file)
    with pytest.raises(InvalidRequest, match=r"certificate .* is not trusted"):
        await registries.resolve(asked, [stored(host, secret)])
    with pytest.raises(InvalidRequest, match="requires a password"):
        await registries.resolve(asked, [stored(host, ca_file=authority)])
    wrong = registries.secrets.encrypt("wrong")
    with pytest.raises(InvalidRequest, match=r"does not accept the password of '\$oauthtoken'"):
        await registries.resolve(asked, [stored(host, wrong, ca_file=authority)])
    found = await registries.resolve(asked, [stored(host, secret, ca_file=authority)])
    file = tmp_path / "key-of-nvcr"
    file.write_text(PASSWORD + "\n")
    file.chmod(0o600)
    row = stored(host, "", ca_file=authority, password_file=str(file), username=USER)
    assert await registries.resolve(asked, [row]) == found


async def test_a_mirror_answers_for_the_registry(
    registries: Registries, closed_registry: Registry
) -> None:
    secret = registries.secrets.encrypt(PASSWORD)
    row = stored(
        "nvcr.io", secret, mirror=closed_registry.host, ca_file=str(closed_registry.ca_file)
    )
    asked = parse_source("docker://nvcr.io/nvidia/pytorch:25.10-py3")
    assert (await registries.resolve(asked, [row])).digest.startswith("sha256:")
    # A mirror that is kept as a registry of its own has its own password.
    wrong = row._replace(secret=registries.secrets.encrypt("wrong"))
    own = stored(closed_registry.host, secret, ca_file=row.registry.ca_file)
    assert await registries.resolve(asked, [wrong, own])
    with pytest.raises(InvalidRequest, match="does not accept the password"):
        await registries.resolve(asked, [wrong])
    # What the mirror complains of counts, though nvcr.io too is asked.
    with pytest.raises(InvalidRequest, match=r"mirror of 'nvcr\.io', has no tag '9'") as raised:
        await registries.resolve(asked.model_copy(update={"tag": "9"}), [row])
    assert "25.10-py3" in raised.value.message


async def test_a_check_says_what_is_wrong(
    registries: Registries, closed_registry: Registry, open_registry: Registry
) -> None:
    secret, host = registries.secrets.encrypt(PASSWORD), closed_registry.host
    authority = str(closed_registry.ca_file)
    said = await registries.check(host, [stored(host, secret, ca_file=authority)])
    assert "accepts the password" in said and PASSWORD not in said
    mirrored = stored("nvcr.io", secret, ca_file=authority, mirror=host)
    assert host in await registries.check("nvcr.io", [mirrored])
    wrong = registries.secrets.encrypt("wrong")
    with pytest.raises(InvalidRequest, match="does not accept the password"):
        await registries.check(host, [stored(host, wrong, ca_file=authority)])
    with pytest.raises(InvalidRequest, match="certificate"):
        await registries.check(host, [stored(host, secret)])
    assert "answers" in await registries.check(open_registry.host, insecure(open_registry))
    with pytest.raises(InvalidRequest, match="plain HTTP"):
        await registries.check(open_registry.host, [])


async def test_a_registry_that_is_away(registries: Registries) -> None:
    with registry() as server:
        pass
    with pytest.raises(RegistryUnavailable, match="cannot be reached"):
        await registries.resolve(source(server, "a/b:1"), [])
    with pytest.raises(RegistryUnavailable, match="cannot be reached"):
        await registries.resolve(parse_source("docker://registry.invalid/a/b:1"), [])
    with pytest.raises(RegistryUnavailable, match="cannot be reached"):
        await registries.check(server.host, [])


class Odd(QuietHandler):
    """A registry that is busy, never ends, sends what it should not."""

    how = "busy"
    stop = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/v2/":
            self.answer(200, b"{}")
        elif self.how == "busy":
            self.answer(429, b'{"errors":[{"code":"TOOMANYREQUESTS","message":"slow down"}]}')
        elif self.how == "slow":
            self.stop.wait(30)
        elif self.how == "large":
            self.answer(200, b" " * 9_000_000)
        elif self.how == "old":
            self.answer(200, b'{"schemaVersion": 1, "name": "a/b", "tag": "1"}')
        elif self.how == "empty":
            self.answer(200, b'{"schemaVersion": 2, "layers": "none", "manifests": [7]}')
        else:
            self.answer(200, b"<html>")

    def answer(self, status: int, body: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            self.send_whole(status, body, "application/vnd.oci.image.manifest.v1+json")


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ("busy", RegistryUnavailable, "in 2 s.*limits the request rate"),
        ("slow", RegistryUnavailable, "sent no image within 2 s"),
        ("large", InvalidRequest, "too large|sent no image"),
        ("old", InvalidRequest, "before 2016"),
        ("empty", InvalidRequest, "is built for another system"),
        ("html", InvalidRequest, "is not JSON"),
    ],
)
async def test_odd_answers(
    registries: Registries, how: str, error: type[Exception], words: str
) -> None:
    Odd.how = how
    Odd.stop.clear()
    registries.timeout = 2 if how in ("busy", "slow") else 20
    with serving(Odd) as server:
        host = f"127.0.0.1:{server.server_port}"
        with pytest.raises(error, match=words):
            await registries.resolve(source(host, "a/b:1"), [stored(host, insecure=True)])
        Odd.stop.set()


async def test_few_questions_are_on_their_way_at_a_time(
    registries: Registries, tmp_path: Path
) -> None:
    running, seen = tmp_path / "running", tmp_path / "seen"
    running.mkdir()
    program = tmp_path / "slow-skopeo"
    program.write_text(
        f"#!/bin/sh\ntouch {running}/$$; ls {running} | wc -l >> {seen}; sleep 0.2\n"
        f"rm {running}/$$; echo 'manifest unknown' >&2; exit 1\n"
    )
    program.chmod(0o755)
    registries.skopeo, registries.parallel = str(program), 2
    told = await asyncio.gather(*(registries.check("registry.test", []) for _ in range(6)))
    assert all("answers" in one for one in told)
    counts = [int(line) for line in seen.read_text().split()]
    assert len(counts) == 6 and max(counts) == 2


async def test_without_skopeo(registries: Registries) -> None:
    registries.skopeo = "/nowhere/skopeo"
    with pytest.raises(ConfigurationError, match="install skopeo"):
        await registries.resolve(parse_source("docker://nvcr.io/a/b:1"), [])


async def test_the_password_is_on_no_command_line(
    registries: Registries, closed_registry: Registry, tmp_path: Path
) -> None:
    """A skopeo that writes down how it was called, and then does what was asked."""
    record, program = tmp_path / "record", tmp_path / "skopeo"
    program.write_text(
        f'#!/bin/sh\n(echo "$@"; env) >>{record}\nls -ld "$HOME" >>{record}\nexec skopeo "$@"\n'
    )
    program.chmod(0o755)
    registries.skopeo = str(program)
    secret, host = registries.secrets.encrypt(PASSWORD), closed_registry.host
    row = stored(host, secret, ca_file=str(closed_registry.ca_file))
    await registries.resolve(source(closed_registry, "nvidia/pytorch:25.10-py3"), [row])
    await registries.check(host, [row])
    text = record.read_text()
    assert text.count("--authfile") == 3 and "drwx------" in text
    assert PASSWORD not in text and "nvapi" not in text
    home = next(line for line in text.splitlines() if line.startswith("HOME="))[5:]
    assert not Path(home).exists()


async def test_a_job_gets_what_it_needs_and_gives_it_back(
    registries: Registries, closed_registry: Registry, tmp_path: Path
) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    secret = registries.secrets.encrypt(PASSWORD)
    row = stored(
        "nvcr.io", secret, mirror="127.0.0.1:5", insecure=True, ca_file=str(closed_registry.ca_file)
    )
    other = stored("ghcr.io", secret)
    asked = parse_source("docker://nvcr.io/nvidia/pytorch:1")
    files = await registries.hand_over(asked, [row, other], str(folder))
    auth = Path(files.auth_file)
    assert set(json.loads(auth.read_text())["auths"]) == {"nvcr.io", "127.0.0.1:5"}
    assert stat.S_IMODE(auth.stat().st_mode) == 0o640
    assert stat.S_IMODE(auth.parent.stat().st_mode) & 0o777 == 0o750
    assert stat.S_IMODE(auth.parent.parent.stat().st_mode) & 0o777 == 0o750
    assert 'location = "127.0.0.1:5"\ninsecure = true' in Path(files.registries_conf).read_text()
    home = tmp_path / "home"
    home.mkdir()
    variables = environment_of(files, home)
    assert (home / ".config/containers/registries.conf").exists()
    authority = Path(variables["SSL_CERT_DIR"].split(":")[0]) / "0.pem"
    assert authority.read_text() == Path(str(closed_registry.ca_file)).read_text()
    # A definition file gets the logins of the registries that it names.
    definition = tmp_path / "b.def"
    definition.write_text("Bootstrap: docker\nFrom: ghcr.io/a/b:1\n")
    every = await registries.hand_over(parse_source(str(definition)), [row, other], str(folder))
    assert set(json.loads(Path(every.auth_file).read_text())["auths"]) == {"ghcr.io"}
    for one in (files, every):
        await registries.take_back(one)
        await registries.take_back(one)
    assert not list((folder / ".auth").iterdir())
    # Nothing to say, nothing written.
    nothing = await registries.hand_over(asked, [other], str(tmp_path / "none"))
    assert nothing == ("", "")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        await registries.hand_over(asked, [row], str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        (  # skopeo 1.9.3, docker.io
            "Error parsing image name: reading manifest 1 in docker.io/library/busybox: "
            "toomanyrequests: You have reached your pull rate limit.",
            Fault.BUSY,
        ),
        (  # a registry with tokens (nvcr.io, ghcr.io)
            "unable to retrieve auth token: invalid username/password: unauthorized: ",
            Fault.PASSWORD,
        ),
        ("reading manifest 1 in nvcr.io/a/b: requested access to the resource is denied",
         Fault.DENIED),
        ("reading manifest 1 in nvcr.io/a/b: name unknown", Fault.REPOSITORY),
        ("pinging container registry a.b: Get \\\"https://a.b/v2/\\\": dial tcp: lookup a.b: no "
         "such host", Fault.AWAY),
        ("(Mirrors also failed: [m:5/a/b:1: reading manifest 1 in m:5/a/b: manifest unknown]): "
         "nvcr.io/a/b:1: pinging container registry nvcr.io: dial tcp: i/o timeout", Fault.TAG),
        ("(Mirrors also failed: [m:5/a/b:1: dial tcp: connection refused]): nvcr.io/a/b:1: "
         "reading manifest 1 in nvcr.io/a/b: unauthorized", Fault.PASSWORD),
        ("something new", Fault.OTHER),
    ],
)  # fmt: skip
def test_complaints_are_told_apart(said: str, fault: Fault) -> None:
    line = f'time="2026-11-22T01:06:24Z" level=fatal msg="{said}"\n'
    assert fault_of(line)[0] is fault


def test_nothing_but_certificates_goes_to_a_job(closed_registry: Registry, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    certificates = Path(str(closed_registry.ca_file)).read_text()
    key = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"
    both.write_text(key + certificates)
    assert authorities_in(str(both)) == certificates
    with pytest.raises(OSError, match="not a file"):
        authorities_in("/dev/zero")
    with pytest.raises(OSError, match="no certificate"):
        authorities_in("/etc/hostname")


async def test_a_link_of_the_builds_account_is_not_followed(
    registries: Registries, closed_registry: Registry, tmp_path: Path
) -> None:
    """The folder of images is theirs; what is removed in it is removed by the service's account."""
    ours, theirs = tmp_path / "ours", tmp_path / "images"
    (ours / "kept").mkdir(parents=True)
    theirs.mkdir()
    (theirs / ".auth").symlink_to(ours)
    pull_files.sweep(theirs, [])
    assert (ours / "kept").exists()
    row = stored("nvcr.io", registries.secrets.encrypt(PASSWORD))
    asked = parse_source("docker://nvcr.io/nvidia/pytorch:1")
    with pytest.raises(ConfigurationError, match="is a link"):
        await registries.hand_over(asked, [row], str(theirs))
    assert [one.name for one in ours.iterdir()] == ["kept"]
    (theirs / ".auth").unlink()
    files = await registries.hand_over(asked, [row], str(theirs))
    pull_files.sweep(theirs, [files])
    assert Path(files.auth_file).exists()
    pull_files.sweep(theirs, [])
    assert not list((theirs / ".auth").iterdir())
