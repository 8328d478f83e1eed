"""Server extension of job kernels: the broker, the kernelspecs, and the routes for JupyterLab."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import url_path_join
from tornado.web import authenticated

from ..clusters import lab
from ..clusters.clusters import Clusters
from ..clusters.kept.kept import KeptClusters
from ..clusters.routes import add_dashboards, broker_routes
from ..kernels.job_specs import BEGIN, CONTINUE
from ..local_api import LocalHandler, Refused
from ..packing import packing
from ..runs import program
from ..runs.lab.handlers import routes as routes_of_runs
from ..runs.unread import UnreadReports
from ..service import Address, Service, ServiceError
from ..situation import in_thread
from ..waiting import waiting
from . import adoption, broker, choices, specs

_SOON, _LATER = 5.0, 300.0  # seconds until the portal is asked again what it offers
_NOTHING = 30.0  # the same, if that is nothing: environments may be under test still
_TRIES = 12  # while a new session is not known to it yet
# Resources of a portal that does not list them: one that is older than this session's package.
_FORMER = {"gpus": "GPUs", "gpu_type": "", "cpus": "CPUs"} | dict.fromkeys(
    ("memory", "time", "constraint", "partition", "qos"), ""
)
_AT_A_TIME = 4  # estimates asked for at once; more wait


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension in sessions that may have such kernels."""
    address = Address.from_environ(os.environ)
    if address is None or not _may_have_kernels(os.environ):
        return
    service = Service(address, os.environ)
    kernels = broker.Kernels(service)
    broker.sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=broker.PREFIX))  # mode 700
    specs.set_folder(folder)
    program.add_to_path(os.environ, folder)
    base = app.web_app.settings["base_url"]
    clusters = Clusters(kernels, base, os.environ, app.log)
    kept = KeptClusters(kernels, base, os.environ)
    more = [
        *broker_routes(clusters, kept),
        *waiting.broker_routes(getattr(app, "portal_waiting", None)),
        *packing.broker_routes(getattr(app, "portal_packing", None)),
    ]
    server = broker.serve(kernels, folder, more)
    add_dashboards(clusters, kept, app.web_app, base)
    offer = Offer(kernels, folder, app)
    app.portal_job_kernels = offer  # strong references, for as long as the server runs
    offer.begin()
    setattr(app.kernel_manager, BEGIN, kernels.submitter.begin_early)
    setattr(app.kernel_manager, CONTINUE, offer.continue_life)
    app.web_app.add_handlers(
        ".*$",
        [
            (url_path_join(base, "portal/job-kernels"), JobKernelsHandler, {"offer": offer}),
            (url_path_join(base, "portal/job-kernels/estimate"), EstimateHandler, {"offer": offer}),
            *lab.routes(base, clusters, kept),
            *routes_of_runs(base, service.ask, Path(app.root_dir)),
        ],
    )
    ending = app.cleanup_kernels  # after the extensions (ServerApp._cleanup)

    async def end() -> None:
        offer.end()
        await ending()  # relays end their jobs through the broker
        clusters.stop()
        kept.stop()
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)

    app.cleanup_kernels = end


def _may_have_kernels(environ: Any) -> bool:
    """Return True for a session with JupyterLab: other programs have no kernels. Of a course, only
    members' own sessions may have them, if the portal says so."""
    if environ.get("PORTAL_TENSORBOARD") or environ.get("PORTAL_PROGRAM"):
        return False
    return not environ.get("PORTAL_COURSE") or environ.get("PORTAL_COURSE_KIND") == "course"


class Offer:
    """Kernels that the portal offers to this session, and their kernelspecs in ``folder``."""

    def __init__(self, kernels: broker.Kernels, folder: Path, app: Any) -> None:
        self.kernels, self.folder = kernels, folder
        self._app = app
        self._answer: dict[str, Any] = {}
        self._refusal = ""  # why the portal offers none
        self._task: asyncio.Task[None] | None = None
        self._adoption = adoption.Adoption(app, kernels)
        self._unread = UnreadReports(kernels.ask, app.log)
        self._free = asyncio.Semaphore(_AT_A_TIME)

    def begin(self) -> None:
        """Ask the portal once the event loop runs, and now and then."""
        from tornado.ioloop import IOLoop

        IOLoop.current().add_callback(self._follow_later)

    async def continue_life(self, id: str) -> bool:
        """See Adoption.continue_life."""
        return await self._adoption.continue_life(id)

    def end(self) -> None:
        """Stop asking."""
        if self._task is not None:
            self._task.cancel()
        self._adoption.end()
        self._unread.end()

    async def _follow_later(self) -> None:
        await self._adoption.expect()
        self._task = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        tries = 0
        while True:
            try:
                await self.refresh()
                await self._adoption.begin()
                self._unread.begin()
                pause = _LATER if self._answer.get("items") else _NOTHING
            except ServiceError:
                tries += 1
                pause = _SOON if tries < _TRIES and not self._refusal else _LATER
            except OSError as error:
                self._app.log.warning("Kernelspecs of job kernels: %s", error)
                pause = _LATER
            await asyncio.sleep(pause)

    async def refresh(self) -> dict[str, Any]:
        """Query the portal, and write or remove the kernelspecs: a course's instructor can allow
        and forbid them at any time. Raises ServiceError, OSError."""
        try:
            self._answer, self._refusal = await self.kernels.offered(), ""
            await in_thread(specs.note_refusal, self.folder, "")
        except ServiceError as error:
            if error.status == 403:
                self._answer, self._refusal = {}, str(error)
                await in_thread(specs.keep_only, self.folder, set())
                await in_thread(specs.note_refusal, self.folder, self._refusal)
            raise
        kernel_specs = list(specs.offered(self._answer))
        for request in await in_thread(choices.read):
            with contextlib.suppress(Refused):  # it is no longer offered
                kernel_specs.append(self._spec(request))
        await in_thread(specs.write, self.folder, kernel_specs)
        await in_thread(specs.keep_only, self.folder, {spec.name for spec in kernel_specs})
        return self._answer

    async def chosen(self, body: dict[str, Any]) -> str:
        """Write the kernelspec of what the user chose; return its name. Raises Refused, also with
        the portal's reason for what could never start."""
        spec = self._spec(body)
        await self._check(spec.request)
        if spec.name not in {usual.name for usual in specs.offered(self._answer)}:
            await in_thread(choices.add_request, spec.request)
            await in_thread(specs.write, self.folder, [spec])
        return spec.name

    def _spec(self, request: dict[str, Any]) -> specs.JobKernelSpec:
        """Return the kernelspec for an environment, a kernel and resources. Raises Refused."""
        for environment in self._answer.get("items", ()):
            for kernel in environment["kernels"]:
                named = (request.get("environment"), request.get("kernel"))
                if named == (environment["environment"], kernel["name"]):
                    options: dict[str, str] = self._answer.get("options") or _FORMER
                    asked = _checked({name: request.get(name) for name in options})
                    # What the environment has anyway is neither in its name nor in its title.
                    usual = environment.get("default") or {}
                    resources = {
                        key: value
                        for key, value in asked.items()
                        if key in ("gpus", "gpu_type") or value != usual.get(key)
                    }
                    return specs.spec_of(environment, kernel, resources, options)
        if self._refusal:
            raise Refused(403, self._refusal)
        raise Refused(404, "This environment offers no such kernel. Reload the page.")

    async def _check(self, request: dict[str, Any]) -> None:
        """Raise Refused if the portal would; while it does not answer, the launch decides."""
        try:
            answer = await self.estimate(request)
        except ServiceError as error:
            if error.status in (400, 403):
                raise Refused.by_portal(error) from None
            return
        if answer.get("outlook") == "refused":
            words = str(answer.get("words") or "The portal refused the request.")
            raise Refused(403, words, str(answer.get("field") or ""))

    async def estimate(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the portal's estimate. The kernel's name is not sent: it does not change the
        start, and the service wants it with an id. Raises ServiceError."""
        resources = {key: value for key, value in options.items() if key != "kernel"}
        async with self._free:
            return await self.kernels.estimate({"options": resources})

    async def state(self) -> dict[str, Any]:
        """Return what is offered, and the state of each kernel, a few seconds old at most while
        the portal answers. Raises Refused if none is offered, and none is left from before."""
        if self._refusal and not self.kernels.answers:
            raise Refused(403, self._refusal)
        await self.kernels.refresh()
        return {**self._answer, "kernels": self.kernels.answers}


def _checked(resources: dict[str, Any]) -> dict[str, Any]:
    """Return the resources that are set and can be in a kernelspec; the portal judges them. Raises
    Refused."""
    resources = {key: value for key, value in resources.items() if value is not None}
    for key, value in resources.items():
        whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9
        if not whole and not (isinstance(value, str) and value.isprintable() and len(value) < 100):
            raise Refused(400, f"'{key}' must be a whole number or a short text.")
    if not isinstance(resources.get("gpus", 1), int):
        raise Refused(400, "'gpus' must be a whole number.")
    return resources


class _Handler(LocalHandler):
    """Base class of the handlers."""

    def initialize(self, offer: Offer) -> None:
        self.offer = offer


class JobKernelsHandler(_Handler):
    """``portal/job-kernels``: what is offered, the kernels' states, a kernelspec for a choice."""

    @authenticated
    @authorized
    async def get(self) -> None:
        self.finish(json.dumps(await self.offer.state()))

    @authenticated
    @authorized
    async def post(self) -> None:
        """Answer ``name``: the kernelspec for the body's environment, kernel and resources."""
        self.check_owner()
        self.finish(json.dumps({"name": await self.offer.chosen(self.body())}))


class EstimateHandler(_Handler):
    """``portal/job-kernels/estimate``: when a kernel would start."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """Answer the portal's estimate for the body's ``options``: as `JobKernelsHandler.post`
        takes them."""
        options = self.body().get("options")
        if not isinstance(options, dict):
            raise Refused(400, "'options' must be a JSON object.")
        try:
            answer = await self.offer.estimate(options)
        except ServiceError as error:
            raise Refused.by_portal(error) from None
        self.finish(json.dumps(answer))
