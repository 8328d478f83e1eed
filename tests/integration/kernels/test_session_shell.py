"""The shell of a session's terminals: whose it is, and which programs it finds."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from portal_session.kernels.container import Container
from portal_session.kernels.shell import RC, set_shell, shell_command

SCRIPT = Path(__file__).resolve().parents[3] / "deploy/session.sh"
BASH = ["/usr/bin/bash", "--rcfile", str(RC)]
# As Debian's and Red Hat's have it, read at the start of the test in the place of the machine's.
RESETS = "PATH=/usr/local/bin:/usr/bin:/bin\nexport PATH\nSITE=profile\n"


@pytest.fixture(autouse=True)
def usual_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


@pytest.fixture
def other_shell(tmp_path: Path) -> str:
    shell = tmp_path / "zsh"
    shell.write_text("#!/bin/sh\n")
    shell.chmod(0o755)
    return str(shell)


@pytest.mark.parametrize(
    "shell", ["", "/bin/bash", "/bin/sh", "/usr/sbin/nologin", "/bin/false", "zsh", "/no/such/zsh"]
)
def test_terminals_are_bash_with_the_environments_programs(shell: str) -> None:
    assert shell_command({"SHELL": shell} if shell else {}) == BASH


def test_another_shell_of_the_person_reads_no_login_files(other_shell: str) -> None:
    assert shell_command({"SHELL": other_shell}) == [other_shell]


def test_without_bash_it_is_sh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shell_command({"SHELL": "/bin/bash"}) == ["/bin/sh"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/bin/sh", "/bin/sh"),
        ("", "/usr/bin/bash"),
        ("/no/such/shell", "/usr/bin/bash"),  # of the node, and none of the container's
        ("/bin/false", "/usr/bin/bash"),
    ],
)
def test_the_variable_names_a_shell_that_is_here(before: str, after: str) -> None:
    environ = {"SHELL": before}
    set_shell(environ)
    assert environ["SHELL"] == after


def path_in_terminal(home: Path, path: str, profile: str = RESETS) -> dict[str, str]:
    """PATH and other variables in a terminal of somebody whose home is this folder."""
    file, rc = home / "etc-profile", home / "rc"
    file.write_text(profile)
    rc.write_text(RC.read_text().replace("/etc/profile", str(file)))
    out = subprocess.run(
        ["/usr/bin/bash", "--rcfile", rc, "-i"],
        input='printf \'%s\\n\' "PATH=$PATH" "SITE=$SITE" "LEFT=${!_portal*}" > $HOME/said\n',
        env={"PATH": path, "HOME": str(home)},
        text=True,
        capture_output=True,
        check=True,
        timeout=30,
        start_new_session=True,
    )
    assert "rror" not in out.stderr
    return dict(line.split("=", 1) for line in (home / "said").read_text().splitlines())


@pytest.mark.parametrize(
    ("path", "own", "expected"),
    [
        ("/base/bin:/env/bin:/usr/bin:/bin", "", "/base/bin:/env/bin:/usr/bin:/bin:/usr/local/bin"),
        # The profile has the environment's folder, and too late.
        ("/bin:/usr/bin", "", "/bin:/usr/bin:/usr/local/bin"),
        # The person's own folders stay where the person put them.
        ("/env/bin:/bin", "PATH=~/bin:$PATH", "~/bin:/env/bin:/bin:/usr/local/bin:/usr/bin"),
        # A file of the person's that sets it anew takes nothing of the environment away.
        ("/env/bin:/base/bin:/bin", "PATH=/bin:/opt/x", "/env/bin:/base/bin:/bin:/opt/x"),
        ("/a b/*:/env/bin:/bin", "PATH=/bin", "/a b/*:/env/bin:/bin"),
    ],
)
@pytest.mark.parametrize("name", [".bash_profile", ".profile", ".bashrc"])
def test_the_environments_programs_come_first(
    tmp_path: Path, path: str, own: str, expected: str, name: str
) -> None:
    (tmp_path / name).write_text(own + "\n")
    found = path_in_terminal(tmp_path, path)
    assert found["PATH"] == expected.replace("~", str(tmp_path))
    assert found["SITE"] == "profile" and found["LEFT"] == ""


APPTAINER = 'PS1="Apptainer> "; unset PROMPT_COMMAND'  # as it sets PROMPT_COMMAND
BASH_PROMPT = r"\s-\v\$ "
COLOURED = r"\[\e[32m\]\u@\h\[\e[0m\]:\w\$ "


@pytest.mark.parametrize(
    ("system", "own", "prompt"),
    [
        ("", "", r"ada@gpu01:\w\$ "),  # bash's own
        (r"\h:\w\$ ", "", r"ada@gpu01:\w\$ "),  # Debian's /etc/profile
        (r"[\u@\h \W]\$ ", "", r"[ada@gpu01 \W]\$ "),  # Red Hat's
        ("Apptainer> ", "", r"ada@gpu01:\w\$ "),
        ("", COLOURED, COLOURED.replace(r"\u@\h", "ada@gpu01")),  # Debian's ~/.bashrc
        (r"[\u@\h \W]\$ ", "my own > ", "my own > "),
        ("", r"\h & \u \$ ", r"\h & \u \$ "),
    ],
)
@pytest.mark.parametrize("beside", [False, True])
def test_the_prompt_is_of_the_user_on_the_node(
    tmp_path: Path, system: str, own: str, prompt: str, beside: bool
) -> None:
    variables = {"USER": "ada", "SLURMD_NODENAME": "gpu01.example.org"}
    assert _prompt(tmp_path, system, own, beside, **variables) == prompt


@pytest.mark.parametrize(
    ("variables", "prompt"),
    [
        ({}, r"\u@\h:\w\$ "),
        ({"USER": "$(id)", "SLURMD_NODENAME": "`id`"}, r"\u@\h:\w\$ "),
        ({"USER": "EXAMPLE\\ada", "SLURMD_NODENAME": "gpu01"}, r"\u@gpu01:\w\$ "),
    ],
)
def test_a_name_that_is_none_is_left_to_bash(
    tmp_path: Path, variables: dict[str, str], prompt: str
) -> None:
    assert _prompt(tmp_path, "", "", False, **variables) == prompt


def test_a_command_of_the_user_before_each_prompt_stays(tmp_path: Path) -> None:
    after = '; PROMPT_COMMAND="${PROMPT_COMMAND%%; PROMPT_COMMAND=*}"; PS1="Apptainer> "'
    names = {"USER": "ada", "SLURMD_NODENAME": "gpu01"}
    for command in ("history -a", "history -a" + after):
        said = _prompt(tmp_path, "", "", True, PROMPT_COMMAND=command, **names)
        assert said == r"ada@gpu01:\w\$ "
        assert (tmp_path / "command").read_text() == "history -a\n"


def _prompt(home: Path, system: str, own: str, beside: bool, **variables: str) -> str:
    """PS1 in a terminal, of the server itself or of a container beside it (here: the node)."""
    profile, rc = home / "etc-profile", home / "rc"
    profile.write_text("")
    (home / ".bashrc").write_text(f"PS1='{own or system or BASH_PROMPT}'\n")
    if beside:
        command = Container(("env",), "PORTAL=1", ()).shell()
        command[-1] = command[-1].replace("/dev/fd/9", "/dev/fd/9 -i")  # here is no terminal
    else:
        rc.write_text(RC.read_text().replace("/etc/profile", str(profile)))
        command = ["/usr/bin/bash", "--rcfile", str(rc), "-i"]
    subprocess.run(
        command,
        input='printf %s "$PS1" > $HOME/said\necho "$PROMPT_COMMAND" > $HOME/command\n',
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "PROMPT_COMMAND": APPTAINER,
            **variables,
        },
        text=True,
        capture_output=True,
        check=True,
        timeout=30,
        start_new_session=True,
    )
    return (home / "said").read_text()


@pytest.mark.parametrize(("kind", "prefix"), [("container", "APPTAINERENV_"), ("venv", "")])
def test_a_job_says_who_its_person_is(kind: str, prefix: str) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "PORTAL_KIND": kind}
    account = {"USER": "ada", "LOGNAME": "ada", "SHELL": "/bin/bash"}
    me = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    for given, name in ((account, "ada"), ({}, me)):
        out = subprocess.run(
            ["bash", SCRIPT, "env"],
            env={**env, **given},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        assert {f"{prefix}USER={name}", f"{prefix}LOGNAME={name}"} <= set(out)
        assert not given or f"{prefix}SHELL=/bin/bash" in out


def test_kernels_and_terminals_beside_a_container_know_it_too() -> None:
    container = Container.from_environ({"PORTAL_CONTAINER": json.dumps(
        {"exec": ["apptainer", "exec"], "image": "x.sif", "roots": []}
    )})  # fmt: skip
    assert container is not None
    account = {"USER": "ada", "LOGNAME": "ada", "SHELL": "/usr/bin/zsh"}
    found = container.environment({**os.environ, **account})
    assert found["APPTAINERENV_USER"] == found["APPTAINERENV_LOGNAME"] == "ada"
    assert found["APPTAINERENV_SHELL"] == "/bin/sh"  # which every image has
    words = container.shell()[-1].replace("exec bash", 'printf %s "$SHELL"; :')
    said = subprocess.run(["/bin/sh", "-c", words], capture_output=True, text=True, check=True)
    assert said.stdout == "/usr/bin/bash"
