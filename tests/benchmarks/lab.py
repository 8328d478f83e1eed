"""A JupyterLab session in the container, compared with the same server started by hand."""

from __future__ import annotations

import contextlib
import json
import statistics
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
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
PATIENCE = 90.0  # seconds for a start


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except urllib.error.HTTPError:
        return False
    except OSError:
        return False


def shipped(cluster: Cluster, name: str = ENVIRONMENT) -> Environment:
    """Return the demo's environment of that name."""
    definition = yaml.safe_load((Path(cluster.state["environments"]) / f"{name}.yaml").read_text())
    return Environment.model_validate(definition)


def by_hand(cluster: Cluster, environment: Environment | None = None) -> float:
    """Return the seconds from ``sbatch`` to an answer; same script, command and resources."""
    with server_by_hand(cluster, environment) as (_, seconds):
        return seconds


@contextlib.contextmanager
def server_by_hand(
    cluster: Cluster, environment: Environment | None = None
) -> Iterator[tuple[str, float]]:
    """Start a server with ``sbatch``, in the demo's container unless another environment is given;
    yield its URL and the seconds until it answered.

    It reports its port to the responder instead of a Hub, and asks it for the user of a token, so
    it does the same work as in a session.
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
    """Submit the job of a server as ``who``; return its id. It posts its port to /posted/WHO,
    unless ``server`` is the command of another."""
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
    done = cluster.running.run(
        ["sbatch", "--parsable", *options, str(session_script()), *command], who, env
    )
    return done.stdout.strip()


def through_portal(cluster: Cluster, person: Person) -> float:
    """Return the seconds from the launch to the server's first answer through the proxy."""
    began = time.monotonic()
    try:
        response = person.launch({"environment": ENVIRONMENT, **RESOURCES})
        if response.status_code == 202:
            _follow(person)
        elif response.status_code != 201:
            raise NotMeasured(f"the launch was refused: {response.status_code} {response.text}")
        wait_for("the session", lambda: person.session("GET", "api").is_success, 10, 0.02)
        return time.monotonic() - began
    finally:
        person.stop()
        wait_for_none(cluster)


def _follow(person: Person) -> None:
    """Follow the launch's events, as the progress page does, until the session is ready."""
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
    """Wait until no job of the last turn is left."""
    wait_for("no job of the last turn", lambda: not cluster.run("squeue", "-h").split(), 60)


def compared(
    what: str,
    by_hand: Callable[[], float],
    through_portal: Callable[[], float],
    percent: int = 0,
) -> Row:
    """Return the row of starts in seconds; the two take turns, after a start each to warm the
    machine's caches. The portal may need half a second more than its peer, and ``percent`` more."""
    by_hand()
    through_portal()
    hand, ours = [], []
    for _ in range(TIMES):
        hand.append(by_hand())
        ours.append(through_portal())
    print("  by hand: " + ", ".join(f"{seconds:.2f}" for seconds in hand) + " s")
    print("  portal: " + ", ".join(f"{seconds:.2f}" for seconds in ours) + " s", flush=True)
    value, peer = statistics.median(ours), statistics.median(hand)
    share = f" + {percent} %" if percent else ""
    met = value <= (1 + percent / 100) * peer + 0.5
    goal = f"at most peer{share} + 0.5 s"
    return Row(what, value, "s", "sbatch by hand", peer, goal=goal, met=met)


def measure(cluster: Cluster) -> list[Row]:
    """Return the row of a session."""
    person = Person(str(cluster.state["url"]), WHO)
    return [compared(WHAT, lambda: by_hand(cluster), lambda: through_portal(cluster, person))]
