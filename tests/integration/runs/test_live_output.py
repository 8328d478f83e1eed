"""Outputs of points while somebody looks, and kernels that are kept, with real kernels."""

from __future__ import annotations

import re
import signal
import time

import psutil
from run_site import PlayedService, RunSite, wait_until

from portal.models.session.run_output import LARGEST, PointOutput


def test_a_watched_script_sends_its_log(site: RunSite, service: PlayedService) -> None:
    service.watched = True
    text = (
        "import time, pathlib\nfor step in range(600):\n    print('\\x1b[31mstep', step)\n"
        "    time.sleep(0.1)\n    if pathlib.Path('enough').exists(): break"
    )
    plan = site.plan(site.script(text))
    process = site.begin(plan)
    wait_until(
        lambda: len(service.outputs) >= 2 and "step 9" in service.outputs[-1]["output"]["log"]
    )
    assert service.outputs[-1]["output"]["log"].startswith("step 0\nstep 1\n")
    assert service.last(0)["state"] == "running"
    (site.work / "enough").touch()
    process.communicate(timeout=60)
    last = service.outputs[-1]
    assert (last["state"], last["last"]) == ("succeeded", True)
    assert last["output"]["log"] == (plan.folder / "0000/output.log").read_text().replace(
        "\x1b[31m", ""
    )


def test_a_point_that_nobody_looks_at_sends_nothing(site: RunSite, service: PlayedService) -> None:
    assert site.execute(site.plan(site.script("print('on')")))[0] == 0
    assert service.outputs == []


def test_a_watched_notebook_sends_its_cells(site: RunSite, service: PlayedService) -> None:
    service.watched = True
    source = site.notebook(
        "print('first')",
        "import time, pathlib\nprint('waits', flush=True)\n"
        "while not pathlib.Path('enough').exists(): time.sleep(0.1)",
        "print('third')",
    )
    process = site.begin(site.plan(source))

    def waits() -> bool:
        outputs = [sent["output"] for sent in service.outputs if sent["output"]]
        return bool(outputs) and outputs[-1]["cells"][1]["output"] == "waits\n"

    wait_until(waits)
    cells = next(sent["output"] for sent in reversed(service.outputs) if sent["output"])["cells"]
    assert [cell["state"] for cell in cells] == ["done", "running", "waiting"]
    assert cells[0]["output"] == "first\n" and "enough" in cells[1]["source"]
    (site.work / "enough").touch()
    process.communicate(timeout=60)
    assert [cell["state"] for cell in service.outputs[-1]["output"]["cells"]] == ["done"] * 3


def test_a_failed_notebook_sends_its_failing_cell(site: RunSite, service: PlayedService) -> None:
    source = site.notebook(
        "for _ in range(300):\n    print('x' * 9999)",
        "from IPython.display import Image, display\ndisplay(Image(data=b'GIF89a'))",
        "print('<b>bold</b> \\x1b[31mred')\nassert 1 > 2, 'too small'",
        "print('never')",
    )
    assert site.execute(site.plan(source))[0] == 1
    (sent,) = service.outputs
    assert (sent["state"], sent["last"], sent["kept_until"]) == ("failed", True, None)
    output = PointOutput.model_validate(sent["output"])
    assert len(output.model_dump_json()) < 64 * 1024 < LARGEST
    _, picture, failed, never = output.cells
    assert "image/" in picture.output and picture.output.endswith(": see the notebook]\n")
    assert (failed.state, never.state) == ("failed", "waiting")
    assert "<b>bold</b> red" in failed.output and "\x1b" not in failed.output
    assert re.search("assert 1 > 2", failed.output)
    assert failed.output.rstrip().endswith("AssertionError: too small")


def test_a_kept_kernel_is_asked_and_ended(site: RunSite, service: PlayedService) -> None:
    site.run = {"keep_failed": True}
    source = site.notebook("loss = [0.5, 0.25]", "1 / 0")
    process = site.begin(site.plan(source))
    wait_until(lambda: service.reports and service.last(0)["state"] == "failed")
    message = service.last(0)["message"]
    error, kept = message.split(". ")
    assert error == "ZeroDivisionError: division by zero (cell 2 of 2)"
    assert re.fullmatch(r"Its kernel is kept until \d\d:\d\d\.", kept), message
    wait_until(lambda: any(sent["last"] for sent in service.outputs if "last" in sent))
    assert time.time() < service.outputs[-1]["kept_until"] < time.time() + 601
    service.questions = [{"id": 1, "code": "loss[-1] * 2"}, {"id": 2, "code": "print(nowhere)"}]

    def answers() -> dict[int, str]:
        return {each["id"]: each["text"] for sent in service.outputs
                for each in sent.get("answers", ())}  # fmt: skip

    wait_until(lambda: len(answers()) == 2)
    assert answers()[1] == "0.5"
    assert "NameError: name 'nowhere' is not defined" in answers()[2]
    kernels = psutil.Process(process.pid).children(recursive=True)
    assert kernels and process.poll() is None
    service.end_kernel = True
    process.communicate(timeout=60)
    assert process.returncode == 1
    assert service.outputs[-1]["kept_until"] == 0
    assert not [kernel for kernel in kernels if kernel.is_running()]


def test_a_kept_kernel_ends_with_its_job(site: RunSite, service: PlayedService) -> None:
    site.run = {"keep_failed": True}
    process = site.begin(site.plan(site.notebook("1 / 0")))
    wait_until(lambda: len(service.outputs) >= 2)
    kernels = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 1 and kernels
    assert not [kernel for kernel in kernels if kernel.is_running()]
    assert [report["state"] for report in service.reports][-1] == "failed"


def test_a_script_keeps_none(site: RunSite, service: PlayedService) -> None:
    site.run = {"keep_failed": True}
    assert site.execute(site.plan(site.script("1 / 0")))[0] == 1
    assert "kept" not in service.last(0)["message"]
    assert "ZeroDivisionError" in service.outputs[-1]["output"]["log"]
