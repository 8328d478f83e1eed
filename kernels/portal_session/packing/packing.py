"""Server extension that packs folders, for JupyterLab and ``portal-pack``."""

from __future__ import annotations

import atexit
import json
import os
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import url_path_join
from tornado.web import authenticated

from ..job_kernels.broker_handler import BrokerHandler
from ..local_api import LocalHandler, Refused
from ..service import ServiceError
from ..situation import in_thread
from ..waiting.observation import cpus
from . import PackingError
from .binding import Binding
from .packer import Packer

PATH = "/packing"  # at the session's broker
_FIELDS = ("folder", "image", "name")


def _load_jupyter_server_extension(app: Any) -> None:
    """Load this server extension in sessions that can have packed folders."""
    packing = Packing(Path.home(), cpus(os.environ))
    if not packing.binding.possible:
        return
    app.portal_packing = packing
    atexit.register(packing.close)
    threading.Thread(target=packing.binding.bind_all, name="packed", daemon=True).start()
    path = url_path_join(app.web_app.settings["base_url"], "portal", "packing")
    app.web_app.add_handlers(".*$", [(path, PackingHandler, {"packing": packing})])


class Packing:
    """Packed folders of a session, and the packing of another one."""

    def __init__(self, home: Path, processors: int) -> None:
        self.packer = Packer(home, processors, self._bind)
        self.binding = Binding(self.packer.places, os.environ)

    def _bind(self, name: str) -> str:
        packed = next(packed for packed in self.packer.places.packed() if packed.name == name)
        return self.binding.bind(packed)

    async def state(self) -> dict[str, Any]:
        """Return ``items``, the packed folders, and ``progress``, the newest packing or None."""
        progress = self.packer.progress
        return {
            "items": await in_thread(self.binding.states),
            "progress": None if progress is None else progress.as_dict(),
        }

    async def start(self, body: dict[str, Any]) -> dict[str, Any]:
        """Begin to pack the body's ``folder``; return the progress. Raises ServiceError."""
        values = {field: body.get(field, "") for field in _FIELDS}
        for field, value in values.items():
            if not isinstance(value, str):
                raise ServiceError(f"'{field}' must be a text.", 400, field=field)
        try:
            progress = await in_thread(lambda: self.packer.start(**values))
        except PackingError as error:
            raise ServiceError(str(error), error.status) from None
        return progress.as_dict()

    async def stop(self, name: str = "") -> dict[str, Any]:
        """Stop the packing; or forget the packed folder ``name``, and return its ``image``, which
        stays. Raises ServiceError."""
        if not name:
            self.packer.cancel()
            return {}
        try:
            return {"image": await in_thread(self.packer.places.forget, name)}
        except PackingError as error:
            raise ServiceError(str(error), error.status) from None

    def close(self) -> None:
        """Stop the packing and unmount everything, at the server's end."""
        self.packer.close()
        self.binding.close()


class PackingHandler(LocalHandler):
    """``portal/packing``: the state of packed folders, and the packing of one."""

    def initialize(self, packing: Packing) -> None:
        self.packing = packing

    @authenticated
    @authorized
    async def get(self) -> None:
        self.finish(json.dumps(await self.packing.state()))

    @authenticated
    @authorized
    async def post(self) -> None:
        self.check_owner()
        try:
            self.finish(json.dumps(await self.packing.start(self.body())))
        except ServiceError as error:
            raise Refused.by_portal(error) from None

    @authenticated
    @authorized
    async def delete(self) -> None:
        self.check_owner()
        self.finish(json.dumps(await self.packing.stop()))


class _BrokerHandler(BrokerHandler):
    """Handler of a request of portal-pack."""

    def initialize(self, packing: Packing) -> None:
        self.packing = packing

    async def get(self) -> None:
        await self.answer(self.packing.state())

    async def post(self) -> None:
        await self.answer_body(self.packing.start)

    async def delete(self, name: str = "") -> None:
        await self.answer(self.packing.stop(name))


def broker_routes(packing: Packing | None) -> Collection[Any]:
    """Return the broker's routes; none without the extension."""
    if packing is None:
        return []
    arguments = {"packing": packing}
    return [(PATH, _BrokerHandler, arguments), (f"{PATH}/([^/]+)", _BrokerHandler, arguments)]
