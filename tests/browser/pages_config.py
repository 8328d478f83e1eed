"""A real Hub for looking at the pages without Slurm: no proxy, a built snapshot, and a spawner
whose environments say how a start goes. Started by test_pages.py."""

import asyncio
import contextlib
import os
import sys
import time
import tomllib
from pathlib import Path
from types import SimpleNamespace

from jupyterhub.auth import DummyAuthenticator
from jupyterhub.proxy import Proxy
from jupyterhub.spawner import Spawner, SpawnException
from tornado import web
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

ROOT = Path(__file__).parents[2]
# As pytest has it: what the tests share is here and there below tests/.
_SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
sys.path[:0] = [str(ROOT / folder) for folder in _SETTINGS["pythonpath"]]

from test_form import GIB, ROWS, environment, snapshot  # noqa: E402

from portal.catalog.offers.preferences import NO_PREFERENCES, Preferences  # noqa: E402
from portal.errors import InvalidRequest, NotFound  # noqa: E402
from portal.launch.request import options_from_form  # noqa: E402
from portal.models.cluster.cluster import Job, JobState  # noqa: E402
from portal.models.person import Person  # noqa: E402
from portal.models.session.resources import Resources  # noqa: E402
from spawners.form import words  # noqa: E402
from spawners.form.form import LaunchForm  # noqa: E402
from spawners.host.storage import StorageArea  # noqa: E402
from spawners.hub_setup import set_up_hub  # noqa: E402

ENVIRONMENTS = {
    e.name: e
    for e in [
        environment(
            "pytorch",
            title="PyTorch 2.9",
            description="PyTorch with CUDA 13, from NGC. The usual choice for training.",
            tags=("ngc", "cuda 13"),
            icon="fire",
            gpu_types=("v100",),
            default=Resources(gpus=1, cpus=8, memory="32G"),
            order=1,
        ),
        environment(
            "slow",
            title="Scientific Python",
            description="NumPy, SciPy, pandas and scikit-learn.",
            kind="venv",
            path="/venv",
            image=None,
            icon="python",
            order=2,
        ),
        environment(
            "fails",
            title="GCC 14 and OpenMPI 5",
            description="What the cluster's modules offer.",
            kind="modules",
            path="/venv",
            modules=("gcc/14", "openmpi/5"),
            max_gpus=0,
            order=3,
        ),
        environment("ready", title="Ready at once", description="Answers.", max_time="4:00:00"),
    ]
}
MANY = [
    environment(
        f"env-{n:03}",
        title=f"Environment {n}",
        description=f"Description of *{n}*.",
        tags=("odd" if n % 2 else "even", "ngc", f"group {n % 20}"),
        gpu_types=("v100",),
    )
    for n in range(200)
]
HABITS = Preferences(frozenset({"env-150"}), {"env-007": 1.7e9})
GPU_TYPES = {
    "v100": {"title": "V100", "memory": "32 GB", "interconnect": "NVLink"},
    "t4": {"title": "T4", "memory": "16 GB", "interconnect": "PCIe"},
}
AREAS = [
    StorageArea("Home", "/home/ada", 120 * GIB, 200 * GIB, required=True, shown="~"),
    StorageArea("Scratch", "/scratch/ada", 1 * GIB, 4000 * GIB),
    StorageArea("Data", "/data", answers=False),
]


class Catalog:
    """Just enough of the catalog for the environment's title."""

    def get(self, name, person):
        if name not in ENVIRONMENTS:
            raise NotFound("gone")
        return ENVIRONMENTS[name]


class PagesSpawner(Spawner):
    """Starts nothing: each environment stands for one way a start can go."""

    form = LaunchForm(gpu_types=GPU_TYPES, simulated_gpus=True)
    job_id = ""
    job = None
    last_ending = None
    servers: dict[str, HTTPServer] = {}

    @property
    def shared(self):
        cluster = SimpleNamespace(last=self.snapshot())
        return SimpleNamespace(catalog=Catalog(), form=self.form, cluster=cluster)

    def snapshot(self):
        """What Slurm said last; for `later` that was a while ago."""
        if self.user.name != "later":
            return snapshot()
        error = "slurmctld did not answer within 10 s."
        return snapshot(taken_at=time.time() - 300, error=error)

    @property
    def person(self):
        return Person(name=self.user.name)

    async def options_form(self, spawner):
        return await self.launch_form(self.name, {}, "")

    async def launch_form(self, server, linked, problem):
        form = self.form
        rows = (*ROWS, ROWS[0].model_copy(update={"account": "dl101", "is_default_account": False}))
        problems = [problem] if problem else []
        if self.user.name == "nobody":
            rows, problems = (), form.problems((), self.person)
        many = self.user.name == "many"
        view = form.view(
            self.snapshot(),
            MANY if many else list(ENVIRONMENTS.values()),
            rows,
            self.person,
            last=self.user_options,
            linked=linked,
            storage=AREAS,
            problems=problems,
            defaults=Resources(cpus=2, memory="4G", time="2:00:00"),
            preferences=HABITS if many else NO_PREFERENCES,
        )
        return form.render(view)

    def options_from_form(self, formdata):
        try:
            return options_from_form(formdata)
        except InvalidRequest as error:
            raise SpawnException(error.message, reason=error.code) from None

    async def start(self):
        kind = self.user_options["environment"]
        self.job_id = "4711"
        self.last_ending = None
        self.watched = asyncio.Event()
        if kind == "pytorch":
            raise SpawnException("The account 'research' may not use 4 GPUs.", reason="not_allowed")
        self.job = Job(id="4711", state=JobState.PENDING, reason="Resources", start_time=2**31)
        # It is watched before it is ready, however slow the browser is.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.watched.wait(), 30)
        await asyncio.sleep(1.5)
        if kind == "fails":
            message = "The job ended before its server answered: exit code 1."
            log = "module load gcc/14\n<b>ModuleNotFoundError</b>: No module named 'jupyterhub'\n"
            self.last_ending = {"code": "start_failed", "message": message, "log": log * 3}
            self.last_ending["job_id"] = "4711"
            raise SpawnException(message, reason="start_failed")
        if kind == "slow":
            await asyncio.sleep(600)
        now = time.time()
        self.job = Job(id="4711", state=JobState.RUNNING, nodes=("gpu02",), end_time=now + 7200)
        return self.serve()

    def serve(self):
        class Answer(web.RequestHandler):
            def prepare(self):
                self.finish("<h1 id=lab>A session</h1>")

        (socket,) = bind_sockets(0, "127.0.0.1")
        server = HTTPServer(web.Application([(".*", Answer)]))
        server.add_sockets([socket])
        self.servers[self._log_name] = server
        return f"http://127.0.0.1:{socket.getsockname()[1]}"

    def get_state(self):
        return {"ending": self.last_ending} if self.last_ending else {}

    def load_state(self, state):
        self.last_ending = state.get("ending")

    async def progress(self):
        self.watched.set()
        yield {"progress": 20, "message": "Submitted to Slurm as job 4711", "job_id": "4711"}
        await asyncio.sleep(0.3)
        text = "Job 4711: waiting for resources: 3rd in the queue, expected 10:42"
        yield {"progress": 30, "message": text + " <img src=x>", "job_id": "4711"}
        await asyncio.sleep(600)

    async def poll(self):
        return None if self._log_name in self.servers else 0

    async def stop(self, now=False):
        server = self.servers.pop(self._log_name, None)
        if server:
            server.stop()
        words = "The session was stopped from the portal."
        self.last_ending = {"code": "stopped", "message": words, "log": ""}


class NoProxy(Proxy):
    """The browser talks to the Hub itself; only the Hub's own pages are looked at."""

    should_start = False
    routes: dict[str, dict] = {}

    async def add_route(self, routespec, target, data):
        self.routes[routespec] = {"routespec": routespec, "target": target, "data": data}

    async def delete_route(self, routespec):
        self.routes.pop(routespec, None)

    async def get_all_routes(self):
        return dict(self.routes)


c = get_config()  # noqa: F821  given by traitlets
set_up_hub()
port = int(os.environ["PAGES_PORT"])
c.JupyterHub.bind_url = f"http://127.0.0.1:{port}"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{port}"
c.JupyterHub.proxy_class = NoProxy
c.JupyterHub.spawner_class = PagesSpawner
c.JupyterHub.authenticator_class = DummyAuthenticator
c.DummyAuthenticator.password = "portal-demo"
c.Authenticator.allow_all = True
c.JupyterHub.db_url = "sqlite:///:memory:"
c.JupyterHub.allow_named_servers = True
c.JupyterHub.template_paths = [str(ROOT / "templates")]
c.JupyterHub.logo_file = str(ROOT / "static" / "logo.svg")
c.JupyterHub.template_vars = {
    "words": words.FOR_PAGES,
    "portal_notice": "Demo: simulated GPUs, everything under one account.",
}
c.JupyterHub.cookie_secret = b"\x07" * 32
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 1}
