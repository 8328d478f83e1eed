"""Files for a web server in front: the server itself accepts them, and one that is refused is taken
back."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from setup_machine import Machine

from portal.demo.daemons.certificates import make_certificates
from portal.errors import ConfigurationError
from portal.setup import undo as module
from portal.setup.https import certificate_trouble, web_server
from portal.setup.journal import Journal
from portal.setup.place import Answer, Place
from portal.setup.undo import ensure_unedited, undo
from portal.setup.writing import follow, write

NGINX = "etc/nginx/conf.d/data-scientist-portal.conf"


@pytest.fixture
def https(machine: Machine, tmp_path: Path) -> Machine:
    made = make_certificates(tmp_path / "tls with space", "portal.example.org")
    machine.given |= {
        "https": "nginx",
        "host_name": "portal.example.org",
        "certificate": str(made.certificate),
        "certificate_key": str(made.key),
        "session_hosts": True,
    }
    return machine


def set_up(machine: Machine) -> None:
    journal = Journal(machine.place)
    with journal.locked():
        write(machine.steps(), machine.place, journal, print)
        follow(machine.place, journal, web_server(machine.answers, machine.place), print)


def test_nginx_accepts_it(https: Machine) -> None:
    if not shutil.which("nginx", path="/usr/sbin:/usr/bin"):
        pytest.skip("nginx is not installed")
    set_up(https)
    text = (https.root / NGINX).read_text()
    assert "server_name portal.example.org *.portal.example.org;" in text
    assert "proxy_set_header Upgrade $http_upgrade;" in text
    unit = https.root / "etc/systemd/system/data-scientist-portal-proxy.service"
    assert "--host-routing $PROXY_OPTIONS" in unit.read_text()
    config = (https.root / "etc/data-scientist-portal/jupyterhub_config.py").read_text()
    assert 'c.JupyterHub.subdomain_host = "https://portal.example.org"' in config


def test_a_first_file_that_nginx_refuses_is_removed(https: Machine) -> None:
    if not shutil.which("nginx", path="/usr/sbin:/usr/bin"):
        pytest.skip("nginx is not installed")
    https.given["certificate"] = "/nowhere/portal.pem"
    with pytest.raises(ConfigurationError, match=r"nginx refuses the configuration.*/nowhere"):
        set_up(https)
    assert not (https.root / NGINX).exists()
    assert f"file:/{NGINX}" not in Journal(https.place).entries


def test_a_file_that_nginx_refuses_is_taken_back(https: Machine) -> None:
    """Its certificate is gone: the file is as the last setup that succeeded wrote it."""
    if not shutil.which("nginx", path="/usr/sbin:/usr/bin"):
        pytest.skip("nginx is not installed")
    set_up(https)
    before = (https.root / NGINX).read_bytes()
    https.given["certificate"] = "/nowhere/portal.pem"
    with pytest.raises(ConfigurationError, match=r"nginx refuses the configuration.*/nowhere"):
        set_up(https)
    assert (https.root / NGINX).read_bytes() == before
    ensure_unedited(Journal(https.place))


def test_undo_reloads_the_web_server_without_the_file(
    https: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(https)
    asked: list[tuple[str, bool]] = []

    def ask(argv: list[str], *_: object, **__: object) -> Answer:
        asked.append((" ".join(argv[1:]), (https.root / NGINX).exists()))
        return Answer(0, "", "")

    monkeypatch.setattr(Place, "runs_systemd", True)
    monkeypatch.setattr(module, "ask", ask)
    undo(https.place, Journal(https.place), print)
    assert ("reload-or-restart nginx", False) in asked


def test_apache_accepts_it(https: Machine, tmp_path: Path) -> None:
    apache = shutil.which("apache2", path="/usr/sbin:/usr/bin")
    modules = Path("/usr/lib/apache2/modules")
    if not apache:
        pytest.skip("apache2 is not installed")
    (https.root / "etc/apache2/sites-available").mkdir(parents=True)
    https.given["https"] = "apache"
    web = web_server(https.answers, https.place)
    assert web
    assert [argv[0] for argv, _ in web.enable] == ["a2enmod"] * 5 + ["a2ensite"]
    ((path, text),) = web.files
    assert path == "/etc/apache2/sites-available/data-scientist-portal.conf"
    site = tmp_path / "site.conf"
    site.write_text(text)
    names = ("mpm_event", "authz_core", "ssl", "http2", "proxy", "proxy_http", "headers", "deflate",
             "filter", "alias", "socache_shmcb")  # fmt: skip
    main = tmp_path / "apache2.conf"
    main.write_text(
        f"ServerRoot {tmp_path}\nServerName x\nPidFile {tmp_path}/pid\nErrorLog {tmp_path}/log\n"
        + "".join(f"LoadModule {n}_module {modules}/mod_{n}.so\n" for n in names)
        + f"Include {site}\n"
    )
    done = subprocess.run([apache, "-t", "-f", str(main)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "upgrade=websocket" in text


def test_caddy_gets_its_file_and_keeps_its_own(
    https: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "caddy").write_text("#!/bin/sh\n")
    (folder / "caddy").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    caddyfile = https.root / "etc/caddy/Caddyfile"
    caddyfile.parent.mkdir()
    caddyfile.write_text("other.example.org {\n}\n")
    https.given["https"] = "caddy"
    set_up(https)
    assert caddyfile.read_text().startswith("other.example.org {\n}\n")
    assert "import /etc/caddy/data-scientist-portal*.caddy" in caddyfile.read_text()
    own = (https.root / "etc/caddy/data-scientist-portal.caddy").read_text()
    assert own.startswith("# Written")
    assert f'tls "{https.given["certificate"]}"' in own
    assert https.set_up() == []


def test_caddy_accepts_it(https: Machine, tmp_path: Path) -> None:
    caddy = shutil.which("caddy")
    if not caddy:
        pytest.skip("caddy is not installed")
    https.given["https"] = "caddy"
    (https.root / "etc/caddy").mkdir()
    set_up(https)
    own = https.root / "etc/caddy/data-scientist-portal.caddy"

    def validate(text: str) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "Caddyfile"
        file.write_text(text)
        argv = [caddy, "validate", "--config", str(file), "--adapter", "caddyfile"]
        home = {"HOME": str(tmp_path), "PATH": "/usr/bin"}
        return subprocess.run(argv, capture_output=True, text=True, env=home)

    done = validate(own.read_text())
    assert done.returncode == 0 and "Valid configuration" in done.stdout, done.stderr
    assert validate(own.read_text().replace("reverse_proxy", "reverse_prox")).returncode != 0


def test_a_web_server_that_is_not_there_is_said(
    https: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Place, "program", lambda *_: "")
    for name in ("caddy", "nginx"):
        with pytest.raises(ConfigurationError, match=f"https: {name} is not installed"):
            web_server({**https.answers, "https": name}, https.place)


def test_a_certificate_that_does_not_fit_is_said(https: Machine, tmp_path: Path) -> None:
    everywhere = Place("/")
    other = make_certificates(tmp_path / "other", "portal.example.org")
    answers = {**https.answers, "certificate_key": str(other.key)}
    assert "do not belong together" in certificate_trouble(everywhere, answers)
    answers = {**https.answers, "certificate": "/nowhere"}
    assert certificate_trouble(everywhere, answers) == "certificate: /nowhere does not exist."
    assert "is not for *.portal.example.org" in certificate_trouble(everywhere, https.answers)
    assert certificate_trouble(everywhere, {**https.answers, "session_hosts": False}) == ""
