"""``%%gpu`` in a real kernel, with the real relay, starter and broker; only Slurm is played."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from job_kernel_site import Notebook, Session, job_kernel_session
from machine import patience
from portal_session.job_kernels import broker
from portal_session.job_kernels import record as records


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session without GPUs."""
    yield from job_kernel_session(tmp_path_factory)


@pytest.fixture(scope="module")
def notebook(session: Session) -> Iterator[Notebook]:
    """A notebook's kernel, for all tests here."""
    notebook = Notebook(session.environ)
    yield notebook
    notebook.close()


def _until(what: str, holds: Any, seconds: float = 20) -> None:
    deadline = time.monotonic() + patience(seconds)
    while not holds():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)


def test_nothing_is_left_in_the_namespace(notebook: Notebook) -> None:
    code = "print([name for name in dir() if 'portal' in name], '__file__' in globals())"
    assert notebook.good(code).printed == "[] False\n"
    names = "import os; print([n for n in os.environ if n.endswith('PYTHONSTARTUP')])"
    assert notebook.good(names).printed == "[]\n"


def test_a_cell_runs_in_the_job(session: Session, notebook: Notebook) -> None:
    ran = notebook.good(
        "%%gpu\nimport os, sys\nprint(os.environ['CUDA_VISIBLE_DEVICES'])\n"
        "print('careful', file=sys.stderr)\nx = 20\nx + 1"
    )
    assert (ran.printed, ran.warned) == ("7\n", "careful\n")
    assert ran.shown[0]["text/plain"].startswith("Requesting 1 \N{MULTIPLICATION SIGN} T4")
    assert ran.shown[-2]["text/plain"] == "1 \N{MULTIPLICATION SIGN} T4 on gpu01, job 12."
    assert ran.shown[-1] == {"kind": "execute_result", "text/plain": "21"}
    assert session.jobs.asked[-1]["kernel"] == "python3"
    # The kernel is warm: what it has stays, and nothing waits.
    ran = notebook.good("%%gpu\nprint(x)")
    assert (ran.printed, ran.shown) == ("20\n", [])
    assert session.jobs.living == 1
    assert "on gpu01, job 12. It is given back in" in notebook.good("%gpu status").printed
    assert notebook.bad("print(x)").error.startswith("NameError")


def test_variables_go_over_and_come_back(notebook: Notebook) -> None:
    notebook.good("import numpy as np\na = np.arange(6.0).reshape(2, 3).T\nb = {'c': [1, None]}")
    notebook.good("%%gpu --in a,b --out a2,b2,d\na2 = 2 * a\nb2 = [b, 1]\nd = {1, 2}\na[0] = 0")
    assert notebook.good("print((a2 == 2 * a).all(), a2.flags.writeable, b2, d)").printed == (
        "True True [{'c': [1, None]}, 1] {1, 2}\n"
    )


def test_variables_that_cannot_go(session: Session, notebook: Notebook) -> None:
    notebook.good(
        "big = np.zeros(257 * 2**20, 'uint8')\ndef f(): pass\nclass Net: pass\nnet = Net()"
    )
    asked = len(session.jobs.asked)
    for code, sentence in (
        ("%%gpu --in big\n1", "GpuError: 'big' has 257 MiB, and at most 256 MiB are sent"),
        ("%%gpu --in no\n1", "GpuError: The variable 'no' is not defined in this notebook."),
        ("%%gpu --out no\n1", "GpuError: The variable 'no' is not defined in the kernel with"),
        ("%%gpu --in net\n1", "GpuError: 'net' cannot be received in the kernel with the GPU"),
        ("%%gpu --out g --limit 1\ng = bytes(2**20 + 1)", "GpuError: 'g' has more than 1 MiB"),
        ("%%gpu --out g\ng = (i for i in ())", "GpuError: 'g' cannot be sent: a generator"),
        ("%%gpu h100\n1", "GpuError: GPUs of type 'h100' are not offered. Available: t4, v100."),
        ("%gpu", "GpuError: Use %gpu stop, %gpu status, or %%gpu"),
    ):
        ran = notebook.bad(code)
        assert ran.error.startswith(sentence), ran
        assert ran.traceback.count("\n") == 0, "a sentence, no traceback"
    assert len(session.jobs.asked) == asked, "the kernel stays warm"
    assert notebook.good("%%gpu --in big --out n --limit 300\nn = big.nbytes").status == "ok"
    assert notebook.good("print(n)").printed == f"{257 * 2**20}\n"


def test_an_error_is_the_cells_own(notebook: Notebook) -> None:
    ran = notebook.bad("%%gpu --out y\ndef f():\n    return 1 / 0\nf()\ny = 1")
    assert ran.error == "ZeroDivisionError: division by zero"
    assert "return" in ran.traceback and "f()" in ran.traceback
    assert "portal_session" not in ran.traceback
    assert notebook.bad("%%gpu\nif True print(1)").error.startswith("SyntaxError")


def test_rich_outputs(notebook: Notebook) -> None:
    ran = notebook.good(
        "%%gpu\nfrom IPython.display import HTML, clear_output, display\n"
        "h = display(HTML('<b>1</b>'), display_id=True)\nh.update(HTML('<b>2</b>'))\n"
        "HTML('<i>last</i>')"
    )
    assert [(one["kind"], one.get("text/html")) for one in ran.shown] == [
        ("display_data", "<b>1</b>"),
        ("update_display_data", "<b>2</b>"),
        ("execute_result", "<i>last</i>"),
    ]
    assert notebook.good("%%gpu\n5;").shown == []


def test_input_is_asked_for_in_the_notebook(notebook: Notebook) -> None:
    id = notebook.send("%%gpu\nprint('Hello', input('Name? '))")
    assert notebook.wait(id, answer="Ada").printed == "Hello Ada\n"
    id = str(notebook.client.execute("%%gpu\ninput('Name? ')", allow_stdin=False))
    assert "The cell asks for input, which is not possible here" in notebook.wait(id).error
    assert notebook.good("%%gpu\nprint(1)").printed == "1\n"


def test_an_interrupt_reaches_the_cell(session: Session, notebook: Notebook) -> None:
    id = notebook.send("%%gpu\nimport time\nprint('begun', flush=True)\ntime.sleep(60)")
    notebook.until_printed(id, "begun")
    notebook.manager.interrupt_kernel()
    ran = notebook.wait(id, seconds=15)
    assert (ran.status, ran.printed) == ("error", "begun\n")
    assert ran.error.startswith("KeyboardInterrupt") and "time.sleep(60)" in ran.traceback
    assert notebook.good("%%gpu\nprint(x)").printed == "20\n"


def test_a_kernel_that_dies_says_so(notebook: Notebook) -> None:
    ran = notebook.bad("%%gpu\nimport os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert ran.error.startswith("KernelDied: The kernel was killed"), ran
    assert notebook.bad("%%gpu\nx").error.startswith("NameError")


def test_a_relay_that_is_killed_is_followed_by_one_that_has_the_variables(
    session: Session, notebook: Notebook
) -> None:
    def kill_relay() -> None:
        (id,) = records.ids(session.home)
        pid = int(records.read(id, session.home).relay.partition(":")[2])
        os.kill(pid, signal.SIGKILL)
        # Its last thread has closed its sockets: a cell that it has taken is lost.
        place = Path(f"/proc/{pid}")
        _until("it is dead", lambda: len(list((place / "task").glob("*"))) <= 1)
        _until("it is dead", lambda: not place.exists() or ") Z " in (place / "stat").read_text())

    notebook.good("%%gpu\ny = 41")
    kill_relay()
    ran = notebook.good("%%gpu\nprint(y + 1)")
    assert (ran.printed, ran.shown) == ("42\n", []), "between two cells"


def test_a_cell_that_a_killed_relay_kept_is_named(session: Session, notebook: Notebook) -> None:
    notebook.good("%%gpu\ny = 41")
    (id,) = records.ids(session.home)
    pid = int(records.read(id, session.home).relay.partition(":")[2])
    time.sleep(2)  # the relay before was killed, and two in two seconds are a fault of their own
    os.kill(pid, signal.SIGSTOP)
    cell = notebook.send("%%gpu\nz = 1")
    time.sleep(0.2)  # the relay's socket has it
    os.kill(pid, signal.SIGKILL)
    assert "it is not known whether the cell has run" in notebook.wait(cell).error
    assert notebook.good("%%gpu\nprint(y, 'z' in globals())").printed == "41 False\n"


def test_other_resources_are_another_kernel(session: Session, notebook: Notebook) -> None:
    notebook.good("%%gpu\nx = 1")
    ran = notebook.good("%%gpu v100 --gpus 2 --time 5\nprint('x' in globals())")
    assert ran.printed == "False\n"
    assert "a new kernel without the previous one's variables" in ran.shown[-1]["text/plain"]
    body = session.jobs.asked[-1]
    assert (body["gpu_type"], body["gpus"], body["time"]) == ("v100", 2, "0:05:00")
    _until("one job is left", lambda: session.jobs.living == 1)


def test_what_the_portal_refuses_is_said(session: Session, notebook: Notebook) -> None:
    ran = notebook.bad("%%gpu --gpus 3\n1")
    assert ran.error == "GpuError: You may use at most 2 GPUs."
    assert ran.shown[-1]["text/plain"] == "No 3 \N{MULTIPLICATION SIGN} T4."
    _until("no job is left", lambda: session.jobs.living == 0)


def test_it_is_given_back(session: Session, notebook: Notebook) -> None:
    notebook.good("%%gpu --idle 2\nx = 1")
    time.sleep(1)
    notebook.good("%%gpu --idle 2\nx = 1")
    time.sleep(1.5)
    assert session.jobs.living == 1, "each cell begins the time anew"
    _until("the GPU is given back", lambda: session.jobs.living == 0, 10)
    assert notebook.good("%gpu status").printed == "No GPU is held.\n"
    ran = notebook.good("%%gpu --idle 0\nprint('x' in globals())")
    assert ran.printed == "False\n"
    assert "it was given back after 2 s without a cell" in ran.shown[-1]["text/plain"]
    _until("it is given back at once", lambda: session.jobs.living == 0, 10)
    notebook.good("%%gpu\nx = 1")
    assert notebook.good("%gpu stop").printed == "The GPU was given back.\n"
    _until("it is", lambda: session.jobs.living == 0, 5)
    assert notebook.good("%gpu stop").printed == "No GPU was held.\n"


def test_a_job_that_is_over_is_replaced(session: Session, notebook: Notebook) -> None:
    notebook.good("%%gpu\nx = 1")
    id = notebook.send("%%gpu\nimport time\nprint('begun', flush=True)\ntime.sleep(60)")
    notebook.until_printed(id, "begun")
    (job,) = [job for job in session.jobs.running.values() if job.poll() is None]
    job.kill()
    ran = notebook.wait(id, seconds=40)
    assert (
        ran.error == "GpuError: The kernel with the GPU has ended: The kernel's job was cancelled."
    )
    notebook.good("%%gpu\nx = 1")
    (job,) = [job for job in session.jobs.running.values() if job.poll() is None]
    job.kill()
    time.sleep(6)
    assert "No GPU is held. The kernel's job was" in notebook.good("%gpu status").printed
    ran = notebook.good("%%gpu\nprint('x' in globals())")
    assert ran.printed == "False\n"
    assert "its job had ended" in ran.shown[-1]["text/plain"]


def test_it_waits_and_says_so(session: Session, notebook: Notebook) -> None:
    notebook.good("%gpu stop")
    session.jobs.held = True
    id = notebook.send("%%gpu\nprint(1)")
    time.sleep(6)
    session.jobs.give()
    ran = notebook.wait(id)
    assert ran.printed == "1\n"
    words = [one["text/plain"] for one in ran.shown]
    title = "1 \N{MULTIPLICATION SIGN} T4"
    assert words[1] == f"Waiting for {title}. Job 12: waiting for resources: 2nd in the queue."
    assert words[-1] == f"{title} on gpu01, job 12."
    assert [one["kind"] for one in ran.shown[1:]] == ["update_display_data"] * (len(words) - 1)


def test_a_wait_is_cancelled(session: Session, notebook: Notebook) -> None:
    notebook.good("%gpu stop")
    session.jobs.held = True
    id = notebook.send("%%gpu\nprint(1)")
    _until("the job waits", lambda: session.jobs.living == 1)
    time.sleep(1)
    notebook.manager.interrupt_kernel()
    ran = notebook.wait(id, seconds=20)
    assert ran.error.startswith("KeyboardInterrupt")
    assert session.jobs.living == 0
    session.jobs.held = False


def test_a_submission_is_cancelled(session: Session, notebook: Notebook) -> None:
    asked, session.jobs.slow = len(session.jobs.asked), 2.0
    id = notebook.send("%%gpu\nprint(1)")
    _until("the job is asked for", lambda: len(session.jobs.asked) > asked)
    notebook.manager.interrupt_kernel()
    assert notebook.wait(id, seconds=20).error.startswith("KeyboardInterrupt")
    _until("the relay is over", lambda: not _records(session))
    _until("no job is left", lambda: session.jobs.living == 0)  # it was told to end
    session.jobs.slow = 0.0


def test_it_ends_with_the_notebook(session: Session) -> None:
    for ending in ("shutdown", "kill"):
        notebook = Notebook(session.environ)
        notebook.good("%%gpu\nx = 1")
        assert session.jobs.living == 1
        if ending == "kill":
            notebook.client.stop_channels()
            notebook.manager.signal_kernel(signal.SIGKILL)
        else:
            notebook.close()
        _until(f"no job is left after {ending}", lambda: session.jobs.living == 0)
        _until("its record is gone", lambda: not _records(session))
        _until("its folder is gone", lambda: not list(session.temporary.glob("portal-gpu-*")))


def _records(session: Session) -> list[str]:
    return [path.name for path in (session.home / ".portal/.kernels").iterdir()]


def test_a_session_without_such_kernels_says_so(session: Session) -> None:
    environ = {k: v for k, v in session.environ.items() if k != broker.VARIABLE}
    notebook = Notebook(environ)
    ran = notebook.bad("%%gpu\n1")
    assert ran.error == "GpuError: GPUs for single cells are not offered in this session."
    notebook.close()


def test_the_users_own_startup_file_is_run(session: Session, tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text("mine = __file__\n")
    notebook = Notebook({**session.environ, "PYTHONSTARTUP": str(own)})
    code = "import os; print(mine, os.environ['PYTHONSTARTUP'])"
    assert notebook.good(code).printed == f"{own} {own}\n"
    assert notebook.good("%gpu status").printed == "No GPU is held.\n"
    own.write_text("1 / 0\n")
    other = Notebook({**session.environ, "PYTHONSTARTUP": str(own)})
    assert other.good("%gpu status").printed == "No GPU is held.\n"
    notebook.close()
    other.close()
