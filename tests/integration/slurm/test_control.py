"""What the portal's own account does to jobs and nodes, on the demo's Slurm and as that account
(an Operator), with Slurm's own answers."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import demo_place
from hub_client import wait_until
from jobs import job_state
from machine_clock import awake
from nodes import HOSTILE_REASONS, PLAIN_REASONS, reason_of, set_level

from portal.errors import InvalidRequest, SlurmUnavailable
from portal.models.plain_text import plain_line, plain_text
from portal.slurm import SlurmRunner
from portal.slurm.commands.errors import error_of
from portal.slurm.control.control import ClusterControl, checked_reason
from portal.slurm.parse import rights as told

# Runs in the demo as the portal's account: what it may do depends on who asks.
DRIVER = """
import asyncio, json, sys
from portal.errors import PortalError
from portal.slurm.control.control import ClusterControl

async def main():
    control = ClusterControl(patience=60)
    for name, args in json.load(sys.stdin):
        try:
            found = await getattr(control, name)(*args)
            answer = found.model_dump() if found is not None else "done"
        except PortalError as error:
            answer = {"code": error.code, "message": error.message}
        print(json.dumps(answer))

asyncio.run(main())
"""


def as_portal(demo: Any, *calls: tuple[Any, ...]) -> list[Any]:
    """The answers of ClusterControl's methods, called in the demo as the portal's account."""
    said = demo.run(
        [sys.executable, "-c", DRIVER],
        user=demo.user("portal"),
        env={"PYTHONPATH": str(demo_place())},
        input=json.dumps([[name, args] for name, *args in calls]),
    )
    return [json.loads(line) for line in said.stdout.splitlines()]


def need_real_accounts(demo: Any) -> None:
    if not demo.people:
        pytest.skip("in the one-account form the portal's account is SlurmUser")


def waiting_job(demo: Any, user: str) -> str:
    return str(
        demo.run(
            ["sbatch", "--parsable", "--partition=cpu", "--begin=now+1hour", "--wrap=sleep 60"],
            user=demo.user(user),
        ).stdout.strip()
    )


@pytest.fixture
def job(slurm_cluster: Any) -> Iterator[str]:
    """A job of Ada's that waits."""
    id_ = waiting_job(slurm_cluster, "ada")
    yield id_
    slurm_cluster.run(["scancel", id_], check=False)


@pytest.fixture
def drained_no_more(slurm_cluster: Any) -> Iterator[str]:
    """A node that is as it was, afterwards."""
    yield "cpu02"
    slurm_cluster.run(["scontrol", "update", "NodeName=cpu02", "State=RESUME"], check=False)


@pytest.fixture(autouse=True, scope="module")
def operator(slurm_cluster: Any) -> Iterator[None]:
    """The portal's Slurm account with the level that the guide gives it."""
    set_level(slurm_cluster, "Operator")
    yield
    set_level(slurm_cluster, "Administrator")


@pytest.fixture
def administrator(slurm_cluster: Any) -> Iterator[None]:
    """The portal's Slurm account with the level that draining takes; an Operator afterwards."""
    set_level(slurm_cluster, "Administrator")
    yield
    set_level(slurm_cluster, "Operator")


def squeue(demo: Any, job_id: str, form: str) -> str:
    return str(demo.run(["squeue", "-h", "-j", job_id, "-o", form], check=False).stdout.strip())


# -- rights --------------------------------------------------------------------------------


def test_an_operator_has_jobs_and_no_nodes(slurm_cluster: Any) -> None:
    need_real_accounts(slurm_cluster)
    rights, jobs, nodes = as_portal(slurm_cluster, ("rights",), ("need", "jobs"), ("need", "nodes"))
    assert (rights["jobs"], rights["nodes"], rights["known"]) == (True, False, True)
    assert jobs == "done"
    assert nodes == {"code": "not_allowed", "message": rights["missing"]["nodes"]}
    assert nodes["message"] == (
        "Draining and resuming nodes require AdminLevel=Administrator for the Slurm account "
        "'portal', which has AdminLevel=Operator: "
        "sacctmgr modify user portal set adminlevel=Administrator"
    )


def test_the_command_that_the_sentence_names_gives_the_right(
    slurm_cluster: Any, administrator: None
) -> None:
    (rights,) = as_portal(slurm_cluster, ("rights",))
    assert (rights["jobs"], rights["nodes"], rights["missing"]) == (True, True, {})


def test_someone_without_a_level_has_no_rights(slurm_cluster: Any) -> None:
    need_real_accounts(slurm_cluster)
    set_level(slurm_cluster, "None")
    try:
        (rights,) = as_portal(slurm_cluster, ("rights",))
    finally:
        set_level(slurm_cluster, "Operator")
    assert (rights["jobs"], rights["nodes"]) == (False, False)
    assert "AdminLevel=Operator" in rights["missing"]["jobs"]


def test_slurm_user_needs_no_level(slurm_cluster: Any) -> None:
    said = slurm_cluster.run(
        [sys.executable, "-c", DRIVER],
        user=slurm_cluster.user("slurm"),
        env={"PYTHONPATH": str(demo_place())},
        input='[["rights", []]]',
    )
    assert json.loads(said.stdout)["nodes"] is True


def test_while_slurmdbd_is_away_rights_are_unknown_and_actions_work(
    slurm_cluster: Any, job: str
) -> None:
    need_real_accounts(slurm_cluster)
    slurm_cluster.control("stop", "slurmdbd")
    try:
        rights, need, held = as_portal(slurm_cluster, ("rights",), ("need", "jobs"), ("hold", job))
    finally:
        slurm_cluster.control("start", "slurmdbd")
    assert (rights["known"], rights["jobs"], rights["nodes"]) == (False, False, False)
    assert "not known now" in rights["missing"]["jobs"]
    assert (need, held) == ("done", "done")
    assert "Held" in squeue(slurm_cluster, job, "%r")


CONFIG = "Configuration data\nAccountingStorageType   = {kind}\nSlurmUser = slurm(64030)\n"


def commands(place: Path, config: str, users: str = "", pause: float = 0) -> dict[str, str]:
    """Programs that stand for scontrol and sacctmgr, and count how often they run."""
    for name, text in (("scontrol", config), ("sacctmgr", users)):
        (place / f"{name}.out").write_text(text)
        script = place / name
        script.write_text(
            f"#!/bin/sh\necho x >> {place}/{name}.runs\nsleep {pause}\n"
            f"test -s {place}/{name}.out || {{ echo '{name}: error: Unable to contact slurm "
            f"controller (connect failure)' >&2; exit 1; }}\ncat {place}/{name}.out\n"
        )
        script.chmod(0o755)
    return {name: str(place / name) for name in ("scontrol", "sacctmgr")}


def runs(place: Path, name: str) -> int:
    path = place / f"{name}.runs"
    return len(path.read_text().split()) if path.exists() else 0


@pytest.fixture
def not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portal.slurm.control.control.own_account", lambda: (6198, "portal"))


@pytest.mark.usefixtures("not_root")
async def test_without_accounting_only_slurm_user_may(tmp_path: Path) -> None:
    made = commands(tmp_path, CONFIG.format(kind="(null)"))
    rights = await ClusterControl(runner=SlurmRunner(commands=made), patience=60).rights()
    assert (rights.known, rights.jobs, rights.nodes) == (True, False, False)
    assert "without accounting" in rights.missing["nodes"]
    assert runs(tmp_path, "sacctmgr") == 0


@pytest.mark.usefixtures("not_root")
async def test_rights_are_asked_for_once_however_many_look(tmp_path: Path) -> None:
    made = commands(
        tmp_path, CONFIG.format(kind="accounting_storage/slurmdbd"), "portal|Operator\n", 0.2
    )
    control = ClusterControl(runner=SlurmRunner(commands=made), patience=60)
    found = await asyncio.gather(*(control.rights() for _ in range(50)))
    assert {(one.jobs, one.nodes) for one in found} == {(True, False)}
    await control.rights()
    assert (runs(tmp_path, "scontrol"), runs(tmp_path, "sacctmgr")) == (1, 1)
    # A refusal is never an old one.
    (tmp_path / "sacctmgr.out").write_text("portal|Administrator\n")
    control._rights.asked_at -= 2
    await control.need("nodes")
    assert runs(tmp_path, "sacctmgr") == 2


@pytest.mark.usefixtures("not_root")
async def test_slurm_away_is_unknown_and_not_forbidden(tmp_path: Path) -> None:
    made = commands(tmp_path, "")
    control = ClusterControl(runner=SlurmRunner(commands=made), patience=60)
    rights = await control.rights()
    assert (rights.known, rights.jobs, rights.nodes) == (False, False, False)
    assert "not known now" in rights.missing["nodes"]
    assert "does not answer" in rights.missing["nodes"]
    await control.need("nodes")  # Slurm has the last word
    (tmp_path / "scontrol.out").write_text(CONFIG.format(kind="accounting_storage/slurmdbd"))
    (tmp_path / "sacctmgr.out").write_text("portal|Administrator\n")
    control._rights.asked_at -= 6
    assert (await control.rights()).nodes


@pytest.mark.usefixtures("not_root")
async def test_a_page_does_not_wait_long_for_rights(tmp_path: Path) -> None:
    made = commands(tmp_path, CONFIG.format(kind="(null)"), pause=5)
    control = ClusterControl(runner=SlurmRunner(commands=made), patience=0.1)
    before = awake()
    assert not (await control.rights()).known
    assert awake() - before < 4
    control.patience = 60
    assert (await control.rights()).known
    assert runs(tmp_path, "scontrol") == 1


def test_a_hold_that_slurmctld_did_not_hear() -> None:
    """Word for word what scontrol 22.05 says when slurmctld is away."""
    said = (
        "Unexpected message received for job 11\nslurm_suspend error: Unexpected message received\n"
    )
    error = error_of("scontrol", said, 1, None)
    assert isinstance(error, SlurmUnavailable)
    assert error.message == "Slurm does not answer: Unexpected message received for job 11."


def test_output_that_is_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="SlurmUser"):
        told.config("slurm_load_ctl_conf error: x\n")
    with pytest.raises(ValueError, match="sacctmgr"):
        told.admin_levels("portal|Operator|more\n")
    assert told.uid_of("slurm(6197)") == 6197
    assert told.uid_of("slurm") is None


# -- jobs ----------------------------------------------------------------------------------


def test_an_operator_lets_a_job_start_that_waits_for_another(slurm_cluster: Any, job: str) -> None:
    """A run after one of which Slurm holds ghosts."""
    need_real_accounts(slurm_cluster)
    options = [f"--dependency=afterok:{job}", "--begin=now+1hour", "--partition=cpu"]
    argv = ["sbatch", "--parsable", "--array=0-1", *options, "--wrap=sleep 60"]
    after = slurm_cluster.run(argv, user=slurm_cluster.user("ada")).stdout.strip()
    try:
        assert squeue(slurm_cluster, after, "%E").startswith(f"afterok:{job}")
        assert as_portal(slurm_cluster, ("start_without_waiting", after)) == ["done"]
        assert squeue(slurm_cluster, after, "%E") == "(null)"
    finally:
        slurm_cluster.run(["scancel", after], check=False)


def test_an_operator_holds_releases_and_cancels_jobs_of_others(
    slurm_cluster: Any, job: str
) -> None:
    assert as_portal(slurm_cluster, ("hold", job)) == ["done"]
    assert "Held" in squeue(slurm_cluster, job, "%r")
    if slurm_cluster.people:  # an admin's hold is not for the owner to end
        slurm_cluster.run(["scontrol", "release", job], user="ada", check=False)
        assert "Held" in squeue(slurm_cluster, job, "%r")
    assert as_portal(slurm_cluster, ("release", job)) == ["done"]
    assert "Held" not in squeue(slurm_cluster, job, "%r")
    assert as_portal(slurm_cluster, ("cancel", job)) == ["done"]
    wait_until("it is cancelled", lambda: job_state(slurm_cluster, job) in ("", "CANCELLED"))
    for answer in as_portal(slurm_cluster, ("hold", job), ("release", job)):
        assert answer == {"code": "conflict", "message": f"Job {job} has already ended."}


def test_a_person_cancels_as_themselves(slurm_cluster: Any, job: str) -> None:
    need_real_accounts(slurm_cluster)
    (refused,) = as_portal(slurm_cluster, ("cancel", job, "barbara"))
    assert refused["code"] == "slurm_refused"
    assert "denied" in refused["message"]
    assert job_state(slurm_cluster, job) == "PENDING"
    assert as_portal(slurm_cluster, ("cancel", job, "ada")) == ["done"]
    wait_until("it is cancelled", lambda: job_state(slurm_cluster, job) in ("", "CANCELLED"))
    # Who did it is what accounting says: Ada, not the portal's account.
    ada = slurm_cluster.run(["id", "-u", "ada"]).stdout.strip()
    shown = ["sacct", "-n", "-X", "-P", "-j", job, "-o", "State"]
    wait_until("accounting has it", lambda: f"by {ada}" in slurm_cluster.run(shown).stdout)


def test_the_waiting_tasks_of_an_array_as_squeue_writes_them(slurm_cluster: Any) -> None:
    command = ["sbatch", "--parsable", "--partition=cpu", "--begin=now+1hour", "--array=1-9%2"]
    array = slurm_cluster.run(
        [*command, "--wrap=sleep 60"], user=slurm_cluster.user("ada")
    ).stdout.strip()
    try:
        shown = squeue(slurm_cluster, array, "%i")
        assert shown == f"{array}_[1-9%2]"
        assert as_portal(slurm_cluster, ("cancel", f"{array}_3")) == ["done"]
        assert "3" not in squeue(slurm_cluster, array, "%i").partition("_")[2].replace("-", "")
        shown = squeue(slurm_cluster, array, "%i").splitlines()[0]
        assert as_portal(slurm_cluster, ("hold", shown)) == ["done"]
        assert "Held" in squeue(slurm_cluster, array, "%r")
        assert as_portal(slurm_cluster, ("cancel", shown)) == ["done"]
        wait_until(
            "all are cancelled",
            lambda: "PENDING" not in squeue(slurm_cluster, array, "%T"),
        )
    finally:
        slurm_cluster.run(["scancel", array], check=False)


def test_a_running_jobs_time_is_extended(slurm_cluster: Any) -> None:
    command = ["sbatch", "--parsable", "--partition=cpu", "--time=20", "--wrap=sleep 1200"]
    id_ = slurm_cluster.run(command, user=slurm_cluster.user("ada")).stdout.strip()
    try:
        wait_until("it runs", lambda: job_state(slurm_cluster, id_) == "RUNNING")
        if slurm_cluster.people:  # its owner may not
            alone = ["scontrol", "update", f"JobId={id_}", "TimeLimit=30"]
            said = slurm_cluster.run(alone, user="ada", check=False)
            assert "denied" in said.stdout + said.stderr
        # Whole minutes, rounded up; and Slurm counts the end from the start.
        assert as_portal(slurm_cluster, ("extend", id_, 3541)) == ["done"]
        start, end, limit = squeue(slurm_cluster, id_, "%S %e %l").split()
        assert limit == "1:00:00"
        apart = datetime.fromisoformat(end) - datetime.fromisoformat(start)
        assert apart.total_seconds() == 3600
        # Beyond what the partition allows: Slurm leaves that to an Operator, and so the portal
        # looks at it (portal/launch/extending.py).
        assert as_portal(slurm_cluster, ("extend", id_, 4 * 86400)) == ["done"]
        assert squeue(slurm_cluster, id_, "%l") == "4-00:00:00"
    finally:
        slurm_cluster.run(["scancel", id_], check=False)
    wait_until("it is over", lambda: job_state(slurm_cluster, id_) in ("", "CANCELLED"))
    (answer,) = as_portal(slurm_cluster, ("extend", id_, 3600))
    assert answer == {"code": "conflict", "message": f"Job {id_} has already ended."}


def test_without_the_right_slurms_refusal_names_it(slurm_cluster: Any) -> None:
    need_real_accounts(slurm_cluster)
    command = ["sbatch", "--parsable", "--partition=cpu", "--time=20", "--wrap=sleep 1200"]
    id_ = slurm_cluster.run(command, user="ada").stdout.strip()
    set_level(slurm_cluster, "None")
    try:
        wait_until("it runs", lambda: job_state(slurm_cluster, id_) == "RUNNING")
        need, refused = as_portal(slurm_cluster, ("need", "jobs"), ("extend", id_, 3600))
    finally:
        set_level(slurm_cluster, "Operator")
        slurm_cluster.run(["scancel", id_], check=False)
    assert need["code"] == "not_allowed"
    assert refused["code"] == "slurm_refused"
    for answer in (need, refused):
        assert "extending any job, require AdminLevel=Operator" in answer["message"]


@pytest.mark.parametrize(
    "id_",
    ["", "0x1", "-1", "1 2", "1;id", "$(id)", "1\n2", "--user=ada", "1_[1-3", "1+", "ALL", "²"],
)
async def test_what_is_no_job_id_never_reaches_slurm(id_: str, tmp_path: Path) -> None:
    made = commands(tmp_path, "x") | {"scancel": str(tmp_path / "scontrol")}
    control = ClusterControl(runner=SlurmRunner(commands=made))
    for act in (control.cancel, control.hold, control.release):
        with pytest.raises(InvalidRequest, match="not a job id"):
            await act(id_)
    with pytest.raises(InvalidRequest, match="not a job id"):
        await control.extend(id_, 3600)
    assert runs(tmp_path, "scontrol") == 0


# -- nodes ---------------------------------------------------------------------------------


def test_slurm_refuses_an_operator_who_drains_in_words(slurm_cluster: Any) -> None:
    need_real_accounts(slurm_cluster)
    drained, resumed = as_portal(
        slurm_cluster, ("drain", "cpu02", "grace: test"), ("resume", "cpu02")
    )
    for answer in (drained, resumed):
        assert answer["code"] == "slurm_refused"
        assert "Invalid user id" in answer["message"]
        assert "AdminLevel=Administrator" in answer["message"]
    assert "drain" not in slurm_cluster.run(["sinfo", "-h", "-n", "cpu02", "-o", "%T"]).stdout


def test_an_administrator_drains_and_resumes(
    slurm_cluster: Any, administrator: None, drained_no_more: str
) -> None:
    node = drained_no_more
    for reason in PLAIN_REASONS:
        (answer,) = as_portal(slurm_cluster, ("drain", node, f"grace: {reason}"))
        assert answer == "done"
        assert reason_of(slurm_cluster, node) == f"grace: {reason}"
    assert "drain" in slurm_cluster.run(["sinfo", "-h", "-n", node, "-o", "%T"]).stdout
    resumed, again = as_portal(slurm_cluster, ("resume", node), ("resume", node))
    assert resumed == "done"
    assert again["code"] == "conflict"
    (unknown,) = as_portal(slurm_cluster, ("drain", "nonode", "grace: x"))
    assert unknown["code"] == "slurm_refused"
    assert "Invalid node name" in unknown["message"]


@pytest.mark.parametrize(
    "name", ["", "ALL", "all", "gpu[01-06]", "gpu01,gpu02", "gpu01 State=DOWN", "-n", "x" * 64]
)
async def test_what_is_no_name_of_one_node_never_reaches_slurm(name: str, tmp_path: Path) -> None:
    made = commands(tmp_path, "x")
    control = ClusterControl(runner=SlurmRunner(commands=made))
    with pytest.raises(InvalidRequest, match="not the name of a node"):
        await control.drain(name, "grace: x")
    with pytest.raises(InvalidRequest, match="not the name of a node"):
        await control.resume(name)
    assert runs(tmp_path, "scontrol") == 0


@pytest.mark.parametrize("reason", HOSTILE_REASONS)
def test_a_reason_that_scontrol_would_misread_is_refused(reason: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        checked_reason(reason)
    assert refused.value.field == "reason"


@pytest.mark.parametrize("reason", PLAIN_REASONS)
def test_a_plain_reason_stays_as_it_is(reason: str) -> None:
    assert plain_line(reason) == checked_reason(reason) == reason


def test_a_text_may_have_lines_and_emoji_but_no_other_control() -> None:
    assert plain_text("one\ntwo 👩\u200d🔬") == "one\ntwo 👩\u200d🔬"
    with pytest.raises(ValueError, match=r"U\+0007"):
        plain_text("bell \a")
