"""What environments may bind and set: hostile definitions meet the site's lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from traitlets import TraitError
from traitlets.config import Config

from portal.catalog import CatalogRules, EnvironmentCatalog
from portal.models.catalog.environment import Environment
from portal.models.person import Person

BASE: dict[str, Any] = {"name": "one", "title": "One", "kind": "venv", "path": "/opt/one"}


def problems(rules: CatalogRules, **values: Any) -> list[str]:
    return [one.message for one in rules.problems(Environment.model_validate(BASE | values))]


def bound(source: str, target: str | None = None, **settings: Any) -> list[str]:
    binds = [{"source": source, **({"target": target} if target else {})}]
    return problems(CatalogRules(**settings), binds=binds)


@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow", "//etc/shadow", "/etc//shadow", "/etc/./shadow", "/etc/shadow/", "/", "//",
        "/.", "/etc", "/proc", "/proc/1/environ", "/sys", "/root", "/root/.ssh", "/run/docker.sock",
        "/run", "/var", "/var/run/docker.sock", "/etc/ssl/private/key.pem", "/etc/ssl",
        "/etc/munge",
        "/etc/sudoers.d/portal", "/etc/ssh", "/etc/data-scientist-portal/secret",
    ],
)  # fmt: skip
def test_some_places_are_never_bound_whatever_is_allowed(path: str) -> None:
    for allowed in (["/"], ["/etc", "/proc", "/root", "/run", "/var", "/sys"], [path]):
        assert "may never be bound" in bound(path, allowed_binds=allowed)[0]


@pytest.mark.parametrize("path", ["/data/../etc/shadow", "/data/..", "/../etc"])
def test_steps_upwards_are_refused_by_the_model_already(path: str) -> None:
    with pytest.raises(ValueError, match="may not contain"):
        bound(path)


@pytest.mark.parametrize(
    "path", ["/data", "/data/", "//data", "/data/x/y", "/scratch/ada", "/etc/ssl/certs/ca.crt"]
)
def test_what_lies_below_a_prefix_is_allowed(path: str) -> None:
    assert not bound(path)


@pytest.mark.parametrize("path", ["/database", "/dat", "/home/ada", "/opt", "/var/tmp", "/data2"])
def test_all_else_is_not(path: str) -> None:
    [message] = bound(path)
    assert message.startswith(f"'binds.0.source': this site does not allow {path} ")
    assert not bound(path, allowed_binds=["/"])  # a site may turn it round


@pytest.mark.parametrize("target", ["/", "//", "/proc", "/proc/self", "/dev/shm", "/sys/fs"])
def test_nothing_is_laid_over_the_container_itself(target: str) -> None:
    assert "may not cover" in bound("/data", target)[0]
    assert not bound("/data", "/mnt/data")


def test_variables_are_from_the_list() -> None:
    rules = CatalogRules(allowed_variables=["NCCL_*", "TZ"])
    assert not problems(rules, variables={"NCCL_DEBUG": "x", "TZ": "UTC"})
    found = problems(rules, variables={"TZX": "x", "nccl_debug": "x", "BASH_ENV": "/x"})
    assert [message.split("'")[1] for message in found] == [
        "variables.TZX", "variables.nccl_debug", "variables.BASH_ENV",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PATH", "HOME", "SLURM_X", "JUPYTERHUB_API_TOKEN"])
def test_variables_of_the_session_stay_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is set by the portal"):
        problems(CatalogRules(allowed_variables=["*"]), variables={name: "x"})


@pytest.mark.parametrize(
    "name", ["PYTHONPATH", "PYTHONSTARTUP", "BASH_ENV", "ENV", "IFS", "NODE_OPTIONS"]
)
def test_variables_that_load_code_are_not_in_the_list_of_a_new_site(name: str) -> None:
    assert problems(CatalogRules(), variables={name: "x"})


def test_icons_and_descriptions() -> None:
    """The length of a description is limited by the environment itself (test_curating.py)."""
    rules = CatalogRules(icons=["r"])
    assert not problems(rules, icon="r", description="12345")
    assert len(problems(rules, icon="pytorch", description="123456")) == 1
    assert not problems(CatalogRules(), icon="anything")


@pytest.mark.parametrize("path", ["data", "", "/data/../etc"])
def test_a_wrong_setting_is_told_at_once(path: str) -> None:
    with pytest.raises(TraitError, match="allowed_binds"):
        CatalogRules(allowed_binds=[path])


@pytest.mark.parametrize("name", ["validate", "test-all"])
def test_names_of_the_apis_own_addresses_are_refused(name: str) -> None:
    assert "'name'" in problems(CatalogRules(), name=name)[0]


def test_who_may_register() -> None:
    ada, eve = Person(name="ada", groups=("a",)), Person(name="eve")
    for setting, may in (("off", ""), ("groups", "ada"), ("on", "ada eve")):
        rules = CatalogRules(own_environments=setting, own_groups=["a"])
        assert [p.name for p in (ada, eve) if rules.may_register(p)] == may.split()


async def test_a_file_that_breaks_a_rule_is_an_error_with_its_line(tmp_path: Path) -> None:
    text = "name: one\ntitle: One\nkind: venv\npath: /opt/one\n"
    (tmp_path / "one.yaml").write_text(
        f"{text}binds:\n  - source: /data\n  - source: /etc/shadow\nvariables:\n  BASH_ENV: /x\n"
    )
    (tmp_path / "two.yaml").write_text(text.replace("one", "two") + "variables: {SITE_X: y}\n")
    config = Config()
    config.CatalogRules.allowed_variables = ["SITE_*"]
    config.EnvironmentCatalog.directory = str(tmp_path)
    catalog = EnvironmentCatalog(config=config)
    await catalog.load()
    assert list(catalog.environments) == ["two"]
    assert [(e.file, e.line, e.field) for e in catalog.errors] == [
        ("one.yaml", 7, "binds.1.source"),
        ("one.yaml", 9, "variables.BASH_ENV"),
    ]
