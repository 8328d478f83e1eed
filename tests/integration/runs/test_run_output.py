"""Output of points: none is lost, and none is waited for in vain."""

from __future__ import annotations

import signal

import nbformat
import psutil
import pytest
from run_site import PlayedService, RunSite, manifest, outputs, printed, wait_until

WIDGETS = """
import ipywidgets
out = ipywidgets.Output()
display(out)
with out:
    for step in range(100):
        print("step", step, flush=True)
print("after")
"""


def test_points_that_print_in_widgets_end(site: RunSite) -> None:
    """A message to the kernel that is sent while its reply arrives must not hide the reply."""
    plan = site.plan(site.notebook(WIDGETS), [{}] * 12)
    processes = [site.begin(plan, number) for number in range(12)]
    for process in processes:
        process.communicate(timeout=60)
    for number in range(12):
        folder = plan.folder / f"{number:04d}"
        assert manifest(folder)["state"] == "succeeded"
        assert printed(folder) == "after\n"


LINES = """
import pathlib
for line in range(20_000):
    print("line", line, flush=True)
    if line == 1_000:
        pathlib.Path("prints").touch()
"""


def test_all_of_twenty_thousand_lines_are_kept(site: RunSite) -> None:
    """Also if the reader is away for a moment, as on a busy node: the kernel waits for it."""
    plan = site.plan(site.notebook(LINES, "print('the end')"))
    process = site.begin(plan)
    wait_until((site.work / "prints").exists)
    process.send_signal(signal.SIGSTOP)
    # Beside it there can be a command that the point runs now and then.
    children = psutil.Process(process.pid).children()
    (kernel,) = (child for child in children if "ipykernel_launcher" in child.cmdline())
    wait_until(lambda: kernel.cpu_percent(0.2) < 5)  # it has printed all, or waits
    process.send_signal(signal.SIGCONT)
    assert process.wait(60) == 0
    lines = printed(plan.folder / "0000").splitlines()
    assert lines == [*(f"line {line}" for line in range(20_000)), "the end"]


@pytest.mark.parametrize(
    ("code", "state", "message"),
    [
        ("import sys\nsys.exit(0)", "succeeded", "It ended itself in cell 1 of 2."),
        ("raise SystemExit", "succeeded", "It ended itself in cell 1 of 2."),
        ("exit()", "succeeded", "It ended itself in cell 1 of 2."),
        ("exit(0)", "succeeded", "It ended itself in cell 1 of 2."),
        ("exit(3)", "failed", "SystemExit: 3 (cell 1 of 2)"),
        ("import sys\nsys.exit(1)", "failed", "SystemExit: 1 (cell 1 of 2)"),
        ("assert False", "failed", "AssertionError (cell 1 of 2)"),
        ("raise SystemExit('no data')", "failed", "SystemExit: no data (cell 1 of 2)"),
    ],
)
def test_a_cell_that_ends_the_notebook(
    site: RunSite, service: PlayedService, code: str, state: str, message: str
) -> None:
    plan = site.plan(site.notebook(f"print('on')\n{code}", "print('never')"))
    assert site.execute(plan)[0] == (0 if state == "succeeded" else 1)
    last = service.last(0)
    assert (last["state"], last["message"]) == (state, message)
    assert printed(plan.folder / "0000").startswith("on\n")
    assert outputs(plan.folder / "0000")[1] == []


def test_what_papermill_has_injected_stays(site: RunSite) -> None:
    source = site.notebook("n = 7", "print(n)", parameters="n = 1")
    notebook = nbformat.read(source, 4)
    notebook.cells[1].metadata["tags"] = ["injected-parameters"]
    nbformat.write(notebook, source)
    plan = site.plan(source, [{}, {"n": 9}])
    assert [site.execute(plan, number)[0] for number in (0, 1)] == [0, 0]
    assert [printed(plan.folder / name) for name in ("0000", "0001")] == ["7\n", "9\n"]


def test_an_error_that_a_cell_shows_is_its_end(site: RunSite, service: PlayedService) -> None:
    """IPython shows errors of %%capture and %run, and replies "ok"; papermill fails there too.
    That of a debugger, which asks for input, is another one."""
    site.script("print('other')\nraise SystemExit(3)", "other.py")
    captured = "%%capture\nprint('hidden')\nopen('no such file')"
    for name, cell, error in (
        ("captured", captured, "FileNotFoundError: [Errno 2] No such file or directory"),
        ("run", "%run other.py", "SystemExit: 3"),
        ("debugged", "%pdb on\n1 / 0", "ZeroDivisionError: division by zero"),
    ):
        plan = site.plan(site.notebook(cell, "print('never')", name=f"{name}.ipynb"))
        assert site.execute(plan)[0] == 1
        message = service.last(0)["message"]
        assert message.startswith(error) and message.endswith("(cell 1 of 2)")
        assert "never" not in printed(plan.folder / "0000")


ABORTS = """
kernel = get_ipython().kernel
stop = kernel._post_dummy_stop_aborting_message
later = kernel.shell_channel_thread.io_loop.call_later
kernel._post_dummy_stop_aborting_message = lambda id: later(1, stop, id)
"""


def test_the_cell_after_one_that_may_fail_is_executed(site: RunSite) -> None:
    """Just after an error, kernels abort what they are asked for, older ones for 0.1 s."""
    source = site.notebook(ABORTS, "1 / 0", "print('next')")
    notebook = nbformat.read(source, 4)
    notebook.cells[1].metadata["tags"] = ["raises-exception"]
    nbformat.write(notebook, source)
    plan = site.plan(source)
    assert site.execute(plan)[0] == 0
    assert printed(plan.folder / "0000") == "next\n"


def test_a_cell_that_the_kernel_aborts_has_failed(site: RunSite, service: PlayedService) -> None:
    aborts = "get_ipython().kernel._aborting = True"
    plan = site.plan(site.notebook(aborts, "print('never')", "print('never')"))
    assert site.execute(plan)[0] == 1
    assert service.last(0)["message"] == (
        "Error: the kernel has not executed this cell to its end, but says 'aborted' (cell 2 of 3)"
    )
