"""TensorBoard itself, made to listen on a Unix socket. Importing this imports TensorBoard."""

from __future__ import annotations

import logging
import os
import socketserver
import time
from typing import Any

from tensorboard import manager, program
from tensorboard.backend.event_processing.data_ingester import LocalDataIngester
from werkzeug import serving

from ..programs.runtime import Place
from .logs import LEAST_PAUSE, check_folders, describe, guard_walk
from .watch import Watch


def make_board(
    place: Place, watch: Watch, plugins: list[Any], *, from_notebook: bool
) -> program.TensorBoard:
    """Create a TensorBoard that listens in ``place``; `configure` and `main` run it."""
    prefix = f"{os.environ['PORTAL_TENSORBOARD_PREFIX']}{place.number}"

    class Server(UnixServer):
        def __init__(self, wsgi_app: Any, flags: Any) -> None:
            super().__init__(wsgi_app, place, prefix)

    class Board(program.TensorBoard):
        def configure(self, argv: Any = ("",), **kwargs: Any) -> Any:
            rest = super().configure(argv, **kwargs)
            # Set after TensorBoard has parsed its options, so that the key by which its magic
            # recognizes this command stays what the magic expects.
            self.flags.path_prefix = prefix
            # The fast loader is a process that listens on a port of localhost without a password:
            # every user of the node could read the logs.
            self.flags.load_fast = "false"
            if self.flags.reload_task == "process":
                self.flags.reload_task = "auto"
            folders = check_folders(self.flags)
            if from_notebook:
                describe(place, folders)
            return rest

        def _make_data_ingester(self) -> Any:
            if self.flags.grpc_data_provider:
                watch.ready()
                return super()._make_data_ingester()
            guard_walk(watch)
            ingester = LocalDataIngester(self.flags)
            _follow(ingester, watch)
            watch.reading()
            ingester.start()
            return ingester

        def _register_info(self, server: Any) -> None:
            # The magic waits for this file in the directory for temporary files, where all users
            # of the node see it. Only its owner needs to read it.
            if not from_notebook:
                return
            before = os.umask(0o077)
            try:
                super()._register_info(server)
            except OSError as error:
                raise program.TensorBoardServerException(
                    f"{manager._get_info_dir()} belongs to another user ({error.strerror}). "
                    "Set TMPDIR to your own folder before the kernel starts."
                ) from error
            finally:
                os.umask(before)

    return Board(plugins=plugins, server_class=Server)


def _follow(ingester: LocalDataIngester, watch: Watch) -> None:
    """Report to ``watch`` when all data have been read for the first time.

    Large logs are then scanned less often: every five seconds would take a CPU of its own.
    """
    multiplexer = ingester.deprecated_multiplexer
    reload = multiplexer.Reload
    began = time.monotonic()

    def followed() -> Any:
        try:
            return reload()
        finally:
            multiplexer.Reload = reload
            took = time.monotonic() - began
            if ingester._reload_interval == LEAST_PAUSE:
                ingester._reload_interval = max(LEAST_PAUSE, took * 4)
            watch.ready()

    multiplexer.Reload = followed


class UnixServer(serving.ThreadedWSGIServer, program.TensorBoardServer):
    """Server of Werkzeug on the socket of ``place``."""

    daemon_threads = True

    def __init__(self, wsgi_app: Any, place: Place, prefix: str) -> None:
        self._place = place
        self._prefix = prefix
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        before = os.umask(0o177)
        try:
            super().__init__(f"unix://{place.socket}", 0, wsgi_app, _Requests)
        finally:
            os.umask(before)

    def server_bind(self) -> None:
        # HTTPServer would look up the host name of this "address".
        socketserver.TCPServer.server_bind(self)
        self.server_name = "localhost"
        self.server_port = 0

    def get_url(self) -> str:
        # Not a port: the number stands for one in TensorBoard's file for its magic.
        return f"http://localhost:{self._place.number}{self._prefix}/"

    def print_serving_message(self) -> None:
        pass


class _Requests(serving.WSGIRequestHandler):
    protocol_version = "HTTP/1.1"  # as TensorBoard's own server has it
