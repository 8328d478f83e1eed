"""A setup below a root of its own: idempotent, ended by signals anywhere, and taken back."""

from __future__ import annotations

import os
import signal
import sys
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest
from setup_machine import Machine

from portal.errors import ConfigurationError, Conflict
from portal.setup.command import _interrupted
from portal.setup.journal import Journal
from portal.setup.plan import SECRETS, SUDOERS
from portal.setup.steps import File, Step
from portal.setup.undo import ensure_unedited, undo
from portal.setup.writing import needed

CONFIG = "etc/data-scientist-portal/jupyterhub_config.py"
# What changes a machine, before it does (PEP 578). os.open has the flags as its third argument.
_EFFECTS = {"os.rename", "os.mkdir", "os.chmod", "os.chown", "os.remove", "os.rmdir"}


def is_effect(event: str, arguments: tuple[Any, ...]) -> bool:
    if event == "open":
        flags = arguments[2]
        return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))
    return event in _EFFECTS or event == "subprocess.Popen"


def ended(machine: Machine, work: Any, number: int, at: int) -> bool:
    """Run ``work`` in a process that gets the signal before its effect ``at``; return whether it
    came so far."""
    child = os.fork()
    if child == 0:
        count = [0]

        def watch(event: str, arguments: tuple[Any, ...]) -> None:
            if is_effect(event, arguments):
                count[0] += 1
                if count[0] == at:
                    os.kill(os.getpid(), number)

        code = 1
        try:
            with Path(os.devnull).open("w") as nothing:
                os.dup2(nothing.fileno(), 2)
            signal.signal(signal.SIGTERM, _interrupted)
            sys.addaudithook(watch)
            work()
            code = 0
        except SystemExit as error:
            code = int(str(error.code))
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -number, 128 + number), status
    return status != 0


def undo_all(machine: Machine) -> list[str]:
    said: list[str] = []
    journal = Journal(machine.place)
    ensure_unedited(journal)
    with journal.locked():
        undo(machine.place, journal, said.append)
    return said


def the_rule(steps: list[Step]) -> File:
    """The step of the sudo rule."""
    return next(step for step in steps if isinstance(step, File) and step.path == SUDOERS)


def test_a_second_run_has_nothing_to_do(machine: Machine) -> None:
    assert machine.set_up()
    before = machine.snapshot()
    journal = Journal(machine.place)
    assert needed(machine.steps(), machine.place, journal) == []
    assert machine.set_up() == []
    assert machine.snapshot() == before
    assert before[CONFIG][0] == "0o100644"
    assert before["etc/sudoers.d/portal"][0] == "0o100440"
    assert before["var/lib/data-scientist-portal/setup.json"][0] == "0o100600"
    assert before["etc/data-scientist-portal/ldap-password"][0] == "0o100600"
    assert before["etc/data-scientist-portal/ldap-password"][1] not in (0, 6101)
    wants = "etc/systemd/system/multi-user.target.wants/data-scientist-portal.service"
    assert before[wants][3]


def test_a_log_folder_that_is_a_link_is_refused(machine: Machine) -> None:
    """Whoever could write beside it would choose which folder is given to the Hub's account."""
    target = machine.root / "target"
    target.mkdir(mode=0o700)
    link = machine.root / "shared/portal/log"
    link.parent.mkdir()
    link.symlink_to(target)
    with pytest.raises(Conflict, match=r"log is a link\. Answer the folder that it leads to\."):
        machine.set_up()
    assert (target.stat().st_uid, target.stat().st_mode & 0o777) == (0, 0o700)


@pytest.mark.parametrize(("number", "stride"), [(signal.SIGKILL, 5), (signal.SIGTERM, 11)])
def test_ended_anywhere_and_run_again(machine: Machine, number: int, stride: int) -> None:
    """It ends as an undisturbed setup does, with the same journal; undo brings the bare machine
    back, also if it is ended itself."""
    bare = machine.snapshot()
    machine.set_up()
    whole = machine.snapshot()
    undo_all(machine)
    assert machine.snapshot() == bare
    at, points = 1, 0
    while ended(machine, machine.set_up, number, at):
        machine.set_up()
        assert not (found := differences(machine.snapshot(), whole)), "\n".join([str(at), *found])
        ended(machine, lambda: undo_all(machine), number, at)
        undo_all(machine)
        assert not (found := differences(machine.snapshot(), bare)), "\n".join([str(at), *found])
        at, points = at + stride, points + 1
    assert points > 10


def differences(left: dict[str, Any], right: dict[str, Any]) -> list[str]:
    """Names of what differs; of a file, its lines too."""
    found = []
    for name in {*left, *right}:
        one, other = left.get(name, (None,) * 4), right.get(name, (None,) * 4)
        if one != other:
            found.append(f"{name}: {one[:3]}, {other[:3]}")
            left_lines, right_lines = (str(what).split("\\n") for what in (one[3], other[3]))
            found += list(unified_diff(left_lines, right_lines, lineterm="", n=1))
    return found


def test_other_answers_after_an_end_in_the_middle(machine: Machine) -> None:
    """A file that still is as the first setup wrote it is not taken for an edited one."""
    machine.set_up()
    machine.given["hub_address"] = "10.99.0.2"
    at = 1
    while ended(machine, machine.set_up, signal.SIGKILL, at):
        config = (machine.root / CONFIG).read_text()
        assert "10.99.0.1" in config or "10.99.0.2" in config
        needed(machine.steps(), machine.place, Journal(machine.place))
        at += 1
    assert "10.99.0.2" in (machine.root / CONFIG).read_text()


def test_an_edited_file_is_not_replaced_and_not_removed(machine: Machine) -> None:
    machine.set_up()
    (machine.root / CONFIG).write_text("# mine\n")
    machine.given["hub_address"] = "10.99.0.2"
    with pytest.raises(Conflict, match=r"jupyterhub_config\.py was edited since .*--replace=/etc/"):
        needed(machine.steps(), machine.place, Journal(machine.place))
    with pytest.raises(Conflict, match=r"Edited since .*jupyterhub_config\.py"):
        undo_all(machine)
    assert (machine.root / SUDOERS.lstrip("/")).exists()
    journal = Journal(machine.place)
    said: list[str] = []
    with journal.locked():
        undo(machine.place, journal, said.append)
    assert (machine.root / CONFIG).read_text() == "# mine\n"
    assert not (machine.root / SUDOERS.lstrip("/")).exists()
    assert any(line.startswith("kept: ") and CONFIG in line for line in said)


def test_what_was_there_before_comes_back(machine: Machine) -> None:
    """A file of the site's is replaced on demand only, and undo restores it with mode and owner."""
    rule = machine.root / SUDOERS.lstrip("/")
    rule.write_text("# by hand\n")
    rule.chmod(0o400)
    os.chown(rule, 0, 6101)
    with pytest.raises(Conflict, match="not written by setup"):
        needed(machine.steps(), machine.place, Journal(machine.place))
    journal, steps = Journal(machine.place), machine.steps()
    rule_step = the_rule(steps)
    rule_step.replace = True
    with journal.locked():
        rule_step.apply(machine.place, journal)
    assert "PORTAL_HUB" in rule.read_text()
    machine.set_up()
    machine.given["slurm_bin"] = "/opt/slurm/bin"  # it is written once more
    machine.set_up()
    assert "/opt/slurm/bin/sbatch" in rule.read_text()
    undo_all(machine)
    assert rule.read_text() == "# by hand\n"
    assert (rule.stat().st_mode & 0o777, rule.stat().st_gid) == (0o400, 6101)


def test_data_and_their_account_stay(machine: Machine) -> None:
    machine.set_up()
    database = machine.root / "var/lib/data-scientist-portal/hub/jupyterhub.sqlite"
    database.write_text("data")
    said = undo_all(machine)
    assert database.read_text() == "data"
    assert machine.place.has_account("portal")
    assert "kept: account portal, which owns" in "\n".join(said)
    assert "nothing deletes it but you" in said[-1]


def test_a_rule_that_visudo_refuses_is_not_written(machine: Machine) -> None:
    """It is checked beside its place: a wrong file there would stop sudo for everybody."""
    steps = machine.steps()
    rule = the_rule(steps)
    rule.content += "nonsense\n"
    with pytest.raises(ConfigurationError, match=r"sudoers\.d/portal would not be valid"):
        rule.apply(machine.place, Journal(machine.place))
    assert list((machine.root / "etc/sudoers.d").iterdir()) == []


def test_the_proxys_token_is_kept(machine: Machine) -> None:
    folder = machine.root / "etc/data-scientist-portal"
    folder.mkdir()
    secrets = machine.root / SECRETS.lstrip("/")
    secrets.write_text("PGPASSFILE=/etc/x\n")
    machine.set_up()
    assert secrets.read_text() == f"PGPASSFILE=/etc/x\nCONFIGPROXY_AUTH_TOKEN={'5e' * 32}\n"
    assert secrets.stat().st_mode & 0o777 == 0o600
    secrets.write_text(secrets.read_text() + "PROXY_OPTIONS=--metrics-port=9\n")
    assert machine.set_up() == []


def test_a_link_is_not_followed(machine: Machine) -> None:
    target = machine.root / "etc/passwd"
    (machine.root / SUDOERS.lstrip("/")).symlink_to(target)
    with pytest.raises(Conflict, match="not a plain file"):
        needed(machine.steps(), machine.place, Journal(machine.place))


def test_a_torn_journal_is_refused(machine: Machine) -> None:
    machine.set_up()
    journal = machine.root / "var/lib/data-scientist-portal/setup.json"
    journal.write_text(journal.read_text()[:-20])
    with pytest.raises(ConfigurationError, match=r"setup\.json cannot be read"):
        Journal(machine.place)
