"""Files of the product that "Run as job" passes, from JupyterLab's dialog to sbatch and back, in
the session's server, the web service and the Hub. Slurm, the facts about the cluster, the catalog
and JupyterHub's own part are played."""

from __future__ import annotations

import argparse
import inspect
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clusters import gpu_node, snapshot
from jupyter_server.auth.authorizer import AllowAllAuthorizer
from portal_session.runs import plan
from portal_session.runs.lab import handlers
from portal_session.service import Address, Service
from pydantic import BaseModel
from served import served as served_application
from session_endpoints import of_server, parts_on, served
from tornado.web import Application, RequestHandler
from traitlets.config import Config

from portal.errors import PortalError
from portal.gpus.settings import Gpus
from portal.hubapi import HubApi
from portal.models.catalog.environment import Environment
from portal.models.cluster.cluster import Job, JobState, Partition
from portal.models.session.session import SessionRecord, SessionState
from portal.setting import SiteSettings
from portal.slurm import Cluster
from portal.store import Store
from portal.work.run.endpoints import start
from spawners.context import HubContext
from spawners.spawner import PortalSpawner

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = tuple(str(ROOT / part) + "/" for part in ("portal", "spawners", "kernels/portal_session"))
# Fewer are better. Most of the others have facts, such as the limits of a partition.
MOST, MOST_GIVEN = 93, 45
NAME = "zebra"  # of the run
ENVIRONMENT = Environment(name="torch", title="Torch", kind="venv", path="/opt/torch")
CLUSTER = snapshot(gpu_node("gpu01", "v100", 4)).model_copy(
    update={"partitions": {"gpu": Partition(name="gpu", default=True, nodes=("gpu01",))}}
)
ASKER = SessionRecord(
    id="1", user="ada", server="", job_id="11", state=SessionState.RUNNING, submitted_at=1.0,
    environment="torch", options={"environment": "torch"},
)  # fmt: skip


class Trace:
    """Files of the product in which a function runs, in any thread, while it is on; ``given``:
    those of them in which one is given the request, or what was made of it. The bodies of modules
    and classes do not count: they run once, whatever is asked for."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.given: set[str] = set()
        self.calls = Counter[str]()  # by function
        self.read = Counter[str]()  # quantities that were read, by their text
        self._busy = threading.local()

    def __enter__(self) -> Trace:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]

    def _note(self, frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PRODUCT):
            return
        if not code.co_flags & inspect.CO_NEWLOCALS or getattr(self._busy, "now", False):
            return
        file = code.co_filename.removeprefix(f"{ROOT}/")
        self.files.add(file)
        self.calls[code.co_qualname] += 1
        if code.co_qualname == "_Quantity.read":
            self.read[frame.f_locals["text"]] += 1
        self._busy.now = True  # a repr may call the product
        try:
            if any(self._has_request(value) for value in inspect.getargvalues(frame)[3].values()):
                self.given.add(file)
        finally:
            self._busy.now = False

    def _has_request(self, value: Any) -> bool:
        """Return True for text, JSON, options or a model with the name of the run."""
        kinds = (str, bytes, dict, list, tuple, argparse.Namespace, BaseModel)
        return isinstance(value, kinds) and NAME in repr(value)


class PlayedHub(RequestHandler):
    """JupyterHub's part: it hands the options to the portal's spawner, which submits the job."""

    async def post(self, user: str, server: str) -> None:
        options = json.loads(self.request.body)["user_options"]
        spawner = self.settings["spawner_of"](user, server)
        try:
            await spawner.validate_options(options)
            self.settings["jobs"].append(await submitted(spawner))
        except PortalError as error:
            self.set_status(400)
            self.finish(json.dumps({"message": error.message}))
            return
        self.set_status(201)


async def submitted(spawner: PortalSpawner) -> str:
    """Submit the job as ``PortalSpawner.start`` does."""
    from spawners.launch.submit import submit_once

    assert spawner._request is not None
    return await submit_once(spawner, spawner._request)


class Facts(Cluster):
    """The watcher of a cluster whose state is known; it submits jobs."""

    async def snapshot(self, *_: Any, **__: Any) -> Any:
        return CLUSTER

    async def associations(self, user: str) -> Any:
        return None

    async def most_array_tasks(self) -> int | None:
        return None

    async def kill_wait(self) -> int | None:
        return None

    def expect_launches(self) -> None:
        pass


def spawner_for(user: str, server: str) -> PortalSpawner:
    """Return the portal's spawner as JupyterHub makes it for a server of ``user``."""
    owner = SimpleNamespace(
        name=user, id=1, groups=[], admin=False, spawners={}, orm_spawners={}, url=f"/user/{user}/",
        escaped_name=user, base_url=f"/user/{user}/", orm_user=SimpleNamespace(id=1),
        db=SimpleNamespace(commit=lambda: None), server_url=lambda name: f"/user/{user}/{name}",
    )  # fmt: skip
    row = SimpleNamespace(name=server, user_options={}, state={}, server=None)
    hub = SimpleNamespace(
        api_url="http://hub", base_url="/hub/", public_host="", server=SimpleNamespace()
    )
    return PortalSpawner(user=owner, orm_spawner=row, hub=hub, api_token="token", config=Config())


def facts_of_hub(store: Store, sbatch: Path) -> Any:
    """Return the objects that the Hub's spawners share, with a played sbatch."""
    config = Config({"SlurmRunner": {"commands": {"sbatch": str(sbatch)}, "sudo": []}})

    async def load() -> None:
        pass

    async def query_areas(*_: Any) -> tuple[Any, ...]:
        return ()

    return SimpleNamespace(
        cluster=Facts(config=config),
        catalog=SimpleNamespace(load=load, visible_to=lambda person: [ENVIRONMENT]),
        form=SimpleNamespace(problems=lambda *_: [], contact=""),
        storage=SimpleNamespace(query_areas=query_areas),
        store=store,
        settings=SiteSettings(),
        gpus=Gpus(),
        images=SimpleNamespace(
            beside="", verify=False, public_keys="", node_cache="", service_account="portal"
        ),
        blocking=None, services=frozenset(), refused=None,
        began=time.monotonic() - 1000,
        recorder=SimpleNamespace(closing=SimpleNamespace(orphans=lambda user, server: [])),
    )  # fmt: skip


@pytest.fixture
async def way(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Any, list[str]]]:
    """Yield the client of a session's server, behind which are a service and a Hub, and the list of
    the jobs that Slurm gets."""
    home, sbatch, jobs = tmp_path / "home", tmp_path / "sbatch", list[str]()
    home.mkdir()
    (home / "train.py").write_text("print('on')\n")
    sbatch.write_text('#!/bin/sh\necho "$@" >"$0.argv"\necho 42\n')
    sbatch.chmod(0o755)
    monkeypatch.setattr(HubContext, "_only", facts_of_hub(store, sbatch))
    monkeypatch.setattr("spawners.launch.user_options.ensure_set_up", lambda: None)

    async def home_of(spawner: Any) -> str:
        return str(home)

    monkeypatch.setattr(PortalSpawner, "home", home_of)
    monkeypatch.setattr(plan, "git_state", lambda folder: None)
    monkeypatch.setattr(handlers._Handler, "get_current_user", lambda _: "ada")
    monkeypatch.setattr(handlers._Handler, "check_xsrf_cookie", lambda _: None)
    monkeypatch.setattr(handlers._Handler, "prepare", lambda _: None)
    monkeypatch.setenv("PORTAL_ENVIRONMENT", "torch")
    await store.sessions.save(ASKER)
    view = SimpleNamespace(
        sessions={"11": ASKER}, jobs={},
        snapshot=snapshot(Job(id="11", user="ada", state=JobState.RUNNING)),
    )  # fmt: skip

    async def refreshed() -> None:
        pass

    dashboard = SimpleNamespace(view=view, refreshed=refreshed)
    hub = Application(
        [("/hub/api/users/([^/]+)/servers/([^/]+)", PlayedHub)],
        spawner_of=spawner_for, jobs=jobs, log_function=lambda _: None,
    )  # fmt: skip
    async with served_application(hub) as at:
        api = HubApi(api_url=f"http://127.0.0.1:{at.port}/hub/api", api_token="service")
        parts = parts_on(store, dashboard=dashboard, hub=api)
        async with served(start.ENDPOINTS, parts, {"session": of_server("ada")}.get) as service:
            url = str(service.base_url).removesuffix("/api/v1/")
            routes = handlers.routes("/user/ada/", Service(Address(url, "session"), {}).ask, home)
            session = Application(routes, authorizer=AllowAllAuthorizer())
            async with served_application(session) as server:
                yield server, jobs


@pytest.fixture
async def trace(way: tuple[Any, list[str]]) -> Trace:
    """Return the trace of a run that was started with the dialog."""
    server, jobs = way
    body = {
        "source": "train.py", "name": NAME, "values": {"lr": "0.1,0.2"},
        "resources": {"gpus": 1, "memory": "8G"},
    }  # fmt: skip
    with Trace() as trace:
        answer = await server.ask("POST", "/user/ada/portal/runs", body=json.dumps(body).encode())
    assert answer.status == 200, answer.text
    assert json.loads(answer.text)["points"] == 2 and jobs == ["42"]
    return trace


async def test_run_as_job_passes_few_files(trace: Trace) -> None:
    files = sorted(trace.files)
    assert len(files) <= MOST, "\n".join(files)
    given = sorted(trace.given)
    assert len(given) <= MOST_GIVEN, "\n".join(given)


async def test_a_request_is_validated_where_it_enters_a_process(trace: Trace) -> None:
    """Once by the service, once by the Hub: what is passed on within them is what they validated.
    The Hub's copy in the database is not the request."""
    assert trace.calls["AskedRun._only_has_its_points"] == 2
    assert trace.read["8G"] == 2, "the text of the memory"
