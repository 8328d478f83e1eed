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

from ..local_api import LARGEST, LocalHandler, Refused, json_object
from ..service import Address, Service, ServiceError
from ..situation import in_thread
from . import adoption, broker, specs

_SOON, _LATER = 5.0, 300.0  # seconds until the portal is asked again what it offers
_TRIES = 12  # while a new session is not known to it yet
_RESOURCES = frozenset({"gpus", "gpu_type", "cpus", "memory", "time", "partition", "qos"})


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension, unless the session is one that others may enter."""
    address = Address.of(os.environ)
    if address is None or os.environ.get("PORTAL_COURSE") or not _is_lab(os.environ):
        return
    kernels = broker.Kernels(Service(address, os.environ))
    broker.sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=broker.PREFIX))  # mode 700
    specs.set_folder(folder)
    server = broker.serve(kernels, folder)
    offer = Offer(kernels, folder, app)
    app.portal_job_kernels = offer  # strong references, for as long as the server runs
    offer.begin()
    base = app.web_app.settings["base_url"]
    app.web_app.add_handlers(
        ".*$",
        [
            (url_path_join(base, "portal/job-kernels"), JobKernelsHandler, {"offer": offer}),
            (url_path_join(base, "portal/job-kernels/estimate"), EstimateHandler, {"offer": offer}),
        ],
    )
    ending = app.cleanup_kernels  # after the extensions (ServerApp._cleanup)

    async def end() -> None:
        offer.end()
        await ending()  # relays end their jobs through the broker
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)

    app.cleanup_kernels = end


def _is_lab(environ: Any) -> bool:
    """Return True for a session with JupyterLab: other programs have no kernels."""
    return not (environ.get("PORTAL_TENSORBOARD") or environ.get("PORTAL_PROGRAM"))


class Offer:
    """Kernels that the portal offers to this session, and their kernelspecs in ``folder``."""

    def __init__(self, kernels: broker.Kernels, folder: Path, app: Any) -> None:
        self.kernels, self.folder = kernels, folder
        self._app = app
        self._answer: dict[str, Any] = {}
        self._task: asyncio.Task[None] | None = None
        self._adoption = adoption.Adoption(app, kernels)

    def begin(self) -> None:
        """Ask the portal once the event loop runs, and now and then."""
        from tornado.ioloop import IOLoop

        IOLoop.current().add_callback(self._follow_later)

    def end(self) -> None:
        """Stop asking."""
        if self._task is not None:
            self._task.cancel()
        self._adoption.end()

    async def _follow_later(self) -> None:
        self._task = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        tries = 0
        while True:
            try:
                await self.refresh()
                await self._adoption.begin()
                pause = _LATER
            except ServiceError as error:
                if error.status == 403:
                    return  # not offered in this session
                tries += 1
                pause = _SOON if tries < _TRIES else _LATER
            except OSError as error:
                self._app.log.warning("Kernelspecs of job kernels: %s", error)
                pause = _LATER
            await asyncio.sleep(pause)

    async def refresh(self) -> dict[str, Any]:
        """Ask the portal, and write the kernelspecs. Raises ServiceError, OSError."""
        self._answer = await self.kernels.offered()
        made = list(specs.offered(self._answer))
        await in_thread(specs.write, self.folder, made)
        await in_thread(specs.keep_only, self.folder, {spec.name for spec in made})
        return self._answer

    async def chosen(self, body: dict[str, Any]) -> str:
        """Write the kernelspec of what somebody chose; return its name. Raises Refused."""
        for environment in self._answer.get("items", ()):
            for kernel in environment["kernels"]:
                asked = (body.get("environment"), body.get("kernel"))
                if asked == (environment["environment"], kernel["name"]):
                    resources = {key: body[key] for key in _RESOURCES if body.get(key) is not None}
                    spec = specs.spec_of(environment, kernel, _checked(resources))
                    await in_thread(specs.write, self.folder, [spec])
                    return spec.name
        raise Refused(404, "This environment offers no such kernel. Reload the page.")

    def state(self) -> dict[str, Any]:
        """Return what is offered, and the state of each kernel, as the portal told of it."""
        return {**self._answer, "kernels": self.kernels.told}


def _checked(resources: dict[str, Any]) -> dict[str, Any]:
    """Return resources that can be in a kernelspec; the portal judges them. Raises Refused."""
    for key, value in resources.items():
        whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9
        if not whole and not (isinstance(value, str) and value.isprintable() and len(value) < 100):
            raise Refused(400, f"'{key}' must be a whole number or a short text.")
    if not isinstance(resources.get("gpus", 1), int):
        raise Refused(400, "'gpus' must be a whole number.")
    return resources


class JobKernelsHandler(LocalHandler):
    """``portal/job-kernels``: what is offered, the kernels' states, a kernelspec for a choice."""

    def initialize(self, offer: Offer) -> None:
        self.offer = offer

    @authenticated
    @authorized
    async def get(self) -> None:
        self.finish(json.dumps(self.offer.state()))

    @authenticated
    @authorized
    async def post(self) -> None:
        """Answer ``name``: the kernelspec for the body's environment, kernel and resources."""
        if getattr(self, "portal_guest", ""):
            raise Refused(403, "Only the owner of this session can do this.")
        if len(self.request.body) > LARGEST:
            raise Refused(413, f"The body is longer than {LARGEST} bytes.")
        self.finish(json.dumps({"name": await self.offer.chosen(json_object(self.request.body))}))


class EstimateHandler(LocalHandler):
    """``portal/job-kernels/estimate``: when a kernel would start."""

    def initialize(self, offer: Offer) -> None:
        self.offer = offer

    @authenticated
    @authorized
    async def post(self) -> None:
        """Answer the portal's estimate for the body's options."""
        if len(self.request.body) > LARGEST:
            raise Refused(413, f"The body is longer than {LARGEST} bytes.")
        with contextlib.suppress(ServiceError):
            answer = await self.offer.kernels.estimate(json_object(self.request.body))
            self.finish(json.dumps(answer))
            return
        raise Refused(503, "The portal does not know now when the kernel would start.")
