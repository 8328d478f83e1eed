"""The demo itself: its Slurm, its accounts and rights, its commands, and what it leaves behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import Demo, a_home, demo_place, portal_demo, shared_cache, started_demo
from hub_client import Person, wait_until
from machine import patience

from portal.demo.daemons.ports import free_port
from portal.demo.daemons.process import leftovers, start_time
from portal.demo.home import Home
from portal.errors import NotFound
from portal.launch.container import sbatch_options
from portal.models.session.resources import Resources

pytestmark = pytest.mark.slurm

ROOT_ONLY = "only root can start the form with real accounts"


@pytest.fixture
def people(demo: Demo) -> Demo:
    """The demo, where its people are real accounts."""
    if not demo.people:
        pytest.skip(ROOT_ONLY)
    return demo


def command(home: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """``portal demo …`` for the state directory ``home``."""
    return subprocess.run(
        portal_demo(*words),
        env={**os.environ, "PORTAL_HOME": str(home), "PORTAL_CACHE": shared_cache(), **env},
        cwd=demo_place(),
        capture_output=True,
        text=True,
        timeout=120,
    )


# -- the cluster ----------------------------------------------------------------------------------


def test_nodes_and_partitions(slurm_cluster: Demo) -> None:
    said = slurm_cluster.run(["sinfo", "-h", "-o", "%P|%N|%G|%c|%m"]).stdout.split()
    if not slurm_cluster.words["simulated_gpus"]:
        assert any(line.startswith("gpu*|gpu01|gpu:") for line in said)
        return
    assert sorted(said) == [
        "cpu|cpu[01-02]|(null)|16|32000",
        "gpu*|gpu[01-04]|gpu:v100:4|16|64000",
        "gpu*|gpu[05-06]|gpu:t4:2|8|32000",
    ]


def test_accounts_limits_and_qos(slurm_cluster: Demo) -> None:
    said = slurm_cluster.run(
        ["sacctmgr", "-nP", "show", "assoc", "format=account,user,qos,maxtres"]
    ).stdout.split()
    assert "research|ada|normal,short|" in said
    assert "dl101|student30|normal,short|gres/gpu=2" in said
    assert "dl101|barbara|normal,short|gres/gpu=2" in said
    qos = slurm_cluster.run(["sacctmgr", "-nP", "show", "qos", "format=name,maxwall"]).stdout
    assert "short|01:00:00" in qos.split()


def test_a_job_sees_its_gpus_and_stays_in_the_history(slurm_cluster: Demo) -> None:
    user = slurm_cluster.user("ada")
    script = "#!/bin/bash\necho gpus=$CUDA_VISIBLE_DEVICES\n"
    job = slurm_cluster.run(
        ["sbatch", "--wait", "--parsable", "--gpus=2", "--output=gpus.txt", "--time=5"],
        user=user,
        input=script,
    ).stdout.strip()
    gpus = slurm_cluster.run(["cat", "gpus.txt"], user=user).stdout.strip()
    assert gpus.startswith("gpus=") and len(gpus.removeprefix("gpus=").split(",")) == 2
    end = time.monotonic() + patience(120)
    wanted = "COMPLETED|research"
    while True:
        argv = ["sacct", "-nPX", "-j", job, "-o", "state,account"]
        said = slurm_cluster.run(argv, user=user).stdout.strip()
        if said == wanted or time.monotonic() > end:
            break
        time.sleep(0.5)
    assert said == wanted


def test_a_session_s_job_has_the_limits_of_its_node(slurm_cluster: Demo) -> None:
    """And not those of the host and the process that submit it."""
    options = sbatch_options(
        Resources(time="0:05:00"), name="limits", output="limits.txt", directory="."
    )
    slurm_cluster.run(
        ["prlimit", "--nofile=700", "sbatch", "--wait", "--parsable", *options],
        user=slurm_cluster.user("ada"),
        input="#!/bin/bash\nulimit -n\n",
    )
    said = slurm_cluster.run(["cat", "limits.txt"], user=slurm_cluster.user("ada")).stdout
    assert said.strip() and said.strip() != "700"


def test_a_limit_is_enforced(slurm_cluster: Demo) -> None:
    if not slurm_cluster.people:
        pytest.skip(ROOT_ONLY)
    refused = slurm_cluster.run(
        ["sbatch", "--account=research", "--wrap=true"], user="student01", check=False
    )
    assert refused.returncode != 0 and "Invalid account" in refused.stderr


def test_a_job_over_its_memory_is_ended(slurm_cluster: Demo) -> None:
    script = (
        "#!/bin/bash\nexec python3 -c 'x = b\"x\" * 800_000_000; import time; time.sleep(60)'\n"
    )
    user = slurm_cluster.user("ada")
    job = slurm_cluster.run(
        ["sbatch", "--wait", "--parsable", "--mem=100", "--output=oom.txt", "--time=5"],
        user=user,
        input=script,
        check=False,
    ).stdout.strip()
    shown = slurm_cluster.run(["scontrol", "show", "job", job]).stdout
    assert "JobState=COMPLETED" not in shown
    assert "memory" in slurm_cluster.run(["cat", "oom.txt"], user=user).stdout.lower()


# -- rights ---------------------------------------------------------------------------------------


def test_the_hubs_account_may_drain_and_runs_nothing(people: Demo) -> None:
    admin = people.run(["sacctmgr", "-nP", "show", "user", "portal", "format=adminlevel"]).stdout
    assert admin.strip() == "Administrator"
    reservation = ["ReservationName=test", "Users=ada", "Nodes=cpu02"]
    people.run(
        ["scontrol", "create", "reservation", *reservation, "StartTime=now+1hour", "Duration=5"],
        user="portal",
    )
    people.run(["scontrol", "delete", "ReservationName=test"], user="portal")
    change = ["scontrol", "update", "NodeName=cpu02"]
    people.run([*change, "State=DRAIN", "Reason=test"], user="portal")
    assert "drain" in people.run(["sinfo", "-h", "-n", "cpu02", "-o", "%T"]).stdout
    people.run([*change, "State=RESUME"], user="portal")
    assert "drain" not in people.run(["sinfo", "-h", "-n", "cpu02", "-o", "%T"]).stdout
    own = people.run(["sbatch", "--wrap=true"], user="portal", check=False)
    assert own.returncode != 0


def test_sudo_allows_slurms_commands_as_people(people: Demo) -> None:
    said = people.run(["sudo", "-n", "-u", "ada", "/usr/bin/sbatch", "--version"], user="portal")
    assert said.stdout.startswith("slurm")
    people.run(["sudo", "-n", "-u", "ada", "/usr/bin/scancel", "--version"], user="portal")


@pytest.mark.parametrize(
    ("caller", "words"),
    [
        ("portal", ["-u", "ada", "/bin/bash", "-c", "true"]),
        ("portal", ["-u", "ada", "/usr/bin/scontrol", "show", "nodes"]),
        ("portal", ["-u", "root", "/usr/bin/sbatch", "--version"]),
        ("portal", ["-u", "slurm", "/usr/bin/sbatch", "--version"]),
        ("portal", ["-u", "munge", "/usr/bin/scancel", "--version"]),
        ("portal", ["-u", "#0", "/usr/bin/sbatch", "--version"]),
        ("portal", ["-u", "ada", "-E", "/usr/bin/sbatch", "--version"]),
        ("portal", ["-u", "ada", "LD_PRELOAD=/x", "/usr/bin/sbatch", "--version"]),
        ("portal", ["-u", "ada", "-g", "root", "/usr/bin/sbatch", "--version"]),
        ("ada", ["-u", "grace", "/usr/bin/sbatch", "--version"]),
        ("ada", ["-u", "root", "/usr/bin/sbatch", "--version"]),
    ],
)
def test_sudo_refuses_all_else(people: Demo, caller: str, words: list[str]) -> None:
    refused = people.run(["sudo", "-n", *words], user=caller, check=False)
    assert refused.returncode != 0 and "slurm" not in refused.stdout


def test_what_sudo_lets_through(people: Demo) -> None:
    sent = ("APPTAINERENV_A", "PORTAL_B", "JUPYTERHUB_C", "SBATCH_EXCLUSIVE", "PYTHONPATH")
    script = "#!/bin/bash\nenv | grep -E '^(APPTAINERENV|PORTAL|JUPYTERHUB|SBATCH|PYTHON)' | sort\n"
    sbatch = ["/usr/bin/sbatch", "--wait", "--output=env.txt", "--time=5"]
    people.run(
        ["sudo", "-n", "-u", "ada", *sbatch, f"--chdir={people.words['homes']}/ada"],
        user="portal",
        env=dict.fromkeys(sent, "1"),
        input=script,
    )
    seen = people.run(["cat", "env.txt"], user="ada").stdout.split()
    assert seen == ["APPTAINERENV_A=1", "PORTAL_B=1"]


def test_people_cannot_read_each_others_files(people: Demo) -> None:
    people.run(["bash", "-c", "echo secret > mine.txt"], user="ada")
    path = f"{people.words['homes']}/ada/mine.txt"
    assert people.run(["cat", path], user="ada").stdout == "secret\n"
    for other in ("grace", "student01", "portal"):
        refused = people.run(["cat", path], user=other, check=False)
        assert refused.returncode != 0 and "secret" not in refused.stdout


def test_scratch_is_everyones_and_data_are_read_only(people: Demo) -> None:
    home = people.home
    mine = home.scratch / "of-ada.txt"
    people.run(["bash", "-c", f"echo x > {mine}"], user="ada")
    assert people.run(["rm", "-f", str(mine)], user="grace", check=False).returncode != 0
    people.run(["rm", str(mine)], user="ada")
    assert "read" in people.run(["cat", str(home.data / "README.txt")], user="ada").stdout
    for command in (["touch", str(home.data / "x")], ["rm", "-f", str(home.data / "README.txt")]):
        assert people.run(command, user="ada", check=False).returncode != 0


def test_the_launch_page_shows_home_scratch_and_data(demo: Demo) -> None:
    grace = Person(demo.url, "grace")
    # A disk that does not answer within a second is shown without its numbers.
    page = wait_until(
        "all is told", lambda: (p := grace.page("/hub/spawn")).count(" free of ") == 3 and p
    )
    for words in (f"Scratch {demo.home.scratch} ", f"Data {demo.home.data} ", "Home "):
        assert words in page


def test_secrets_of_the_demo_are_closed_to_people(people: Demo) -> None:
    secrets = ["slurm/munge/key", "slurm/etc/slurmdbd.conf", "hub/proxy-token", "etc/shadow"]
    for name in secrets:
        path = people.home.demo / name
        assert path.exists(), name
        refused = people.run(["cat", str(path)], user="ada", check=False)
        assert refused.returncode != 0 and not refused.stdout, name


def test_images_can_be_mounted_by_people(people: Demo) -> None:
    if not Path("/dev/fuse").exists():
        pytest.skip("this machine has no /dev/fuse")
    people.run(["test", "-r", "/dev/fuse", "-a", "-w", "/dev/fuse"], user="ada")


# -- the host -------------------------------------------------------------------------------------


def test_a_package_with_an_account_is_installed_meanwhile(people: Demo) -> None:
    """On the host of the demo, which has an /etc of its own: see conftest.host_of."""
    host = people.home.root / "host/etc"
    if not host.exists():
        pytest.skip("this demo was not started by the tests: its host is the machine")
    for name in ("passwd", "group", "shadow", "gshadow"):  # as useradd(8) does
        new = Path(shutil.copy2(host / name, host / f"{name}+"))
        with new.open("a") as added:
            added.write("package:x:987:987::/nonexistent:/bin/false\n")
        new.rename(host / name)
    assert people.run(["id", "-u", "ada"]).stdout.strip() == "6101"
    assert "research" in people.run(["sacctmgr", "-nP", "show", "account"], user="portal").stdout
    ada = Person(people.url, "ada")
    assert ada.logged_in
    answer = ada.launch({"environment": "python-venv", "gpus": 1})
    assert answer.status_code < 300, answer.text + people.session_logs()
    ada.wait_ready()
    assert ada.session("GET", "api/contents").status_code == 200
    ada.stop()
    assert "package:" not in Path("/etc/passwd").read_text()


def test_a_command_runs_as_an_account_that_was_made_in_the_demo(people: Demo) -> None:
    """The benchmarks' people are made so; the file from which /etc was made lacks them."""
    line = "late:x:6199:6199:Late:/tmp:/bin/sh\n"
    people.run(["tee", "-a", "/etc/passwd"], input=line)
    try:
        assert people.run(["id", "-u"], user="late").stdout.strip() == "6199"
    finally:
        people.run(["sed", "-i", "/^late:/d", "/etc/passwd"])


def test_the_hosts_accounts_are_not_touched(people: Demo) -> None:
    assert people.run(["id", "-u", "ada"], user="ada").stdout.strip() == "6101"
    for name in ("passwd", "group", "shadow"):
        host = (Path("/etc") / name).read_text().splitlines()
        assert not [line for line in host if line.startswith(("ada:", "student01:", "portal:"))]
    assert not Path("/etc/sudoers.d/portal").exists()
    assert not Path("/etc/slurm/slurm.conf").exists()
    own = Path("/proc/self/mountinfo").read_text()
    assert str(people.home.root) not in own


@pytest.mark.parametrize("which", ["demo", "carols"])
def test_everything_listens_on_loopback_only(request: pytest.FixtureRequest, which: str) -> None:
    demo: Demo = request.getfixturevalue(which)
    assert _open_to_all(demo) == set()


# -- the command ----------------------------------------------------------------------------------


def test_the_portal_answers_and_says_that_gpus_are_simulated(demo: Demo) -> None:
    assert httpx.get(f"{demo.url}/hub/health", timeout=60).status_code == 200
    if demo.log is not None:
        words = demo.output()
        assert f"Portal ready at {demo.url}\n" in words
        assert "ada" in words and "portal-demo" in words
        assert ("simulated" in words) == demo.words["simulated_gpus"]


def test_status(demo: Demo) -> None:
    said = command(demo.home.root, "--status")
    assert said.returncode == 0
    assert f"Portal ready at {demo.url}" in said.stdout and "down" not in said.stdout
    assert ("real accounts" in said.stdout) == demo.people


def test_a_second_start_says_that_it_runs(demo: Demo) -> None:
    said = command(demo.home.root)
    assert said.returncode == 0 and "is already running" in said.stdout and demo.url in said.stdout


def test_a_taken_port_is_one_sentence(tmp_path_factory: Any) -> None:
    with a_home() as home, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = command(home, f"--port={port}")
        assert said.returncode == 1
        assert f"Port {port} " in said.stderr and len(said.stderr.splitlines()) == 1
        assert _left(home) == []


@pytest.mark.parametrize(
    ("words", "env", "sentence"),
    [
        (["--port=70000"], {}, "70000"),
        ([], {"PORTAL_PORT": "eighty"}, "eighty"),
        (["--home=/var/tmp/" + "x" * 80], {}, "too many for Slurm"),
        (["--home=/var/tmp/a b"], {}, "Set PORTAL_HOME to a path without it."),
        ([], {"PORTAL_CACHE": "/var/tmp/c%x"}, "Set PORTAL_CACHE to a path without it."),
    ],
)
def test_wrong_settings_are_one_sentence(
    words: list[str], env: dict[str, str], sentence: str
) -> None:
    with a_home() as home:
        said = command(home, *words, **env)
        assert said.returncode == 1
        assert sentence in said.stderr and len(said.stderr.splitlines()) == 1


def test_nothing_runs_says_so() -> None:
    with a_home() as home:
        assert command(home, "--status").returncode == 3
        stopped = command(home, "--stop")
        assert stopped.returncode == 0 and "No demo is running" in stopped.stdout
        with pytest.raises(NotFound):
            Demo(Home(home, home)).run(["true"])


@pytest.fixture
def small() -> Iterator[Demo]:
    """A demo of Slurm alone, for the tests that end it."""
    with a_home() as place, started_demo("--only=slurm", place=place) as demo:
        yield demo


def _with_job(small: Demo, seconds: int) -> dict[int, str | None]:
    """The demo's processes, with their start times, once a job of ada's sleeps so long."""
    small.run(["sbatch", f"--wrap=exec sleep {seconds}", "--time=60"], user=small.user("ada"))
    root = small.home.root
    _wait(lambda: any(f"sleep {seconds}" in _command_line(pid) for pid in _left(root)))
    return {pid: start_time(pid) for pid in _left(root)}


def _living(processes: dict[int, str | None]) -> list[int]:
    return [pid for pid, started in processes.items() if start_time(pid) == started]


def test_stop_ends_jobs_and_daemons(small: Demo) -> None:
    processes = _with_job(small, 987654)
    said = command(small.home.root, "--stop")
    assert said.returncode == 0 and "Stopped" in said.stdout
    assert _living(processes) == []
    assert small.state is None
    # The second start keeps its history.
    with started_demo("--only=slurm", place=small.home.root) as again:
        history = ["sacct", "-nPX", "-S", "now-1hour", "-o", "state", "--allusers"]
        _wait(lambda: "CANCELLED" in again.run(history).stdout)
    said = command(small.home.root, "--reset")
    assert said.returncode == 0 and not small.home.demo.exists()


def test_what_a_kill_leaves_is_cleaned_at_the_next_start(small: Demo) -> None:
    processes = _with_job(small, 987655)
    pid = small.words["pid"]
    os.kill(pid, signal.SIGKILL)
    _wait(lambda: small.state is None)
    assert _left(small.home.root)
    with started_demo("--only=slurm", place=small.home.root) as again:
        assert "leftover processes" in again.output()
        assert _living(processes) == []
        assert "idle" in again.run(["sinfo", "-h", "-o", "%T"]).stdout
    assert _left(small.home.root) == []


@pytest.fixture(scope="module")
def carols(demo: Demo) -> Iterator[Demo]:
    """A whole demo that an ordinary account, carol, has started; known in its namespace only."""
    if os.geteuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    with a_home() as place:
        home, cache = place / "h", place / "c"
        home.mkdir()
        cache.mkdir()
        for name in ("apptainer", "images", "environments", "node"):  # made by `demo`
            (cache / name).symlink_to(demo.home.cache / name)
        os.chown(home, 7001, 7001)
        os.chown(cache, 7001, 7001)
        line = f"carol:x:7001:7001::{home}:/bin/sh\n"
        (place / "passwd").write_text(Path("/etc/passwd").read_text() + line)
        (place / "group").write_text(Path("/etc/group").read_text() + "carol:x:7001:\n")
        # As Debian's installer writes it: the machine's own name is not 127.0.0.1.
        own = socket.gethostname()
        (place / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {own}\n")
        # /dev/fuse is open to everyone on most machines; on others this makes it so for carol.
        script = f"""set -e
            mount --bind {place}/passwd /etc/passwd
            mount --bind {place}/group /etc/group
            mount --bind {place}/hosts /etc/hosts
            if [ -e /dev/fuse ]; then
                mkdir {place}/dev
                mount -t tmpfs none {place}/dev
                mknod -m 666 {place}/dev/fuse c 10 229
                mount --bind {place}/dev/fuse /dev/fuse
            fi
            exec setpriv --reuid=7001 --regid=7001 --clear-groups \\
                env HOME={home} PORTAL_CACHE={cache} "$@" """
        prefix = ("unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh")
        # Nothing is prepared in her cache: a first start, with every step of it.
        port = f"--port={free_port()}"
        with started_demo(port, prefix=prefix, place=home, prepared=False) as started:
            yield started


def as_carol(demo: Demo, *argv: str) -> str:
    """Run a command as carol in her demo's namespace; its output."""
    enter = ["nsenter", f"--target={demo.words['pid']}", "--mount", "--", "setpriv"]
    become = ["--reuid=7001", "--regid=7001", "--clear-groups", "env", "-C", str(demo.home.root)]
    said = subprocess.run(
        [*enter, *become, *demo.command(argv)], capture_output=True, text=True, timeout=60
    )
    assert said.returncode == 0, said.stderr
    return said.stdout


def test_an_ordinary_user_starts_everything_under_one_account(carols: Demo) -> None:
    assert not carols.people
    assert "one account (carol)" in carols.output()
    assert {Path(f"/proc/{pid}").stat().st_uid for pid in _left(carols.home.root)} == {7001}
    assert stat.S_IMODE(carols.home.demo.stat().st_mode) == 0o700
    job = as_carol(carols, "sbatch", "--wait", "--parsable", "--gpus=1", "--wrap=true").strip()
    assert "COMPLETED" in as_carol(carols, "scontrol", "show", "job", job)


def test_jobs_under_one_account_are_found(carols: Demo) -> None:
    """They hang below init, and their slurmstepd has no environment that could be read."""
    as_carol(carols, "sbatch", "--time=10", "--wrap=exec sleep 987656")
    root = carols.home.root
    _wait(lambda: any("sleep 987656" in _command_line(pid) for pid in _left(root)))
    as_carol(carols, "scancel", "--user=carol")
    _wait(lambda: not any("sleep 987656" in _command_line(pid) for pid in _left(root)))


def test_a_session_under_one_account(carols: Demo) -> None:
    ada = Person(carols.url, "ada")
    assert ada.logged_in
    assert "one account, carol" in ada.page("/hub/home")
    for environment in ("python-venv", "jupyterlab"):
        answer = ada.launch({"environment": environment, "gpus": 1})
        assert answer.status_code < 300, answer.text + carols.session_logs()
        ada.wait_ready()
        assert ada.session("GET", "api/contents").status_code == 200
        assert _open_to_all(carols) == set()
        ada.stop()


def test_where_mount_namespaces_are_refused_root_gets_the_other_form() -> None:
    """As in a plain container: root without CAP_SYS_ADMIN."""
    if os.geteuid() != 0:
        pytest.skip(ROOT_ONLY)
    prefix = ("setpriv", "--bounding-set=-sys_admin")
    with a_home() as place, started_demo("--only=slurm", prefix=prefix, place=place) as demo:
        assert not demo.people
        assert "no permission for mount namespaces" in demo.output()
        demo.run(["sbatch", "--wait", "--gpus=1", "--output=/dev/null", "--wrap=true"])


# -- looking at processes -------------------------------------------------------------------------


def _left(home: Path) -> list[int]:
    """Live processes of the demo in ``home``."""
    found = leftovers(home, home / "demo/run")
    return [pid for pid in found if start_time(pid) is not None]


def _wait(condition: Any, seconds: float = 240) -> None:
    end = time.monotonic() + patience(seconds)
    while not condition():
        assert time.monotonic() < end, "not within the time"
        time.sleep(0.1)


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _open_to_all(demo: Demo) -> set[str]:
    """Names of the demo's processes that listen on every address of the machine."""
    listening = _listening_on_all()
    pids = [demo.words["pid"], *_left(demo.home.root)]
    return {_name(pid) for pid in pids if _sockets(pid) & listening}


def _listening_on_all() -> set[str]:
    """Inodes of TCP sockets that listen on every address (proc(5), /proc/net/tcp)."""
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and set(fields[1].split(":")[0]) == {"0"}:
                found.add(f"socket:[{fields[9]}]")
    return found


def _sockets(pid: int) -> set[str]:
    found = set()
    for entry in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            found.add(str(entry.readlink()))
        except OSError:
            continue
    return found
