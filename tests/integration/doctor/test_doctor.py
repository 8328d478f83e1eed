"""``portal doctor`` on sites that are wrong in one way each: real files, commands and ports."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import checkout
import pytest

from portal.doctor.checks import (
    access,
    all_checks,
    apptainer,
    commands,
    environments,
    hub,
    origins,
    proxy,
    storage,
    sudo,
)
from portal.doctor.finding import Check, Finding, Level, Result, check, worst
from portal.doctor.report import as_json, failed, lines, summary
from portal.doctor.site import Site
from spawners import hub_setup

GOOD = """
c = get_config()
c.JupyterHub.spawner_class = "spawners.spawner.PortalSpawner"
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.bind_url = "http://127.0.0.1:8000"
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 3}
c.SlurmRunner.bin_dir = "/nowhere"
"""
SET_UP = "from spawners.hub_setup import set_up_hub\nset_up_hub()\n"


def site_of(directory: Path, config: str = "", person: str = "") -> Site:
    file = directory / "jupyterhub_config.py"
    file.write_text(GOOD + config)
    return Site(str(file), person)


async def asked(one: Check, directory: Path, config: str = "", person: str = "") -> Finding:
    site = site_of(directory, config, person)
    try:
        return await one.run(site, 20)
    finally:
        site.close()


def test_ids_are_unique_and_titles_say_what_should_be() -> None:
    assert len({one.id for one in all_checks()}) == len(all_checks())
    assert len({one.title for one in all_checks()}) == len(all_checks())


# -- the configuration --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("c.JupyterHub.port = 'high'", "port"),
        ("1/0", "ZeroDivisionError"),
        ("def", "SyntaxError"),
        ("c.JupyterHub.spawner_class = 'no.such.Spawner'", "spawner_class"),
    ],
)
async def test_wrong_configuration_is_told_once(tmp_path: Path, config: str, reason: str) -> None:
    finding = await asked(hub.configuration, tmp_path, config)
    assert finding.level is Level.FAILURE
    assert reason in finding.found
    for one in (access.public_address, hub.service, proxy.proxy):
        assert (await asked(one, tmp_path, config)).level is Level.SKIPPED


async def test_configuration_that_is_not_there(tmp_path: Path) -> None:
    finding = await hub.configuration.run(Site(str(tmp_path / "none.py")), 20)
    assert finding.level is Level.FAILURE
    assert "no such file" in finding.found


async def test_good_configuration(tmp_path: Path) -> None:
    assert (await asked(hub.configuration, tmp_path)).level is Level.OK


async def test_reading_the_configuration_starts_nothing_and_writes_nothing(tmp_path: Path) -> None:
    site = site_of(tmp_path)
    await access.secrets.run(site, 20)
    assert [path.name for path in tmp_path.iterdir()] == ["jupyterhub_config.py"]


# -- what can be listened to and read -----------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [
        "",
        "c.JupyterHub.bind_url = 'http://[::1]:8000'",
        "c.JupyterHub.bind_url = 'http://localhost:8000'",
        "c.JupyterHub.bind_url = 'https://:443'\nc.JupyterHub.ssl_cert = '/x.pem'",
    ],
)
async def test_plain_http_on_loopback_and_https(tmp_path: Path, config: str) -> None:
    finding = await asked(access.public_address, tmp_path, config)
    assert finding.level is Level.OK and not finding.mend


@pytest.mark.parametrize("url", ["http://:8000", "http://0.0.0.0:8000", "http://hub.example.org"])
async def test_plain_http_beyond_loopback(tmp_path: Path, url: str) -> None:
    finding = await asked(access.public_address, tmp_path, f"c.JupyterHub.bind_url = {url!r}")
    assert finding.level is Level.FAILURE and finding.mend


OURS = """
from spawners.web.domains import host_of
c.JupyterHub.subdomain_hook = host_of
"""
PREFIX = "c.JupyterHub.cookie_host_prefix_enabled = True\n"
ELSEWHERE = """
from spawners.domains import sessions_below
c.JupyterHub.subdomain_hook = sessions_below("sessions.test")
"""


def set_addresses(monkeypatch: pytest.MonkeyPatch, other: set[str] | None = None) -> None:
    """Names have the address 192.0.2.7; with ``other``, all but gpu.test have those instead."""

    async def known(host: str) -> set[str]:
        return {"192.0.2.7"} if other is None or host == "gpu.test" else other

    monkeypatch.setattr(origins, "_addresses", known)


@pytest.mark.parametrize(
    ("config", "level", "words"),
    [
        ("", Level.WARNING, "Help in courses is off"),
        (f"c.JupyterHub.subdomain_host = 'http://localhost:8000'{OURS}", Level.OK, "*.localhost"),
        (f"c.JupyterHub.subdomain_host = 'http://192.0.2.7'{OURS}", Level.FAILURE, "plain HTTP"),
        (f"c.JupyterHub.subdomain_host = 'https://gpu.test/'{OURS}", Level.FAILURE, "gpu.test/"),
        ("c.JupyterHub.subdomain_host = 'http://localhost'", Level.FAILURE, "portal--service"),
    ],
)
async def test_hosts_of_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, level: Level, words: str
) -> None:
    set_addresses(monkeypatch)
    finding = await asked(origins.origins, tmp_path, config)
    assert (finding.level, words in finding.found) == (level, True), finding
    assert bool(finding.mend) is (level is not Level.OK)


@pytest.mark.parametrize(
    ("somebody", "level", "words"),
    [
        ({"192.0.2.7"}, Level.OK, "*.gpu.test resolves"),
        (set(), Level.FAILURE, "portal-doctor.gpu.test does not resolve"),
        ({"192.0.2.8"}, Level.WARNING, "portal-doctor.gpu.test resolves to 192.0.2.8"),
    ],
)
async def test_a_wildcard_name(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    somebody: set[str],
    level: Level,
    words: str,
) -> None:
    set_addresses(monkeypatch, somebody)
    finding = await asked(
        origins.origins, tmp_path, f"c.JupyterHub.subdomain_host = 'https://gpu.test'{OURS}{PREFIX}"
    )
    assert finding.level is level and words in finding.found


@pytest.mark.parametrize(
    ("config", "level", "words"),
    [
        (OURS, Level.WARNING, "can set the Hub's login cookies"),
        (f"{OURS}{PREFIX}", Level.OK, "sessions cannot set login cookies"),
        (ELSEWHERE, Level.OK, "sessions cannot set cookies for the Hub"),
    ],
)
async def test_cookies_of_logins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, level: Level, words: str
) -> None:
    set_addresses(monkeypatch)
    config = f"c.JupyterHub.subdomain_host = 'https://gpu.test'{config}"
    finding = await asked(origins.origins, tmp_path, config)
    assert finding.level is level and words in finding.found, finding
    assert ("cookie_host_prefix_enabled" in finding.mend) is (level is Level.WARNING)


@pytest.mark.parametrize(
    ("answer", "level"),
    [
        ("302 Found\r\nLocation: http://localhost:8000/hub/services/portal/api/v1/", Level.FAILURE),
        ("403 Forbidden", Level.OK),
    ],
)
async def test_a_proxy_that_sends_every_host_to_the_hub(
    tmp_path: Path, answer: str, level: Level
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked_for.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(f"HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()

    asked_for: list[str] = []
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        config = (
            f"c.JupyterHub.subdomain_host = 'http://localhost:{port}'{OURS}"
            f"c.JupyterHub.bind_url = 'http://127.0.0.1:{port}'\n"
            "c.ConfigurableHTTPProxy.should_start = False\n"
        )
        finding = await asked(origins.origins, tmp_path, config)
    assert "Host: localhost\r\n" in asked_for[0]
    assert finding.level is level, finding
    assert ("--host-routing" in finding.mend) is (level is Level.FAILURE)


@pytest.mark.parametrize("name", ["secret", "hub.sqlite", "key.pem"])
async def test_secrets_that_everyone_reads(tmp_path: Path, name: str) -> None:
    config = (
        f"c.JupyterHub.cookie_secret_file = {str(tmp_path / 'secret')!r}\n"
        f"c.JupyterHub.db_url = 'sqlite:///{tmp_path / 'hub.sqlite'}'\n"
        f"c.JupyterHub.ssl_key = {str(tmp_path / 'key.pem')!r}\n"
    )
    path = tmp_path / name
    path.write_text("secret")
    path.chmod(0o644)
    finding = await asked(access.secrets, tmp_path, config)
    assert finding.level is Level.FAILURE
    assert str(path) in finding.found
    assert f"chmod 600 {path}" in finding.mend
    path.chmod(0o600)
    assert (await asked(access.secrets, tmp_path, config)).level is Level.OK


async def test_password_file_of_ldap_is_a_secret(tmp_path: Path) -> None:
    password = tmp_path / "ldap-password"
    password.write_text("x")
    password.chmod(0o604)
    config = (
        "c.JupyterHub.authenticator_class = 'portal.directory.LDAPAuthenticator'\n"
        f"c.LDAPAuthenticator.search_password_file = {str(password)!r}\n"
    )
    finding = await asked(access.secrets, tmp_path, config)
    assert finding.level is Level.FAILURE
    assert str(password) in finding.found


async def test_configuration_that_everyone_can_change(tmp_path: Path) -> None:
    folder = tmp_path / "jupyterhub_config.d"
    folder.mkdir()
    (folder / "10-site.py").write_text("")
    (folder / "10-site.py").chmod(0o666)
    finding = await asked(access.secrets, tmp_path)
    assert finding.level is Level.FAILURE
    assert "10-site.py" in finding.found


# -- the Hub's parts ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "level", "words"),
    [
        ("", Level.OK, "PortalSpawner"),
        ("c.JupyterHub.spawner_class = 'simple'", Level.FAILURE, "SimpleLocalProcessSpawner"),
        ("c.Spawner.apply_user_options = dict", Level.FAILURE, "apply_user_options"),
        ("c.PortalSpawner.apply_user_options = dict", Level.FAILURE, "apply_user_options"),
        ("c.JupyterHub.tornado_settings = {'slow_spawn_timeout': 0}", Level.FAILURE, "is 0"),
        ("c.PortalSpawner.req_partition = 'gpu'", Level.WARNING, "c.PortalSpawner.req_partition"),
        ("c.SlurmSpawner.req_gres = 'gpu:1'", Level.WARNING, "c.SlurmSpawner.req_gres has no"),
        ("c.BatchSpawnerBase.batch_script = '#'", Level.WARNING, "BatchSpawnerBase.batch_script"),
    ],
)
async def test_spawner(tmp_path: Path, config: str, level: Level, words: str) -> None:
    finding = await asked(hub.spawner, tmp_path, SET_UP + config)
    assert finding.level is level
    assert words in finding.found


async def test_a_hub_that_is_not_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_setup, "_called", False)
    finding = await asked(hub.spawner, tmp_path)
    assert finding.level is Level.FAILURE and "refuses to start sessions" in finding.found
    assert SET_UP.replace("\n", "; ").removesuffix("; ") in finding.mend


async def test_service_that_the_site_dropped(tmp_path: Path) -> None:
    part = checkout.ROOT / "deploy/jupyterhub_config.d/20-service.py"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    whole = f"load_subconfig({str(part)!r})\n"
    move = f"c.JupyterHub.services[0]['url'] = 'http://127.0.0.1:{port}'\n"
    finding = await asked(hub.service, tmp_path, f"c.JupyterHub.services = []\n{whole}{move}")
    assert finding.level is Level.OK, finding
    finding = await asked(hub.service, tmp_path, f"{whole}c.JupyterHub.services = []")
    assert finding.level is Level.FAILURE
    assert "append" in finding.mend
    for dropped in (
        "c.JupyterHub.extra_user_scopes = {'self'}",
        "c.JupyterHub.load_roles.append({'name': 'user', 'scopes': ['self']})",
    ):
        finding = await asked(hub.service, tmp_path, f"{whole}{dropped}")
        assert finding.level is Level.FAILURE
        assert "role 'user'" in finding.found


async def test_account_tells_about_root(tmp_path: Path) -> None:
    finding = await asked(hub.account, tmp_path)
    if os.geteuid() == 0:
        assert finding.level in (Level.WARNING, Level.FAILURE, Level.OK)
        assert "root" in finding.found or "uid" in finding.found


@pytest.mark.parametrize("name", ["jupyterhub_config.py", "{}/jupyterhub_config.py"])
async def test_a_hub_that_runs_as_root_is_a_failure(tmp_path: Path, name: str) -> None:
    name = name.format(tmp_path)
    if os.geteuid() != 0:
        pytest.skip("only root can start a process as root")
    stand_in = tmp_path / "jupyterhub"
    stand_in.write_text("import sys\nprint('up', flush=True)\nsys.stdin.read()\n")
    with subprocess.Popen(
        [sys.executable, str(stand_in), "-f", name],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout and process.stdout.readline()
        finding = await asked(hub.account, tmp_path)
        other = tmp_path / "other"
        other.mkdir()
        not_ours = await asked(hub.account, other)
        process.communicate()
    assert finding.level is Level.FAILURE
    assert "runs as root" in finding.found
    assert not_ours.level is not Level.FAILURE


async def test_packages_that_are_installed_fit(tmp_path: Path) -> None:
    finding = await asked(hub.packages, tmp_path)
    assert finding.level in (Level.OK, Level.SKIPPED), finding


# -- the proxy ----------------------------------------------------------------------------------


async def test_proxy_that_is_not_installed(tmp_path: Path) -> None:
    config = "c.ConfigurableHTTPProxy.command = ['/nowhere/configurable-http-proxy']"
    finding = await asked(proxy.proxy, tmp_path, config)
    assert finding.level is Level.FAILURE
    assert "portal proxy" in finding.mend


@pytest.mark.parametrize(("version", "level"), [("5.0.1", Level.WARNING), ("3.1.0", Level.FAILURE)])
async def test_proxy_versions(tmp_path: Path, version: str, level: Level) -> None:
    program = tmp_path / "proxy"
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)
    config = f"c.ConfigurableHTTPProxy.command = {str(program)!r}"
    finding = await asked(proxy.proxy, tmp_path, config)
    assert finding.level is level
    assert version in finding.found


async def test_proxy_of_its_own_that_does_not_run(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = (
        "c.ConfigurableHTTPProxy.should_start = False\n"
        "c.ConfigurableHTTPProxy.auth_token = 'x'\n"
        f"c.ConfigurableHTTPProxy.api_url = 'http://127.0.0.1:{port}'\n"
    )
    finding = await asked(proxy.proxy, tmp_path, config)
    assert finding.level is Level.FAILURE
    assert "no proxy answers" in finding.found


# -- sudo, containers, file systems -------------------------------------------------------------


_KEPT = 'env_reset, env_keep+="SLURM_TIME_FORMAT APPTAINERENV_* PORTAL_*{}"'


@pytest.mark.parametrize(
    ("defaults", "conf", "narrow", "rule"),
    [
        (_KEPT.format(""), "", Level.OK, ""),
        (_KEPT.format(" SLURM_CONF"), "", Level.FAILURE, ""),
        (_KEPT.format(" SLURM_*"), "", Level.FAILURE, ""),
        (_KEPT.format("") + ", env_keep+=SLURM_CONF", "", Level.FAILURE, ""),
        (_KEPT.format("").replace("env_reset", "!env_reset"), "", Level.FAILURE, ""),
        (_KEPT.format(""), "/opt/slurm/etc/slurm.conf", Level.OK, "sudo drops SLURM_CONF"),
        (_KEPT.format("") + ", env_file=/etc/x", "/opt/slurm/etc/slurm.conf", Level.OK, ""),
    ],
)
async def test_which_slurm_conf_sudo_lets_pass(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    defaults: str,
    conf: str,
    narrow: Level,
    rule: str,
) -> None:
    """The caller's must not, and a site's own has to come from root."""
    monkeypatch.setattr(Site, "__init__", _not_root(Site.__init__))
    fake = tmp_path / "sudo"
    fake.write_text(
        f"#!/bin/sh\n[ $# -gt 2 ] && [ $2 = -l ] && exit 1\necho '{defaults}'\n"
        "echo '    (nobody) NOPASSWD: NOSETENV: /usr/bin/sbatch, /usr/bin/scancel'\n"
    )
    fake.chmod(0o755)
    config = f"c.SlurmRunner.sudo = [{str(fake)!r}, '-n', '-u', '{{user}}']\n"
    config += f"c.SlurmRunner.slurm_conf = {conf!r}\n"
    finding = await asked(sudo.narrow, tmp_path, config)
    assert finding.level is narrow, finding
    assert (narrow is Level.OK) is ("SLURM_CONF" not in finding.found)
    finding = await asked(sudo.rule, tmp_path, config, person="nobody")
    assert rule in finding.found
    assert (finding.level is Level.WARNING) is bool(rule), finding


async def test_sudo_without_a_rule(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        finding = await asked(sudo.rule, tmp_path)
        assert finding.level is Level.SKIPPED
        assert "Hub's account" in finding.mend
        return
    finding = await asked(sudo.rule, tmp_path)
    assert finding.level is Level.FAILURE
    assert "deploy/sudoers" in finding.mend


def add_container(directory: Path, image: str | Path = "/x.sif") -> str:
    """Put a container into the directory's catalog; give the catalog's setting."""
    catalog = directory / "environments"
    catalog.mkdir(exist_ok=True)
    (catalog / "one.yaml").write_text(f"name: one\ntitle: One\nkind: container\nimage: {image}\n")
    return f"c.EnvironmentCatalog.directory = {str(catalog)!r}\n"


async def test_apptainer_is_asked_for_only_where_it_is_needed(tmp_path: Path) -> None:
    catalog = tmp_path / "environments"
    catalog.mkdir()
    config = (
        f"c.EnvironmentCatalog.directory = {str(catalog)!r}\n"
        "c.PortalSpawner.apptainer = '/nowhere/apptainer'\n"
    )
    assert (await asked(apptainer.command, tmp_path, config)).level is Level.SKIPPED
    add_container(tmp_path)
    finding = await asked(apptainer.command, tmp_path, config)
    assert finding.level is Level.WARNING
    assert "/nowhere/apptainer" in finding.found


async def test_kernel_check_sees_this_machine(tmp_path: Path) -> None:
    config = add_container(tmp_path)
    finding = await asked(apptainer.kernel, tmp_path, config)
    fuse = Path("/dev/fuse")
    if not fuse.exists() or (os.geteuid() == 0 and not fuse.stat().st_mode & 0o004):
        assert finding.level is Level.WARNING
        assert "/dev/fuse" in finding.found


async def test_commands_in_containers_must_be_there(tmp_path: Path) -> None:
    config = add_container(tmp_path)
    assert (await asked(commands.commands, tmp_path, config)).level is Level.SKIPPED
    config += f"c.PortalSpawner.commands_in_containers = ['/etc/passwd', {str(tmp_path)!r}]\n"
    assert (await asked(commands.commands, tmp_path, config)).level is Level.OK
    config += "c.PortalSpawner.commands_in_containers += ['/nowhere/sbatch']\n"
    finding = await asked(commands.commands, tmp_path, config)
    assert finding.level is Level.WARNING and "/nowhere/sbatch" in finding.found


@pytest.fixture
def container(tmp_path: Path) -> Path:
    """A site with one container, its Apptainer running what it is told on this machine."""
    (tmp_path / "x.sif").write_text("")
    add_container(tmp_path, tmp_path / "x.sif")
    fake = tmp_path / "apptainer"
    fake.write_text(
        f'#!/bin/sh\necho "$*" >{tmp_path}/argv\nwhile [ "$1" != /bin/sh ]; do shift; done\n"$@"\n'
    )
    fake.chmod(0o755)
    (tmp_path / "bin").mkdir()
    return tmp_path


async def in_containers(place: Path, monkeypatch: pytest.MonkeyPatch) -> Finding:
    monkeypatch.setattr(Site, "__init__", _not_root(Site.__init__))
    paths = [str(place / "bin" / "srun"), str(place / "socket"), "/run"]
    config = f"c.EnvironmentCatalog.directory = {str(place / 'environments')!r}\n"
    config += f"c.PortalSpawner.apptainer = {str(place / 'apptainer')!r}\n"
    config += f"c.PortalSpawner.commands_in_containers = {paths!r}\n"
    config += "c.SlurmRunner.slurm_conf = '/opt/slurm.conf'\n"
    (place / "socket").mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(place / "socket")
        listening.bind("munge")
        found = await asked(commands.commands, place, config)
        Path("munge").unlink()
    return found


def _not_root(init: Callable[..., None]) -> Callable[..., None]:
    def made(self: Site, *args: Any) -> None:
        init(self, *args)
        self.is_root = False

    return made


async def test_commands_run_in_containers(container: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are run, without munge's socket, network and home."""
    shutil.copy("/bin/true", container / "bin/srun")
    finding = await in_containers(container, monkeypatch)
    assert (finding.level, finding.found) == (Level.OK, "1 commands run in 'one'")
    argv = (container / "argv").read_text().split("/bin/sh")[0]
    assert "--containall" in argv and "--network none" in argv
    assert "SLURM_CONF=/opt/slurm.conf" in argv
    assert f"{container}/bin/srun:" in argv
    assert f"{container}/socket" not in argv and "/run:" not in argv


async def test_a_library_that_a_container_lacks(
    container: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every missing library is named, not only the first."""
    shutil.copy("/bin/true", container / "bin/srun")
    for name in ("liblz4-nowhere.so.1", "libllhttp-nowhere.so.9"):
        subprocess.run(["patchelf", "--add-needed", name, container / "bin/srun"], check=True)
    finding = await in_containers(container, monkeypatch)
    assert finding.level is Level.WARNING
    assert "lack libllhttp-nowhere.so.9, liblz4-nowhere.so.1" in finding.found
    assert "c.PortalSpawner.commands_in_containers" in finding.mend


@pytest.mark.parametrize(
    ("said", "mend"),
    [
        ("/lib/libc.so.6: version `GLIBC_2.38' not found", "This image is too old"),
        ("srun: fatal: Unable to process configuration file", "command-line.md"),
    ],
)
async def test_a_command_that_does_not_run_in_a_container(
    container: Path, monkeypatch: pytest.MonkeyPatch, said: str, mend: str
) -> None:
    srun = container / "bin/srun"
    srun.write_text(f'#!/bin/sh\necho "{said.replace("`", "")}" >&2\nexit 1\n')
    srun.chmod(0o755)
    finding = await in_containers(container, monkeypatch)
    assert finding.level is Level.WARNING and said.replace("`", "") in finding.found
    assert mend in finding.mend


async def test_a_container_that_cannot_be_started_is_told(
    container: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy("/bin/true", container / "bin/srun")
    (container / "apptainer").write_text("#!/bin/sh\necho FATAL: no fuse >&2\nexit 255\n")
    finding = await in_containers(container, monkeypatch)
    assert finding.level is Level.SKIPPED and "FATAL: no fuse" in finding.found


async def test_environments(tmp_path: Path) -> None:
    catalog = tmp_path / "environments"
    config = f"c.EnvironmentCatalog.directory = {str(catalog)!r}\n"
    assert (await asked(environments.files, tmp_path, config)).level is Level.FAILURE
    catalog.mkdir()
    assert (await asked(environments.files, tmp_path, config)).level is Level.WARNING
    image = tmp_path / "one.sif"
    add_container(tmp_path, image)
    assert (await asked(environments.files, tmp_path, config)).level is Level.OK
    finding = await asked(environments.sources, tmp_path, config)
    assert finding.level is Level.WARNING
    assert str(image) in finding.found
    image.write_text("")
    assert (await asked(environments.sources, tmp_path, config)).level is Level.OK
    (catalog / "two.yaml").write_text("name: two\nkind: venv\npath: /x\n")
    finding = await asked(environments.files, tmp_path, config)
    assert finding.level is Level.FAILURE
    assert "two.yaml:1: 'title' is missing" in finding.found


async def test_folder_of_logs(tmp_path: Path) -> None:
    logs = tmp_path / "log"
    config = f"c.PortalSpawner.log_directory = {str(logs)!r}\n"
    assert (await asked(storage.logs, tmp_path, config)).level is Level.FAILURE
    logs.mkdir(mode=0o755)
    finding = await asked(storage.logs, tmp_path, config)
    assert finding.level is Level.FAILURE
    assert f"chmod 0711 {logs}" in finding.mend
    logs.chmod(0o711)
    assert (await asked(storage.logs, tmp_path, config)).level is not Level.FAILURE


async def test_person_without_an_account(tmp_path: Path) -> None:
    finding = await asked(storage.homes, tmp_path, person="nobody-of-this-name")
    assert finding.level is Level.FAILURE


def test_file_system_of_a_path() -> None:
    assert storage.file_system(Path("/proc/self")) == "proc"
    assert storage.file_system(Path("/dev/null")) in ("tmpfs", "devtmpfs", "overlay")


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("[::1]", True), ("localhost", True)]
    + [(host, False) for host in ("", "0.0.0.0", "::", "10.0.0.5", "hub.example.org", "*")],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert access.is_loopback(host) is loopback


# -- the report ---------------------------------------------------------------------------------


def finding_of(level: Level) -> Finding:
    return Finding(id="x", title="A title", level=level, found="what was seen", mend="do this")


def test_report() -> None:
    text = "\n".join(lines(finding_of(Level.FAILURE)))
    assert text == "FAILURE   A title\n          what was seen\n          → do this"
    assert "\033[" in "\n".join(lines(finding_of(Level.OK), colour=True))
    both = [finding_of(Level.OK), finding_of(Level.FAILURE)]
    assert summary(both) == "1 failure, 0 warnings, 1 ok, 0 skipped"
    assert failed(both)
    assert json.loads(as_json(both))["findings"][1]["mend"] == "do this"
    assert json.loads(as_json([finding_of(Level.WARNING)]))["ok"] is True


def test_worst_tells_what_is_not_well() -> None:
    bad = Result(Level.FAILURE, "broken", "mend it")
    fine = Result(Level.OK, "fine")
    assert worst([fine, bad]) == bad
    assert worst([fine, fine]).found == "fine; fine"


async def test_a_check_that_breaks_or_hangs_is_a_finding(tmp_path: Path) -> None:
    import asyncio

    @check("broken", "Broken")
    async def broken(site: Site) -> Result:
        raise RuntimeError("oops")

    @check("hanging", "Hanging")
    async def hanging(site: Site) -> Result:
        await asyncio.sleep(3600)
        raise AssertionError

    assert "oops" in (await asked(broken, tmp_path)).found
    finding = await hanging.run(site_of(tmp_path), 0.1)
    assert finding.level is Level.FAILURE
    assert "no answer" in finding.found


# -- the command --------------------------------------------------------------------------------


def doctor(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return checkout.portal("doctor", *arguments, cwd=directory)


def test_command_in_json(tmp_path: Path) -> None:
    site_of(tmp_path, "print('a configuration file may print')\n")
    done = doctor(tmp_path, "--json", "-f", "jupyterhub_config.py")
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert report["ok"] is False
    by_id = {finding["id"]: finding for finding in report["findings"]}
    assert list(by_id) == [one.id for one in all_checks()]
    assert by_id["hub-config"]["level"] == "ok", by_id["hub-config"]
    assert by_id["ldap"]["level"] == "failure"  # dummy: anyone can be anyone
    assert by_id["slurm"]["level"] == "failure"
    assert by_id["slurm-rights"]["level"] == "skipped"
    for finding in report["findings"]:
        assert "internal error of the check" not in finding["found"], finding
        if finding["level"] in ("failure", "warning"):
            assert finding["mend"], f"no way out is told: {finding}"


def test_command_for_people(tmp_path: Path) -> None:
    site_of(tmp_path)
    done = doctor(tmp_path, "-f", "jupyterhub_config.py", "--only=hub-config", "--only=https")
    assert done.returncode == 0, done.stderr
    assert "ok        The Hub's configuration is valid" in done.stdout
    assert done.stdout.rstrip().endswith("0 failures, 0 warnings, 2 ok, 0 skipped.")


def test_command_does_not_know_a_check(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--only=nothing")
    assert done.returncode == 2
    assert "Unknown check: nothing" in done.stderr


def test_slurm_that_is_not_there(tmp_path: Path) -> None:
    site_of(tmp_path)
    done = doctor(tmp_path, "-f", "jupyterhub_config.py", "--only=slurm", "--only=slurm-gpus")
    assert done.returncode == 1
    assert "FAILURE   Slurm answers\n          '/nowhere/scontrol' could not" in done.stdout
    assert "SlurmRunner.bin_dir" in done.stdout
    assert "skipped   Slurm manages GPUs by type and tracks their use" in done.stdout
