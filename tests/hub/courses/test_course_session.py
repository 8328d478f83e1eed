"""A course's session on the real demo: what is seen from inside, and what is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import local_hosts
import pytest
from api_client import Caller
from hub_client import Person, wait_until
from jobs import living_jobs, only_job
from terminal import session_token, terminal

COURSE = "dl101"
SERVER = f"course-{COURSE}"
SECRET = "only-at-home-4711"


@pytest.fixture(scope="module")
def student(demo: Any) -> Iterator[Person]:
    """A student with things that are nobody's business, and a running session of the course."""
    someone = Person(demo.url, "student06")
    someone.api("GET", "/user")
    someone.stop(SERVER)
    at_home = (
        f"echo {SECRET} >~/secret.txt; mkdir -p ~/.ssh && echo {SECRET} >~/.ssh/id; "
        f"echo {SECRET} >/tmp/{SECRET}; echo {SECRET} >/dev/shm/{SECRET}; "
        f"nohup setsid sh -c 'sleep 600; : {SECRET}' >/dev/null 2>&1 & echo $!"
    )
    demo.run(["sh", "-c", f"cd; {at_home}"], user=demo.user("student06"))
    answer = someone.launch({"course": COURSE}, SERVER)
    assert answer.status_code in (201, 202), answer.text
    someone.wait_ready(SERVER)
    yield someone
    someone.stop(SERVER)
    away = (
        f"pkill -u $(id -u) -f {SECRET}; rm -rf ~/secret.txt ~/.ssh /tmp/{SECRET} /dev/shm/{SECRET}"
    )
    demo.run(["sh", "-c", f"cd; {away}"], user=demo.user("student06"), check=False)


def home_of(demo: Any, name: str) -> str:
    return str(demo.run(["sh", "-c", f"echo ~{name}"]).stdout.strip())


def test_nothing_of_the_students_home_is_in_the_session(demo: Any, student: Person) -> None:
    host = home_of(demo, "student06")
    # The proof that the secrets are where the session could have seen them.
    there = demo.run(["cat", f"{host}/secret.txt"], user=demo.user("student06")).stdout
    assert SECRET in there
    seen = terminal(
        student,
        f"echo home=$HOME; cat {host}/secret.txt ~/secret.txt ~/.ssh/id ~/../secret.txt; "
        f"cat /proc/*/cwd/secret.txt /proc/*/root{host}/secret.txt; "
        "ls -A ~; ls -A /tmp /var/tmp /dev/shm /home /mnt /media; "
        "cat /proc/[0-9]*/cmdline | tr '\\0' ' '",
        SERVER,
    )
    assert "home=/home/student06" in seen
    assert SECRET not in seen.replace(f"cat {host}/secret.txt", "")
    assert seen.count("No such file") >= 4
    assert "student05" not in seen


def test_nothing_of_the_node_can_be_reached(demo: Any, student: Person) -> None:
    # In a session of the student's own, these are there.
    seen = terminal(
        student,
        "ls -d /run/munge /var/run/munge /etc/slurm /data /scratch; "
        "command -v sbatch squeue scontrol; grep -c . /proc/self/mountinfo; "
        "grep -E ' (ext4|xfs|nfs4?|btrfs|fuse[^ ]*) ' /proc/self/mountinfo | cut -d' ' -f5,6; "
        "for file in /etc/hosts /etc/localtime; do test -w $file && echo may-write; done",
        SERVER,
    )
    assert "munge" not in seen.replace("'/run/munge'", "").replace("'/var/run/munge'", "")
    assert "/usr/bin/sbatch" not in seen
    assert "may-write" not in seen
    writable = [
        line.split()[0]
        for line in seen.splitlines()
        if len(line.split()) == 2 and line.split()[1].startswith("rw")
    ]
    assert set(writable) <= {
        "/tmp",
        "/var/tmp",
        "/home/student06",
        "/etc/hosts",
        "/etc/resolv.conf",
        "/etc/localtime",
    }


def test_its_variables_name_the_course_and_no_other_secret(student: Person) -> None:
    seen = terminal(
        student, "env; tr '\\0' '\\n' </proc/1/environ; tr '\\0' '\\n' </proc/$PPID/environ", SERVER
    )
    assert "PORTAL_COURSE=dl101" in seen
    assert "PORTAL_COURSE_KIND=course" in seen
    assert "PORTAL_COURSE_ROLE=student" in seen
    for word in ("PORTAL_COURSE_FOLDER", "SUDO_", "PORTAL_SSL", "APPTAINER_WORKDIR", "SBATCH_"):
        assert word not in seen, word


def test_what_a_guest_may_take_is_the_sessions_own_token_and_no_more(student: Person) -> None:
    """Whoever is let in can read the session's token from its server: it opens this one server."""
    token = session_token(student, SERVER)

    def ask(path: str, method: str = "GET") -> int:
        headers = {"Authorization": f"token {token}"}
        return int(local_hosts.request(method, f"{student.url}{path}", headers=headers).status_code)

    assert ask("/hub/api/users/student06/server", "POST") in (403, 404)
    assert ask("/hub/api/users/student06/tokens") in (403, 404)
    assert ask("/services/portal/api/v1/sessions") in (401, 403)


def test_the_rest_of_a_session_works_there(demo: Any, student: Person) -> None:
    data = f"{demo.home.data}/courses/{COURSE}/data"
    seen = terminal(
        student,
        "umask; id -un; pwd; stat -c '%a %U' ~ /tmp; df --output=size -B1M /tmp | tail -1; "
        "echo base=$PYTHONUSERBASE; "
        "stat -c 'tb %a' $PORTAL_TENSORBOARD_DIRECTORY; "
        f"cat {data}/README.txt; touch {data}/x; touch {data}/README.txt",
        SERVER,
    )
    assert seen.splitlines()[:3] == ["0022", "student06", "/home/student06"]
    assert seen.count("700 student06") == 2
    assert (
        int(next(line for line in seen.splitlines() if line.strip().isdigit() and line != "0022"))
        > 64
    )
    assert "base=/home/student06/.portal/jupyterlab" in seen
    assert "tb 700" in seen
    assert "Shared data of the course" in seen
    assert seen.count("Read-only file system") + seen.count("Permission denied") == 2
    kernel = student.session("POST", "api/kernels", SERVER, json={"name": "python3"})
    assert kernel.status_code == 201, kernel.text
    student.session("DELETE", f"api/kernels/{kernel.json()['id']}", SERVER)
    (row,) = living_jobs(demo, "student06")
    assert "gpu" not in row.gres


def test_what_is_made_there_is_in_the_courses_folder(demo: Any, student: Person) -> None:
    terminal(student, "echo mine >~/work.txt", SERVER)
    folder = f"{home_of(demo, 'student06')}/courses/{COURSE}"
    who = demo.user("student06")
    assert demo.run(["cat", f"{folder}/work.txt"], user=who).stdout == "mine\n"
    assert demo.run(["stat", "-c", "%a", folder], user=who).stdout.strip() == "700"
    if demo.people:
        other = demo.run(["ls", folder], user=demo.user("student07"), check=False)
        assert other.returncode != 0


@pytest.mark.parametrize(
    ("server", "options", "words"),
    [
        (SERVER, {}, "reserved for a session of the course"),
        ("course-ml", {"course": "ml"}, "There is no course 'ml' that you can access."),
        ("", {"course": COURSE}, "must have the name 'course-dl101'"),
        ("course-ml", {"course": COURSE}, "must have the name 'course-dl101'"),
        (f"preview-{COURSE}", {"course": COURSE}, "Only the staff"),
        (f"room-{COURSE}", {"course": COURSE}, "Only the staff"),
        (f"rehearsal-{COURSE}", {"course": COURSE}, "can start a rehearsal"),
        (SERVER, {"course": COURSE, "gpus": 2}, "allows at most 1 GPUs"),
        (SERVER, {"course": COURSE, "time": "5:00:00"}, "allows a time limit of at most 4 h"),
        (SERVER, {"course": COURSE, "partition": "gpu"}, "The course sets 'partition'"),
        (SERVER, {"course": COURSE, "environment": "python-venv"}, "This course uses"),
        (SERVER, {"course": "../x"}, "'course' must be"),
    ],
)
def test_what_is_refused(demo: Any, server: str, options: dict[str, Any], words: str) -> None:
    someone = Person(demo.url, "student07")
    answer = someone.launch(options, server)
    assert 400 <= answer.status_code < 500, answer.text
    assert words in answer.json()["message"]
    assert living_jobs(demo, "student07") == []


def test_who_is_in_no_course_gets_none(demo: Any, person: Any) -> None:
    answer = person("ada").launch({"course": COURSE}, SERVER)
    assert answer.status_code == 403
    assert "There is no course 'dl101' that you can access." in answer.json()["message"]


def test_a_link_out_of_the_home_starts_nothing(demo: Any) -> None:
    someone, who = Person(demo.url, "student08"), demo.user("student08")
    demo.run(["sh", "-c", "cd; rm -rf courses; mkdir -p other && ln -s other courses"], user=who)
    try:
        answer = someone.launch({"course": COURSE}, SERVER)
        if answer.status_code == 202:
            wait_until("it ended", lambda: not living_jobs(demo, "student08"))
        ended = wait_until(
            "its ending is said",
            lambda: (page := someone.page("/hub/home")) and "is a link" in page and page,
        )
        assert "must be a real folder" in ended
    finally:
        demo.run(["sh", "-c", "cd; rm -rf courses other"], user=who)


def test_a_stop_leaves_the_work_and_clears_the_node(demo: Any, student: Person) -> None:
    uid = demo.run(["id", "-u", "student06"]).stdout.strip() if demo.people else "*"
    job = only_job(demo, "student06")
    look = ["sh", "-c", f"ls -d /tmp/portal-course-{uid}-*-{job}.* 2>/dev/null || true"]
    assert demo.run(look).stdout.split()
    student.stop(SERVER)
    wait_until("the node is clear", lambda: not demo.run(look).stdout.split())
    again = student.launch({"course": COURSE}, SERVER)
    assert again.status_code in (201, 202), again.text
    student.wait_ready(SERVER)
    assert terminal(student, "cat ~/work.txt", SERVER) == "mine\n"


def test_other_resources_are_the_courses_too(demo: Any, student: Person) -> None:
    caller = Caller(demo.url, "student06")
    try:
        (record,) = wait_until(
            "the portal shows it as running",
            lambda: (
                (said := caller.get("sessions")).is_success
                and [
                    one
                    for one in said.json()["items"]
                    if one["server"] == SERVER and one["state"] == "running"
                ]
            ),
        )
        asked = f"sessions/{record['id']}/move"
        refused = caller.post(asked, json={"cpus": 8})
        assert "allows at most 4 CPUs" in refused.json()["error"]["message"], refused.text
        answer = caller.post(asked, json={"cpus": 2})
        assert answer.status_code in (200, 202), answer.text
        wait_until(
            "it has moved",
            lambda: (
                student.server(SERVER)["user_options"].get("cpus") == 2
                and len(living_jobs(demo, "student06")) == 1
            ),
            240,
        )
        assert student.server(SERVER)["user_options"]["course"] == COURSE
    finally:
        caller.close()
    assert terminal(student, "echo $PORTAL_COURSE; cat ~/work.txt", SERVER) == f"{COURSE}\nmine\n"


def test_who_is_taken_off_the_roster_starts_nothing_new(demo: Any) -> None:
    barbara, roster = Caller(demo.url, "barbara"), f"courses/{COURSE}/roster"
    student = Person(demo.url, "student12")
    try:
        answer = barbara.delete(roster, params={"person": "student12"})
        assert answer.is_success, answer.text
        refused = student.launch({"course": COURSE}, SERVER)  # at once: membership is asked anew
        assert refused.status_code == 403, refused.text
        assert f"There is no course '{COURSE}' that you can access." in refused.json()["message"]
    finally:
        barbara.post(roster, json={"text": "student12"})
        barbara.close()


def test_a_rehearsal_is_thrown_away(demo: Any) -> None:
    """As its staff starts one; the service starts those of students."""
    barbara, server = Person(demo.url, "barbara"), f"rehearsal-{COURSE}"
    answer = barbara.launch({"course": COURSE}, server)
    assert answer.status_code in (201, 202), answer.text
    try:
        barbara.wait_ready(server)
        said = terminal(barbara, "touch ~/thrown-away; pwd; echo $PORTAL_COURSE_KIND", server)
        assert said == "/home/barbara\nrehearsal\n"
    finally:
        barbara.stop(server)
    home = home_of(demo, "barbara")
    left = ["sh", "-c", f"find {home} /tmp/portal-course-* -name thrown-away 2>/dev/null || true"]
    wait_until("nothing is left", lambda: not demo.run(left).stdout.strip())


def test_the_address_of_one_that_was_stopped_is_the_hub_s_again(student: Person) -> None:
    address = student.session_url(SERVER) + "lab"
    student.stop(SERVER)
    answer = local_hosts.request("GET", address)
    assert answer.status_code == 302 and "/hub/user/student06/" in answer.headers["location"]
