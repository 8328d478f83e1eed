"""Who curates the catalog tries to have the site's passwords of registries sent to a host of
theirs, or over a connection that nobody guards; and definition files that ask for logins of
registries that they do not use. The API is real, with a real database."""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import Any

import pytest
from test_images_registry import stored
from test_registries_api import Site, site

from portal.demo.daemons.certificates import make_certificates
from portal.errors import InvalidRequest
from portal.images.apptainer.definition_file import base_hosts
from portal.images.registry.credentials import Secrets
from portal.images.registry.registry import Registries
from portal.models.catalog.image import parse_source

__all__ = ["site"]  # a fixture

PASSWORD = "nvapi-of-the-site"
MINE = "thief.example.org"
SAME: dict[str, Any] = {"username": "$oauthtoken", "mirror": "mirror.example.org"}


@pytest.fixture
def files(site: Site) -> dict[str, str]:
    """Two passwords of the site, in its folder, and an authority of the thief's."""
    for name, text in (("nvcr", PASSWORD), ("ghcr", "ghp-of-the-site")):
        path = site.place / name
        path.write_text(text + "\n")
        path.chmod(0o600)
    return {name: str(site.place / name) for name in ("nvcr", "ghcr")}


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_certificates(tmp_path_factory.mktemp("authority")).ca_file)


# -- the API ---------------------------------------------------------------------------------------

# What is changed of a registry whose password is in a file, without saying the password.
CHANGES: list[dict[str, Any]] = [
    {"mirror": MINE},
    {"mirror": f"{MINE}:443"},
    {"mirror": f"{MINE}:80", "insecure": True},
    {"mirror": "mirror.example.org.evil.test"},
    {"mirror": "mirror.example.org:5000"},
    {"mirror": "MIRROR.example.org"},
    {"mirror": "127.0.0.1:8081"},
    {"mirror": "nvcr.io"},
    {"insecure": True},
    {"mirror": "", "insecure": True},
    {"mirror": MINE, "password": ""},
    {"insecure": True, "password": ""},
    {"mirror": MINE, "password": None},
    {"mirror": MINE, "password": "guess"},
    {"mirror": MINE, "password": PASSWORD.upper()},
    {"mirror": MINE, "password": PASSWORD[:-1]},
    {"mirror": MINE, "password": f"{PASSWORD} "},
    {"mirror": MINE, "username": "thief"},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
async def test_a_password_in_a_file_goes_nowhere_else(
    site: Site, files: dict[str, str], change: dict[str, Any]
) -> None:
    put = "registries/nvcr.io"
    first = SAME | {"password_file": files["nvcr"]}
    assert (await site.ask("PUT", put, first | {"password": PASSWORD})).status_code == 200
    said = await site.refused("PUT", put, first | change)
    assert "password" in said and PASSWORD not in said
    row = (await site.parts.store.registries.all())[0].registry
    assert (row.mirror, row.insecure, row.password_file) == (SAME["mirror"], False, files["nvcr"])


@pytest.mark.parametrize("file", ["nvcr", "ghcr"])
@pytest.mark.parametrize("host", [MINE, f"{MINE}:5000", "nvcr.io", "ghcr.io", "127.0.0.1:8081"])
async def test_a_file_is_not_named_for_another_registry(
    site: Site, files: dict[str, str], host: str, file: str
) -> None:
    """A new registry, and one that had a file or a password of its own, and was removed."""
    put, body = f"registries/{host}", {"username": "u", "password_file": files[file]}
    assert "as well" in await site.refused("PUT", put, body)
    assert (await site.ask("PUT", put, {"username": "u", "password": "mine"})).status_code == 200
    assert "as well" in await site.refused("PUT", put, body)
    assert (await site.ask("DELETE", put)).status_code == 204
    assert "as well" in await site.refused("PUT", put, body)
    assert await site.parts.store.registries.all() == []


@pytest.mark.parametrize("change", [one for one in CHANGES if not one.get("password")], ids=str)
async def test_a_kept_password_goes_nowhere_else(site: Site, change: dict[str, Any]) -> None:
    put = "registries/nvcr.io"
    assert (await site.ask("PUT", put, SAME | {"password": PASSWORD})).status_code == 200
    answer = await site.ask("PUT", put, SAME | change)
    (row,) = await site.parts.store.registries.all()
    if answer.status_code == 200:
        assert not row.secret, "it is sent with the change"
    else:
        assert answer.status_code == 400 and row.registry.mirror == SAME["mirror"]


async def test_an_authority_of_ones_own_does_not_guard_it(
    site: Site, files: dict[str, str], authority: str
) -> None:
    put, body = "registries/nvcr.io", {"username": "u", "password_file": files["nvcr"]}
    assert (await site.ask("PUT", put, body | {"password": PASSWORD})).status_code == 200
    assert "as well" in await site.refused("PUT", put, body | {"ca_file": authority})
    # What changes nothing of where it goes is free; and a renewed password needs nothing.
    Path(files["nvcr"]).write_text("renewed\n")
    assert (await site.ask("PUT", put, body)).status_code == 200
    body |= {"ca_file": authority, "password": "renewed"}
    assert (await site.ask("PUT", put, body)).status_code == 200
    del body["password"], body["ca_file"]
    assert "as well" in await site.refused("PUT", put, body)


async def test_a_file_and_a_password_tell_nothing_by_their_time(
    site: Site, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []
    monkeypatch.setattr(
        "portal.images.registry.credentials.hmac.compare_digest",
        lambda a, b: compared.append(a) or hmac.new(a, b, "sha256") is None,
    )
    body = {"username": "u", "password_file": files["nvcr"], "password": PASSWORD}
    assert "is not the password" in await site.refused("PUT", "registries/nvcr.io", body)
    assert compared


# -- mirrors ---------------------------------------------------------------------------------------


@pytest.fixture
def registries(tmp_path: Path) -> Registries:
    secrets = Secrets(key_file=str(tmp_path / "key"), password_directory=str(tmp_path))
    return Registries(secrets=secrets)


@pytest.mark.parametrize(
    ("thief", "own", "sent"),
    [
        ({}, {}, True),
        ({"insecure": True}, {}, False),
        ({"insecure": True, "ca_file": "/a.pem"}, {"ca_file": "/a.pem"}, False),
        ({"ca_file": "/home/thief/a.pem"}, {}, False),
        ({"ca_file": "/home/thief/a.pem"}, {"ca_file": "/etc/a.pem"}, False),
        ({"ca_file": "/etc/a.pem"}, {"ca_file": "/etc/a.pem"}, True),
        ({"insecure": True}, {"insecure": True}, True),
    ],
)
def test_the_mirror_of_another_keeps_its_guard(
    registries: Registries, thief: dict[str, Any], own: dict[str, Any], sent: bool
) -> None:
    """A registry of the thief's says that its mirror is the site's, to be asked in clear text."""
    rows = [
        stored(MINE, registries.secrets.encrypt("mine"), mirror="nvcr.io", **thief),
        stored("nvcr.io", registries.secrets.encrypt(PASSWORD), **own),
    ]
    logins = registries._logins([MINE], rows)
    assert logins[MINE].password == "mine"
    assert ("nvcr.io" in logins) is sent
    if sent:
        assert logins["nvcr.io"].password == PASSWORD


# -- definition files ------------------------------------------------------------------------------

HOSTS = ("nvcr.io", "ghcr.io", "docker.io", "quay.example.org:5000")
NOBODY: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("Bootstrap: docker\nFrom: nvcr.io/a/b:1\n", {"nvcr.io"}),
        ("Bootstrap: docker\nFrom: a/b\n", {"docker.io"}),
        ("Bootstrap: docker\nFrom: b\n", {"docker.io"}),
        ("bootstrap: DOCKER\nfrom: nvcr.io/a/b # ghcr.io/a/b\n", {"nvcr.io"}),
        ("Bootstrap: docker\n# From: ghcr.io/a/b\nFrom: nvcr.io/a/b\n", {"nvcr.io"}),
        ("From: nvcr.io/a/b\nBootstrap: docker\n", NOBODY),
        ("Bootstrap: oras\nFrom: ghcr.io/a/b:1\n", {"ghcr.io"}),
        ("Bootstrap: docker\nRegistry: ghcr.io\nNamespace: a\nFrom: b\n", {"ghcr.io"}),
        ("Bootstrap: docker\nRegistry: ghcr.io\nFrom: nvcr.io/b\n", {"ghcr.io"}),
        (
            "Bootstrap: docker\nFrom: nvcr.io/a/b\nStage: one\n%post\n From: docker.io/a\n"
            "Bootstrap: docker\nFrom: ghcr.io/a/b\nStage: two\n",
            {"nvcr.io", "ghcr.io"},
        ),
        ("Bootstrap: localimage\nFrom: /srv/a.sif\n", NOBODY),
        ("Bootstrap: oci\nFrom: /srv/nvcr.io/a\n", NOBODY),
        ("Bootstrap: localimage\nFrom: nvcr.io/a/b\n", NOBODY),
        ("Bootstrap: docker\nFrom: {{ host }}/a/b\n", NOBODY),
        ("Bootstrap: docker\nFrom: user:password@nvcr.io/a/b\n", NOBODY),
        ("Bootstrap: docker\nFrom: nvcr.io@thief.example.org/a/b\n", NOBODY),
        ("Bootstrap: docker\nFrom: nvcr.io/../ghcr.io/a\n", NOBODY),
        ("Bootstrap: docker\nFrom: nvcr.io.thief.example.org/a/b\n", {f"nvcr.io.{MINE}"}),
        ("Bootstrap: docker\nFrom: https://nvcr.io/a/b\n", NOBODY),
        ("Bootstrap: docker\nFrom: nvcr.io\\ghcr.io/a\n", NOBODY),
        ("Bootstrap: docker\nFrom: thief.example.org/nvcr.io/a/b\n", {MINE}),
        ("Bootstrap: docker\nFrom: nvcr.io:443/a/b\n", {"nvcr.io:443"}),
        ("Bootstrap: docker\nFrom: nvcr.io./a/b\n", NOBODY),
        (
            "Bootstrap: docker\nFrom: thief.example.org/a\n%help\n Bootstrap: docker\n"
            " From: nvcr.io/a/b\n%labels\n From nvcr.io/a/b\n%environment\n From: ghcr.io/a\n"
            "%runscript\n From: ghcr.io/a\n%test\n From: docker.io/a\n",
            {MINE},
        ),
    ],
)
def test_a_build_has_the_logins_of_its_hosts_alone(
    registries: Registries, tmp_path: Path, text: str, hosts: set[str]
) -> None:
    assert base_hosts(text) == hosts
    secret = registries.secrets.encrypt(PASSWORD)
    rows = [stored(host, secret) for host in HOSTS]
    assert set(registries._logins(base_hosts(text), rows)) == hosts & set(HOSTS)


async def test_a_sif_file_has_no_login(registries: Registries, tmp_path: Path) -> None:
    secret = registries.secrets.encrypt(PASSWORD)
    source = parse_source("/srv/image.sif")
    files = await registries.hand_over(source, [stored("nvcr.io", secret)], str(tmp_path))
    assert files == ("", "")
    with pytest.raises(InvalidRequest):
        await registries.hand_over(parse_source("/none.def"), [], str(tmp_path))
