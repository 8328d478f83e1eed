"""Answers: checked where they come in, with a sentence that names the key."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from traitlets.config.loader import PyFileConfigLoader

from portal.catalog.definitions.document import read_document
from portal.errors import InvalidRequest
from portal.setup import contents, quoting
from portal.setup.answers import QUESTIONS, as_file, complete, read_answers
from portal.setup.asking import agreed, ask_missing

LEAST = {
    "users_group": "portal-users",
    "hub_address": "10.0.0.5",
    "log_directory": "/shared/portal/log",
    "ldap_servers": ["ldaps://ldap.example.org"],
    "ldap_people_base": "ou=people,dc=example,dc=org",
    "ldap_bind_dn": "cn=portal,dc=example,dc=org",
}
HOSTILE = [
    'x"; import os #',
    "x\nALL ALL=(ALL) NOPASSWD: ALL",
    "x\r\ny: z",
    "$(id)",
    "`id`",
    "{ }",
    "'; --",
    "\\",
    "%root",
    "ALL",
    "!x",
    "a,b:c=d",
    "../../etc/shadow",
    "/a/../b",
    "\u2028",
    "\x00",
    "x" * 70000,
    ["x"],
    {"a": 1},
    7,
    True,
    3.5,
]


def test_a_file_of_what_was_found_is_read_as_it_was_found(tmp_path: Path) -> None:
    found = {**LEAST, "binds": ["/data:ro"], "ldap_bind_dn": "cn=a\\,b 'c',dc=x", "operator": True}
    file = tmp_path / "answers.yaml"
    file.write_text(as_file(found))
    read = read_answers(file)
    assert {key: read[key] for key in found} == found
    assert set(read) <= set(QUESTIONS)


@pytest.mark.parametrize(
    ("text", r"words"),
    [
        ("users_grup: x\n", r"'users_grup' is unknown"),
        ("account: Root User\n", r"account: 'Root User' is not an account's name"),
        ("account: [portal]\n", r"account: a text is needed"),
        ("hub_address: 127.0.0.1\n", r"hub_address: 127.0.0.1 is an address that no node reaches"),
        ("hub_address: -x.org\n", r"hub_address: '-x.org' is not a host name"),
        ("log_directory: shared/log\n", r"log_directory: 'shared/log' is not an absolute path"),
        ('log_directory: "/a\\nb"\n', r"log_directory: .* has a line break"),
        ("log_directory: /a/../b\n", r"log_directory: '/a/\.\./b' must not contain '\.\.'"),
        ("ldap_servers: [http://x]\n", r"ldap_servers: 'http://x' is not of the form ldaps://"),
        ("ldap_servers: []\n", r"ldap_servers: at least one is needed"),
        ("ldap_people_base: people\n", r"ldap_people_base: 'people' is not a name such as ou="),
        ("ldap_bind_names: [ada]\n", r"ldap_bind_names: 'ada' must contain {username} once"),
        ("operator: maybe\n", r"operator: yes or no is needed, not 'maybe'"),
        ("ports: [8000, 8000, 8081, 8010]\n", r"ports: 4 different values are needed"),
        ("ports: [0, 1, 2, 3]\n", r"ports: '0' is not a port"),
        ("https: iis\n", r"https: 'iis' is not one of none, nginx, apache, caddy"),
        ("- x\n", r"line 1: the file must contain 'key: value' lines"),
        ("account: &a portal\n", r"line 1: "),
    ],
)
def test_a_wrong_answer_is_named(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "answers.yaml"
    file.write_text(text)
    with pytest.raises(InvalidRequest, match=words):
        read_answers(file)


@pytest.mark.parametrize("key", [key for key in LEAST if key != "ldap_bind_dn"])
def test_a_missing_answer_is_named(key: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{key} is missing: "):
        complete({name: value for name, value in LEAST.items() if name != key}, {})


def test_answers_that_do_not_fit() -> None:
    with pytest.raises(InvalidRequest, match=r"^certificate is missing: nginx needs it"):
        complete({**LEAST, "https": "nginx", "host_name": "portal.example.org"}, {})
    with pytest.raises(InvalidRequest, match=r"^ldap_bind_dn is missing"):
        complete({**LEAST, "ldap_bind_dn": ""}, {})
    with pytest.raises(InvalidRequest, match=r"^account: the Hub needs an account of its own"):
        complete({**LEAST, "account": "ada", "test_user": "ada"}, {})
    with pytest.raises(InvalidRequest, match=r"^account: the Hub needs an account of its own"):
        complete({**LEAST, "account": "root"}, {})


@pytest.mark.parametrize("key", QUESTIONS)
@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: ascii(value)[:20])
def test_hostile_answers_are_refused_or_quoted(key: str, value: Any, tmp_path: Path) -> None:
    """Whatever passes is the same value again when the file that it stands in is read."""
    question = QUESTIONS[key]
    try:
        read = question.read(value)
        answers = complete({**LEAST, key: read}, {})
    except InvalidRequest as error:
        assert key in error.message or error.field == key
        assert len(error.message.splitlines()) == 1
        return
    texts = [read] if isinstance(read, str) else read if isinstance(read, list) else []
    assert all(text.isprintable() for text in texts)
    if answers["https"] != "none":
        return
    file = tmp_path / "jupyterhub_config.py"
    file.write_text(contents.configuration(answers))
    names = {
        node.id for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Name)
    }
    assert names <= {"c", "os", "get_config", "load_subconfig", "str", "data_path", "set", "sorted",
                     "Path", "_file"}  # fmt: skip
    config = loaded(file)
    assert config.LDAPAuthenticator.people_base == answers["ldap_people_base"]
    assert config.LDAPAuthenticator.get("admin_groups", set()) == set(answers["admin_groups"])
    assert config.PortalSpawner.log_directory == answers["log_directory"]
    rules = [line for line in contents.sudoers(answers).splitlines() if line[:1].isalpha()]
    assert len(rules) == 6 + bool(answers["slurm_conf"])  # no line more than the rule has
    assert len(contents.slurm_env(answers).splitlines()) == 1
    if answers["environment"]:
        _, text = contents.environment(answers["environment"])
        data = read_document(text.encode()).data
        assert data.get("image", data.get("path")) == answers["environment"]


def loaded(file: Path) -> Any:
    """The settings of a written file alone, without the portal's that it loads."""
    text = file.read_text()
    lines = [line for line in text.splitlines() if "load_subconfig" not in line]
    file.write_text("\n".join(lines).replace("(_file)", "pass") + "\n    pass\n")
    return PyFileConfigLoader(file.name, str(file.parent)).load_config()


@pytest.mark.parametrize("value", ["a$b", "${x}", "{env.X}", "a'b", 'a"b', "a\\b", "a\nb", "a%b"])
def test_what_a_web_server_cannot_hold_is_refused(value: str) -> None:
    with pytest.raises(InvalidRequest, match="web server's configuration cannot hold"):
        quoting.server(value)


def test_a_terminal_that_ends() -> None:
    def ended(words: str) -> str:
        raise EOFError

    with pytest.raises(InvalidRequest, match="Add --yes"):
        agreed("Make these 3 changes?", ended)
    with pytest.raises(InvalidRequest, match="is not answered"):
        ask_missing({}, {}, ended)


def test_only_what_was_not_found_is_asked() -> None:
    asked: list[str] = []
    typed = {"Address": ["127.0.0.1", "10.0.0.7"], "LDAP groups of": [""], "HTTPS": ["none"]}

    def read(words: str) -> str:
        asked.append(words)
        for start, lines in typed.items():
            if start in words and lines:
                return lines.pop(0)
        return ""

    found = {key: value for key, value in LEAST.items() if key != "hub_address"}
    answers = complete(ask_missing({"log_directory": "/x"}, found, read), found)
    assert answers["hub_address"] == "10.0.0.7"  # asked again after a wrong one
    assert answers["log_directory"] == "/x"
    assert answers["users_group"] == "portal-users"
    assert not any("Folder for job logs" in words or "password" in words for words in asked)
    assert any("Unix group" in words and "[portal-users]" in words for words in asked)


def test_units_start_programs_of_any_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """What systemd replaces in a command line's first word is escaped: its "%", but no "$"."""
    answers = complete(LEAST, {})
    for prefix, word in (
        ("/opt/portal", "/opt/portal/bin/jupyterhub"),
        ("/opt/my portal", '"/opt/my portal/bin/jupyterhub"'),
        ("/opt/5% of $HOME", '"/opt/5%% of $HOME/bin/jupyterhub"'),
    ):
        monkeypatch.setattr("sys.prefix", prefix)
        text = contents.unit("data-scientist-portal.service", answers)
        assert f"\nExecStart={word} -f /etc/" in text
