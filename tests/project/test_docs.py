"""What the documents say is checked against the tree: links, paths, commands, settings, files."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from jupyterhub.app import JupyterHub
from looks import BANNED
from traitlets.config import Application, Config, Configurable
from traitlets.config.loader import PyFileConfigLoader

import portal
import spawners
from docs import reference
from portal.__main__ import PortalCommand
from portal.catalog import EnvironmentCatalog
from portal.catalog.definitions.document import read_document
from portal.courses.definition.document import read_course
from portal.directory import LDAPAuthenticator
from portal.doctor.checks import all_checks
from portal.launch.request import option_keys
from portal.models.catalog.environment import Environment
from portal.projects.elsewhere.document import read_project
from portal.setup.answers import QUESTIONS
from portal.slurm import SlurmRunner
from portal.work.endpoint.catalog.files import read_model
from portal.work.endpoint.catalog.model import CatalogModel
from spawners.spawner import PortalSpawner

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")],
    key=lambda path: str(path.relative_to(ROOT)),
)
HAND_WRITTEN = [path for path in PAGES if path != reference.TARGET]
each_page = pytest.mark.parametrize("path", HAND_WRITTEN, ids=lambda p: str(p.relative_to(ROOT)))

# Folders of the repository: what stands in backticks and starts with one is a path in it.
FOLDERS = (
    "portal/",
    "spawners/",
    "kernels/",
    "templates/",
    "static/",
    "deploy/",
    "docs/",
    "tests/",
)
ROLES_ANSWERS = "data_scientist_portal_answers"  # deploy/ansible


def blocks(path: Path, language: str) -> list[str]:
    """The fenced code blocks of a language, with the indentation of a list taken off."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", path.read_text(), re.M | re.S)
    return [re.sub(rf"^{indent}", "", text, flags=re.M) for indent, text in found]


def code(path: Path) -> list[str]:
    """Everything that stands between single backticks, and the lines of console blocks."""
    text = re.sub(r"^ *```.*?^ *```$", "", path.read_text(), flags=re.M | re.S)
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]
    return spans + [line for block in blocks(path, "console") for line in block.splitlines()]


def test_there_are_documents() -> None:
    assert len(PAGES) >= 10


@each_page
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
        if "://" in target or "example.org" in target:
            continue
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_documents_say_no_banned_phrase(path: Path) -> None:
    text = " ".join(path.read_text().lower().split())
    if path.name == "CONTRIBUTING.md":  # its list of words has them
        text = text.partition("### words")[0]
    assert [phrase for phrase in BANNED if phrase in text] == []


@each_page
def test_paths_exist(path: Path) -> None:
    for span in code(path):
        for word in span.split():
            word = word.strip(".,;:'\"()")
            if not word.startswith(FOLDERS) or re.search(r"[<>{}$]", word):
                continue
            file, _, test = word.partition("::")
            if any(char in file for char in "*["):
                assert list(ROOT.glob(file)), f"{path.name} names {word}"
            else:
                assert (ROOT / file).exists(), f"{path.name} names {word}"
            if test:
                assert f"def {test}(" in (ROOT / file).read_text(), f"{path.name} names {word}"


@each_page
def test_make_targets_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    for span in code(path):
        for target in re.findall(r"(?:^|[ =])make ([a-z]+)", span):
            assert target in targets, f"{path.name} names make {target}"


@each_page
def test_commands_of_portal_exist(path: Path) -> None:
    for span in code(path):
        for name, rest in re.findall(
            r"(?:^|/bin/)portal ([a-z]+)((?: -[^ ]+(?: [^ -][^ ]*)?)*)", span
        ):
            assert name in PortalCommand.subcommands, f"{path.name} names portal {name}"
            module, _, kind = PortalCommand.subcommands[name][0].rpartition(".")
            app = getattr(importlib.import_module(module), kind)
            for option in re.findall(r" --?([a-z][a-z-]*)", rest):
                known = set(app.aliases) | set(app.flags) | {"help"}
                if hasattr(app, "parser"):  # its options are no settings
                    known = set(re.findall(r" --([a-z-]+)", app.parser().format_help()))
                assert option in known, f"{path.name} names portal {name} --{option}"


@each_page
def test_settings_exist(path: Path) -> None:
    known = {kind.__name__: set(kind.class_trait_names(config=True)) for kind in every_class()}
    for kind in reference.classes():  # PortalSpawner takes over settings of its parents
        known[kind.__name__] = set(kind.class_trait_names(config=True))
    for name, trait in re.findall(r"\bc\.([A-Z]\w+)\.(\w+)", path.read_text()):
        if name not in known:
            assert name in ("JupyterHub", "Proxy", "ConfigurableHTTPProxy", "Authenticator"), name
            continue
        assert trait in known[name], f"{path.name} names c.{name}.{trait}"


@each_page
def test_python_is_python(path: Path) -> None:
    for block in blocks(path, "python"):
        ast.parse(block)


def test_the_sites_configuration_is_accepted(tmp_path: Path) -> None:
    """The Hub takes it, and so do the classes that it configures."""
    config = Config()
    for number, block in enumerate(blocks(ROOT / "docs/how-to/existing-cluster.md", "python")):
        whole = block if "get_config()" in block else f"c = get_config()\n{block}"
        (tmp_path / f"part{number}.py").write_text(whole)
        config.merge(PyFileConfigLoader(f"part{number}.py", str(tmp_path)).load_config())
    # The name "portal" is an entry point, which only an installed portal has.
    config.JupyterHub.spawner_class = "spawners.spawner.PortalSpawner"
    config.JupyterHub.authenticator_class = "portal.directory.LDAPAuthenticator"
    app = JupyterHub(config=config)
    assert app.spawner_class.__name__ == "PortalSpawner"
    assert {one["name"] for one in app.services} == {"portal"}
    for kind in (EnvironmentCatalog, SlurmRunner, PortalSpawner):
        kind(config=config)
    if config.LDAPAuthenticator.get("servers"):
        password = tmp_path / "ldap-password"
        password.write_text("secret")
        config.LDAPAuthenticator.search_password_file = str(password)
        LDAPAuthenticator(config=config)


def test_the_configuration_of_openid_connect_is_accepted(tmp_path: Path) -> None:
    whole, beside, other = blocks(ROOT / "docs/how-to/oidc.md", "python")
    (tmp_path / "oidc.py").write_text(f"c = get_config()\n{whole}")
    config = PyFileConfigLoader("oidc.py", str(tmp_path)).load_config()
    assert config.JupyterHub.authenticator_class == "portal-oidc"
    config.JupyterHub.authenticator_class = "portal.directory.oidc.OIDCAuthenticator"
    authenticator = JupyterHub(config=config).authenticator_class(config=config)
    for name, value in config.OIDCAuthenticator.items():
        assert getattr(authenticator, name) == value, name
    assert authenticator.manage_groups and authenticator.refresh_pre_spawn
    (tmp_path / "beside.py").write_text(f"c = get_config()\n{beside}")
    assert PyFileConfigLoader("beside.py", str(tmp_path)).load_config().LDAPAuthenticator.servers
    (tmp_path / "other.py").write_text(f"c = get_config()\n{other}")
    kind = (
        PyFileConfigLoader("other.py", str(tmp_path)).load_config().JupyterHub.authenticator_class
    )
    assert [one.__name__ for one in kind.__mro__[1:3]] == ["OAuthLogin", "CourseLogin"]
    assert kind().login_service == "GitHub"


@each_page
def test_files_of_environments_courses_and_projects_load(path: Path) -> None:
    for block in blocks(path, "yaml"):
        if block.startswith("course:"):
            read_course(block.encode(), path.name)
        elif block.startswith("format:"):
            read_project(block)
        elif "log_directory:" in block:  # of setup, in a playbook or as they are
            data = read_document(block.encode().replace(b"- hosts", b"plays:\n- hosts")).data
            plays = data.get("plays", [{"roles": [{"vars": {ROLES_ANSWERS: data}}]}])
            for key, value in plays[0]["roles"][0]["vars"][ROLES_ANSWERS].items():
                QUESTIONS[key].read(value)
        elif "command:" in block and "example:" in block:
            assert read_model(block.encode(), path.name)[1] == ()
        else:
            Environment.model_validate(read_document(block.encode()).data)


def test_every_key_of_an_environment_is_described() -> None:
    text = (ROOT / "docs/how-to/add-an-environment.md").read_text()
    table = set(re.findall(r"`(\w+)`", text[text.index("## The keys") :]))
    assert set(Environment.model_fields) <= table


def test_every_option_of_a_session_is_described() -> None:
    text = (ROOT / "docs/reference/rest-api.md").read_text()
    assert set(option_keys()) <= set(re.findall(r"`(\w+)`", text))


def test_documents_that_checks_name_exist() -> None:
    for one in all_checks():
        source = inspect.getsource(inspect.getmodule(one.function))
        for name in re.findall(r"\b(?:docs|deploy)/[\w./-]+\w", source):
            assert (ROOT / name).exists(), f"check {one.id} names {name}"


# -- the reference ------------------------------------------------------------------------------


def every_class() -> list[type[Configurable]]:
    """Every class of the portal that can be configured."""
    found = {}
    for package in (portal, spawners):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if module.name.endswith("__main__"):
                continue
            for value in vars(importlib.import_module(module.name)).values():
                if inspect.isclass(value) and issubclass(value, Configurable):
                    found[value.__qualname__] = value
    ours = ("portal", "spawners")
    return [kind for kind in found.values() if kind.__module__.split(".")[0] in ours]


def test_reference_is_up_to_date() -> None:
    assert reference.TARGET.read_text() == reference.page(), "run `make docs`"


def test_reference_leaves_no_class_out() -> None:
    told = {trait for kind in reference.classes() for trait in reference.settings(kind).values()}
    for kind in every_class():
        for name, trait in reference.settings(kind).items():
            assert any(trait.this_class is one.this_class and name == one.name for one in told), (
                f"{kind.__name__}.{name} is in no class of docs/reference.py"
            )


def test_there_are_no_more_settings_than_sites_turn() -> None:
    """Pauses, ages of caches and sizes of batches are constants, or arguments of constructors. A
    setting beyond these is one that a site has asked for."""
    numbers = {kind.__name__: len(reference.settings(kind)) for kind in reference.classes()}
    assert sum(numbers.values()) <= 218, numbers
    commands = {kind.__name__ for kind in reference.classes() if issubclass(kind, Application)}
    options = sum(numbers[name] for name in commands - {"PortalService"})
    assert sum(numbers.values()) - options <= 188, "settings of a site, without commands' options"


def test_every_setting_has_help() -> None:
    for kind in reference.classes():
        for name, trait in reference.settings(kind).items():
            assert trait.help.strip(), f"{kind.__name__}.{name} has no help"


# -- the units ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted((ROOT / "deploy/systemd").glob("*.service")), ids=str)
def test_units(path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    for section in ("[Unit]", "[Service]"):
        assert section in text
    assert "[Install]" in text or path.with_suffix(".timer").exists()
    assert "User=portal" in text or "DynamicUser=yes" in text  # never root
    assert "EnvironmentFile=" in text or "LoadCredential=" in text
    assert "TOKEN=$" not in text
    for link in re.findall(
        r"^Documentation=file:///opt/data-scientist-portal/src/(.*)$", text, re.M
    ):
        assert (ROOT / link).exists()
    tool = shutil.which("systemd-analyze")
    if tool:
        # The programs and the account are a site's; everything else is verified.
        text = re.sub(r"^ExecStart=/opt/\S*", "ExecStart=/bin/true", text, flags=re.M)
        text = re.sub(r"^(User|Group)=portal$", r"\1=root", text, flags=re.M)
        copy = tmp_path / path.name
        copy.write_text(re.sub(r"^(Wants|After)=.*$", "", text, flags=re.M))
        if (own := path.with_suffix(".socket")).exists():
            shutil.copy(own, tmp_path)
        done = subprocess.run(
            [tool, "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert path.name not in done.stderr, done.stderr


def test_the_hubs_unit_leaves_sudo_working() -> None:
    """These imply NoNewPrivileges for a unit with User= (systemd.exec(5)), which forbids sudo."""
    text = (ROOT / "deploy/systemd/data-scientist-portal.service").read_text()
    forbidden = (
        "SystemCallFilter SystemCallArchitectures RestrictAddressFamilies RestrictNamespaces "
        "PrivateDevices ProtectKernelTunables ProtectKernelModules ProtectKernelLogs ProtectClock "
        "MemoryDenyWriteExecute RestrictRealtime RestrictSUIDSGID DynamicUser LockPersonality "
        "ProtectHostname"
    )
    for name in forbidden.split():
        assert not re.search(rf"^{name}=", text, re.M), name


def test_every_key_of_a_model_is_described() -> None:
    text = (ROOT / "docs/how-to/endpoints.md").read_text()
    table = set(re.findall(r"`(\w+)`", text[text.index("## The catalog of models") :]))
    assert set(CatalogModel.model_fields) <= table


def test_every_check_and_alert_is_on_the_page_of_operators() -> None:
    page = (ROOT / "docs/how-to/operate.md").read_text()
    rows = re.findall(r"^\| (`[^|]+`) \|", page, re.M)
    listed = [name for row in rows for name in re.findall(r"`([a-z-]+)`", row)]
    assert sorted(listed) == sorted(check.id for check in all_checks())
    headings = {line.lower().replace(" ", "-") for line in re.findall(r"^### (.+)$", page, re.M)}
    rules = (ROOT / "deploy/prometheus/alerts.yml").read_text()
    runbooks = set(re.findall(r"operate\.md#([a-z-]+)", rules))
    assert headings == runbooks and len(runbooks) == rules.count("- alert:")
