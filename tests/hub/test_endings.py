"""A session that ends says why, in words, on its page."""

from __future__ import annotations

from typing import Any

from hub_client import Person, wait_until
from terminal import terminal
from test_outage import only_job


def wait_for_end(ada: Person) -> str:
    """Wait until the Hub has seen the end; the text of the session's page."""
    wait_until("the end is seen", lambda: not ada.server().get("ready"), timeout=90)
    wait_until("the stop is over", lambda: not ada.server().get("pending"))
    return ada.page("/hub/user/ada/")


def launch(ada: Person, **options: Any) -> None:
    answer = ada.launch({"environment": "python-venv", **options})
    assert answer.status_code in (201, 202), answer.text
    ada.wait_ready()


def test_scancel(demo: Any, ada: Person) -> None:
    launch(ada)
    demo.run(["scancel", only_job(demo, "ada")], user=demo.user("ada"))
    assert "cancelled in Slurm" in wait_for_end(ada)


def test_walltime(demo: Any, ada: Person) -> None:
    launch(ada)
    # The shortest limit that Slurm keeps is a minute: an operator shortens it to now.
    job = only_job(demo, "ada")
    demo.run(["scontrol", "update", f"JobId={job}", "TimeLimit=1"])
    wait_until("the end is seen", lambda: not ada.server().get("ready"), timeout=150)
    assert "time limit" in wait_for_end(ada)


def test_out_of_memory(demo: Any, ada: Person) -> None:
    launch(ada, memory="400M")
    terminal(ada, "nohup python3 -c 'x = bytearray(10**9); input()' </dev/zero >/dev/null 2>&1 &")
    page = wait_for_end(ada)
    assert "more memory than it had asked for" in page
    assert "400 MB" in page


def test_a_node_that_is_gone(demo: Any, ada: Person) -> None:
    launch(ada, partition="cpu")
    node = demo.run(["squeue", "-h", "--user", "ada", "--format=%N"]).stdout.strip()
    demo.run(["scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test"])
    try:
        assert "node failed" in wait_for_end(ada)
    finally:
        demo.run(["scontrol", "update", f"NodeName={node}", "State=RESUME"])


def test_a_start_that_fails_shows_its_log(demo: Any, ada: Person) -> None:
    """An environment whose server cannot run: the reason and the log's end are on the page."""
    broken = demo.environments / "broken.yaml"
    broken.write_text("name: broken\ntitle: Broken\nkind: venv\npath: /nonexistent\n")
    broken.chmod(0o644)
    try:
        answer = wait_until(
            "the catalog has the new file",
            lambda: (
                (a := ada.launch({"environment": "broken"}))
                and "no environment of that name" not in a.text
                and a
            ),
        )
        assert answer.status_code >= 400 or answer.status_code == 202
        wait_until("the start failed", lambda: not ada.server().get("pending"))
        page = ada.page("/hub/user/ada/")
        assert "could not start" in page
        assert "/nonexistent/bin/python3" in page
    finally:
        broken.unlink()


def test_shut_down_from_inside(demo: Any, ada: Person) -> None:
    launch(ada)
    assert ada.session("POST", "api/shutdown").status_code == 200
    assert "shut down from inside" in wait_for_end(ada)
