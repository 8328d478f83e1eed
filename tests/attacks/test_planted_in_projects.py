"""Files that a member of a project puts into its folder: none of them runs in another member's
session before a cell asks for it, neither when the server starts nor when a kernel does."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from portal_session.kernels.shared_folder import without_shared_files
from session_server import PATIENCE, SessionServer, a_server, make_python, wait_for

# What Python, IPython, Jupyter, R and git look for by themselves, or import while they start.
MODULES = (
    "ipykernel_launcher", "ipykernel", "runpy", "pkgutil", "importlib", "random", "json", "site",
    "sitecustomize", "usercustomize", "traitlets", "zmq", "IPython", "jedi", "psutil", "debugpy",
    "matplotlib_inline", "comm", "portal_session", "numpy",
)  # fmt: skip
PYTHON = "open({ran!r}, 'a').write({name!r} + ' ')\n"
R = 'cat("{name} ", file = "{ran}", append = TRUE)\n'
SHELL = "#!/bin/sh\nprintf '{name} ' >> '{ran}'\n"


def plant(folder: Path, ran: Path) -> None:
    """Put everything there that somebody could hope for; it notes that it ran."""
    files = {f"{module}.py": PYTHON for module in MODULES}
    files |= {
        ".ipython/profile_default/startup/00.py": PYTHON,
        ".ipython/profile_default/ipython_config.py": PYTHON,
        "ipython_config.py": PYTHON,
        "ipython_kernel_config.py": PYTHON,
        "jupyter_server_config.py": PYTHON,
        "jupyter_config.py": PYTHON,
        ".jupyter/jupyter_server_config.py": PYTHON,
        ".Rprofile": R,
        ".git/hooks/post-checkout": SHELL,
        ".git/hooks/pre-commit": SHELL,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(name=name, ran=str(ran)))
        path.chmod(0o755)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git" / "config").write_text(f"[core]\n fsmonitor = touch {ran}\n")
    for place in ("kernels", "share/jupyter/kernels", ".local/share/jupyter/kernels"):
        spec = folder / place / "planted"
        spec.mkdir(parents=True)
        argv = ["touch", str(ran), "{connection_file}"]
        about = {"argv": argv, "display_name": "Planted", "language": "python"}
        (spec / "kernel.json").write_text(json.dumps(about))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionServer]:
    python = make_python(tmp_path_factory.mktemp("planted") / "venv")
    variables = {"PORTAL_PROJECT": "proteins", "PORTAL_PROJECT_ROLE": "member"}
    with a_server(python, **variables) as running:
        yield running


@pytest.fixture
def folder(server: SessionServer) -> Path:
    made = server.home / "project"
    made.mkdir(exist_ok=True)
    return made


def start(server: SessionServer, folder: Path, name: str) -> BlockingKernelClient:
    """Start the kernel of a notebook in the folder; return a client that it has answered."""
    path = f"{folder.name}/{name}.ipynb"
    body = {"path": path, "name": "n", "type": "notebook", "kernel": {"name": name}}
    answer = server.client.post("api/sessions", json=body)
    assert answer.status_code == 201, answer.text
    (file,) = server.home.rglob(f"kernel-{answer.json()['kernel']['id']}.json")
    client = BlockingKernelClient(connection_file=str(file))
    client.load_connection_file()
    client.start_channels()
    wait_for(lambda: ready(client), server.log.read_text)
    return client


def ready(client: BlockingKernelClient) -> bool:
    try:
        client.wait_for_ready(timeout=PATIENCE)
    except RuntimeError:  # "died": its heart does not beat yet
        return False
    return True


def printed(client: BlockingKernelClient, code: str) -> str:
    """What a cell prints."""
    text = ""

    def take(message: dict[str, Any]) -> None:
        nonlocal text
        text += message["content"].get("text", "")

    reply = client.execute_interactive(code, timeout=PATIENCE, output_hook=take)
    assert reply["content"]["status"] == "ok", reply["content"]
    return text


def test_nothing_in_the_folder_runs_before_a_cell_asks_for_it(
    server: SessionServer, folder: Path
) -> None:
    ran = server.home / "ran"
    plant(folder, ran)
    specs = server.client.get("api/kernelspecs").json()["kernelspecs"]
    assert "planted" not in specs and "python3" in specs
    assert server.client.get(f"api/contents/{folder.name}").status_code == 200
    client = start(server, folder, "python3")
    try:
        where = printed(client, "import os; print(os.getcwd())")
        assert Path(where.strip()) == folder
        client.complete("impo", reply=True, timeout=PATIENCE)
        client.inspect("print", reply=True, timeout=PATIENCE)
        printed(client, _SHOWN)
        assert not ran.exists(), ran.read_text()
        # A cell that asks for a file of the folder gets it, as everywhere.
        (folder / "helper.py").write_text("NAMED = 'helper'\n")
        assert printed(client, "import helper; print(helper.NAMED)").strip() == "helper"
        # A program that a cell starts finds what is beside it, too.
        (folder / "program.py").write_text("import helper; print(helper.NAMED)\n")
        assert "helper" in printed(client, "!python3 program.py")
    finally:
        client.stop_channels()


# The traceback of an error is printed without failing the cell.
_SHOWN = """
try:
    1 / 0
except ZeroDivisionError:
    get_ipython().showtraceback()
"""


def test_r_reads_no_profile_and_no_workspace_of_the_folder(
    server: SessionServer, folder: Path
) -> None:
    if "ir" not in server.client.get("api/kernelspecs").json()["kernelspecs"]:
        pytest.skip("There is no R here.")
    ran = server.home / "ran-r"
    (folder / ".Rprofile").write_text(R.format(name="profile", ran=str(ran)))
    client = start(server, folder, "ir")
    try:
        assert folder.name in printed(client, "cat(getwd())")
        assert not ran.exists(), ran.read_text()
    finally:
        client.stop_channels()


@pytest.mark.parametrize(
    ("language", "argv", "expected", "added"),
    [
        ("python", ["python", "-c", "x"], ["python", "-c", "x"], ()),
        ("python", ["python", "-m", "other"], ["python", "-m", "other"], ()),
        ("bash", ["bash", "-m"], ["bash", "-m"], ()),
        ("julia", [], [], ()),
        (
            "R",
            ["/usr/bin/R", "--slave", "-e", "IRkernel::main()"],
            ["/usr/bin/R", "--no-restore-data", "--slave", "-e", "IRkernel::main()"],
            ("R_PROFILE_USER", "R_ENVIRON_USER"),
        ),
    ],
)
def test_other_kernels_start_as_they_are(
    language: str, argv: list[str], expected: list[str], added: tuple[str, ...]
) -> None:
    env = {"HOME": "/home/ada"}
    assert without_shared_files(language, argv, env) == (expected, added)
    for name in added:
        assert os.path.dirname(env[name]) == "/home/ada"  # noqa: PTH120
    kept = {"R_PROFILE_USER": "/site/profile", "R_ENVIRON_USER": "/site/environ"}
    assert without_shared_files(language, argv, kept)[1] == ()


def test_python_keeps_its_options() -> None:
    argv = ["python3", "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "c.json"]
    command, added = without_shared_files("python", argv, {})
    assert command[:3] == ["python3", "-Xfrozen_modules=off", "-c"] and added == ()
    assert "'ipykernel_launcher'" in command[3] and command[4:] == ["-f", "c.json"]
