"""One JupyterLab session in the container, beside the same server started by hand."""

from __future__ import annotations

import contextlib
import json
import statistics
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml

from portal.launch.container import sbatch_options, session_command, session_script, user_base
from portal.models.catalog.environment import Environment
from portal.models.session.resources import Resources
from tests.support.demo.hub_client import Person

from .cluster import Cluster, NotMeasured, wait_for
from .report import Row

WHAT = "One JupyterLab session in the container: click to ready"
WHO = "ada"
ENVIRONMENT = "jupyterlab"
RESOURCES: dict[str, Any] = {"gpus": 1, "cpus": 2, "memory": "4G", "time": "0:30:00"}
TIMES = 5
PATIENCE = 90.0  # seconds for one start


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError:
        return False
    except OSError:
        return False


def shipped(cluster: Cluster, name: str = ENVIRONMENT) -> Environment:
    """The demo's environment of that name."""
    words = yaml.safe_load((Path(cluster.state["environments"]) / f"{name}.yaml").read_text())
    return Environment.model_validate(words)


def by_hand(cluster: Cluster, environment: Environment | None = None) -> float:
    """Seconds from ``sbatch`` until the server answers; same script, command and resources."""
    with server_by_hand(cluster, environment) as (_, seconds):
        return seconds


@contextlib.contextmanager
def server_by_hand(
    cluster: Cluster, environment: Environment | None = None
) -> Iterator[tuple[str, float]]:
    """A server that was started with ``sbatch``, in the demo's container unless another
    environment is named: its address, and the seconds until it answered.

    It says its port to the responder instead of a Hub, and asks it who comes, so it does the same
    work as in a session.
    """
    cluster.posts()
    began = time.monotonic()
    job = submit_by_hand(cluster, WHO, environment or shipped(cluster), RESOURCES, "gpu")
    try:
        _, body = wait_for("the server by hand", lambda: cluster.posts().get(WHO), PATIENCE, 0.02)
        url = f"http://127.0.0.1:{json.loads(body)['port']}/user/{WHO}/"
        wait_for("the server by hand", lambda: answers(f"{url}api"), PATIENCE, 0.02)
        yield url, time.monotonic() - began
    finally:
        cluster.run("scancel", job)
        wait_for_none(cluster)


def submit_by_hand(
    cluster: Cluster,
    who: str,
    environment: Environment,
    wanted: Mapping[str, Any],
    partition: str = "cpu",
    server: Sequence[str] = (),
) -> str:
    """Submit the job of a server as ``who``; its id. It posts its port as /posted/WHO, unless
    ``server`` is the command of another."""
    state = cluster.state
    resources = Resources(**wanted, partition=partition)
    home = f"{state['homes']}/{who}"
    variables = {
        "JUPYTERHUB_API_URL": f"{cluster.responder_url}/posted/{who}",
        "JUPYTERHUB_API_TOKEN": "none",
        "JUPYTERHUB_ALLOW_TOKEN_IN_URL": "1",
        "JUPYTERHUB_BASE_URL": "/",
        "JUPYTERHUB_CLIENT_ID": f"jupyterhub-user-{who}",
        "JUPYTERHUB_HOST": "",
        "JUPYTERHUB_OAUTH_CALLBACK_URL": f"/user/{who}/oauth_callback",
        "JUPYTERHUB_OAUTH_ACCESS_SCOPES": json.dumps([f"access:servers!server={who}/"]),
        "JUPYTERHUB_SERVICE_PREFIX": f"/user/{who}/",
        "JUPYTERHUB_SERVICE_URL": f"http://0.0.0.0:0/user/{who}/",
        "JUPYTERHUB_USER": who,
        "PYTHONUSERBASE": user_base(environment, home),
        "LANG": "C.UTF-8",
    }
    env = {"PORTAL_KIND": str(environment.kind)}
    env |= {f"APPTAINERENV_{name}": value for name, value in variables.items()}
    command = session_command(
        environment, resources, home=home, apptainer=state["apptainer"], server=server
    )
    options = sbatch_options(resources, name="by-hand", output="/dev/null", directory=home)
    told = cluster.running.run(
        ["sbatch", "--parsable", *options, str(session_script()), *command], who, env
    )
    return told.stdout.strip()


def through_portal(cluster: Cluster, person: Person) -> float:
    """Seconds from the launch to the first answer of the server through the proxy."""
    began = time.monotonic()
    try:
        answer = person.launch({"environment": ENVIRONMENT, **RESOURCES})
        if answer.status_code == 202:
            _follow(person)
        elif answer.status_code != 201:
            raise NotMeasured(f"the launch was refused: {answer.status_code} {answer.text}")
        wait_for("the session", lambda: person.session("GET", "api").is_success, 10, 0.02)
        return time.monotonic() - began
    finally:
        person.stop()
        wait_for_none(cluster)


def _follow(person: Person) -> None:
    """Listen to the launch's events, as the progress page does, until it is ready."""
    with httpx.stream(
        "GET",
        f"{person.url}/hub/api{person.server_path()}/progress",
        headers={"Authorization": f"token {person.token}"},
        timeout=PATIENCE,
    ) as events:
        for line in events.iter_lines():
            if line.startswith("data:"):
                event = json.loads(line[5:])
                if event.get("failed"):
                    raise NotMeasured(f"the session failed: {event}")
                if event.get("ready"):
                    return
    raise NotMeasured("the Hub stopped telling how the launch goes on")


def wait_for_none(cluster: Cluster) -> None:
    """Return once no job is left of the last turn."""
    wait_for("no job of the last turn", lambda: not cluster.run("squeue", "-h").split(), 60)


def measure(cluster: Cluster) -> list[Row]:
    """The row of one session; the two take turns, after one start each that warms the caches."""
    person = Person(str(cluster.state["url"]), WHO)
    by_hand(cluster)
    through_portal(cluster, person)
    hand, ours = [], []
    for _ in range(TIMES):
        hand.append(by_hand(cluster))
        ours.append(through_portal(cluster, person))
    print("  by hand: " + ", ".join(f"{seconds:.2f}" for seconds in hand) + " s")
    print("  portal: " + ", ".join(f"{seconds:.2f}" for seconds in ours) + " s", flush=True)
    value, peer = statistics.median(ours), statistics.median(hand)
    return [
        Row(
            WHAT,
            value,
            "s",
            "sbatch by hand",
            peer,
            None,
            "at most peer + 0.5 s",
            value <= peer + 0.5,
        )
    ]
