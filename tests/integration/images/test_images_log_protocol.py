"""What a job says of itself in its log, beside whatever else is written there."""

from __future__ import annotations

import pytest

from portal.images.log_protocol import emit, read_events, say
from portal.launch.image_job import VARIABLE, image_job_command
from portal.models.catalog.environment import Environment
from portal.models.catalog.image_job import Event, ImageJob, Work
from portal.models.session.resources import Resources

NONCE = "k7Jx2w"


def test_what_is_emitted_is_read_again(capsys):
    events = [
        Event(at=1.5, step="pull", message="Fetching", share=0.25),
        Event(at=2.0, step="done", result={"image": "/a.sif"}),
    ]
    emit(NONCE, events[0])
    say("INFO: plain\n")
    emit(NONCE, events[1])
    text = capsys.readouterr().out
    assert read_events(text, NONCE) == (events, ["INFO: plain"])


def test_an_image_cannot_forge_a_result():
    forged = 'PORTAL guess {"at": 1, "step": "done", "result": {}}'
    assert read_events(forged + "\n", NONCE) == ([], [forged])


def test_a_line_that_another_program_left_open_is_kept_apart(capsys):
    emit(NONCE, Event(at=1, step="probe"))
    text = "half a line" + capsys.readouterr().out
    events, plain = read_events(text, NONCE)
    assert [one.step for one in events] == ["probe"]
    assert plain == ["half a line"]


@pytest.mark.parametrize(
    "cut", ["PORTAL k7Jx2w", 'PORTAL k7Jx2w {"at": 1, "st', "PORTAL k7Jx2w []"]
)
def test_the_nonce_is_never_among_the_plain_lines(cut):
    events, plain = read_events(f"before\n{cut}", NONCE)
    assert (events, plain) == ([], ["before"])


def test_without_a_nonce_nothing_is_an_event():
    assert read_events("PORTAL  {}\n", "")[0] == []


def test_the_job_is_told_everything_but_a_long_description():
    environment = Environment(
        name="x", title="X", kind="container", image="/x.sif", description="ü" * 20_000
    )
    job = ImageJob(work=Work.TEST, nonce=NONCE, environment=environment, apptainer="/usr/bin/a b")
    argv, env = image_job_command(
        job,
        Resources(cpus=2, memory="8G"),
        name="portal-test",
        output="/logs/a.log",
        directory="/",
        python="/opt/p/bin/python3",
    )
    assert argv[0] == "sbatch" and "--cpus-per-task=2" in argv
    assert argv[-4:] == ["/opt/p/bin/python3", "-I", "-m", "portal.images.job"]
    assert NONCE not in " ".join(argv)
    assert len(env[VARIABLE]) < 4096
    told = ImageJob.model_validate_json(env[VARIABLE])
    assert told.apptainer == "/usr/bin/a b" and told.environment.image == "/x.sif"
