"""Ports of loopback that a Python kernel opens besides its sockets, closed to other accounts.

ipykernel binds one for the output of forked processes, and debugpy three for the debugger, which
asks nobody for a password: who is let in runs code as the kernel's owner. The first becomes a Unix
socket beside the kernel's; the others accept only connections of this account, as /proc/net/tcp
names it (proc(5)).

This file runs in the kernel (`magic.startup`, or as PYTHONSTARTUP in a container beside the server)
and again as the program of debugpy's adapter. It needs no other module of this package, and may be
read by any version of Python.
"""


def _portal_loopback(path, program):  # type: ignore[no-untyped-def]
    """Close the ports. ``path``: of this file; ``program``: True in the adapter's process."""
    import os
    import socket
    import struct
    import sys

    def written(address):  # type: ignore[no-untyped-def]
        """Return an address as the kernel writes it in /proc/net/tcp and tcp6."""
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        packed = socket.inet_pton(family, address[0])
        words = struct.unpack("=" + "I" * (len(packed) // 4), packed)
        return "".join(format(word, "08X") for word in words) + ":" + format(address[1], "04X")

    def is_own(connection):  # type: ignore[no-untyped-def]
        """Return True if this account has opened the other end, and not closed it yet."""
        ends = [written(connection.getpeername()), written(connection.getsockname())]
        table = "tcp6" if connection.family == socket.AF_INET6 else "tcp"
        with open("/proc/net/" + table) as lines:  # noqa: PTH123
            for line in lines:
                fields = line.split()
                if fields[1:3] == ends:
                    # Without an inode it is closed, and its account unknown.
                    return fields[9] != "0" and int(fields[7]) == os.getuid()
        return False

    class OwnConnections(socket.socket):
        """Listening socket that drops connections of other accounts."""

        def accept(self):  # type: ignore[no-untyped-def]
            while True:
                connection, address = super(OwnConnections, self).accept()  # noqa: UP008 - also in Python 2
                try:
                    if is_own(connection):
                        return connection, address
                except (OSError, ValueError, LookupError):
                    pass
                connection.close()

    def guard(sockets):  # type: ignore[no-untyped-def]
        """Guard what debugpy listens on. ``sockets``: debugpy.common.sockets."""
        create_server = sockets.create_server

        def create_own(*args, **kwargs):  # type: ignore[no-untyped-def]
            plain = create_server(*args, **kwargs)
            patience = plain.gettimeout()
            own = OwnConnections(plain.family, plain.type, plain.proto, fileno=plain.detach())
            own.settimeout(patience)
            return own

        sockets.create_server = create_own

    def be_adapter():  # type: ignore[no-untyped-def]
        """Run debugpy's adapter, guarded."""
        import runpy

        sys.path.remove(os.path.dirname(path))  # noqa: PTH120
        import debugpy.adapter
        from debugpy.common import sockets

        guard(sockets)
        create_client, clients = sockets.create_client, []

        def create_client_held(*args, **kwargs):  # type: ignore[no-untyped-def]
            client = create_client(*args, **kwargs)
            clients.append(
                client.dup()
            )  # the kernel looks whose it is after this end has closed it
            return client

        sockets.create_client = create_client_held
        folder = os.path.dirname(debugpy.adapter.__file__)  # noqa: PTH120
        runpy.run_path(folder, run_name="__main__")

    def move_pipe(kernel):  # type: ignore[no-untyped-def]
        """Let the output of forked processes come by a Unix socket."""
        import zmq

        thread, app = kernel.iopub_thread, kernel.parent
        if app.transport != "ipc" or not getattr(thread, "_pipe_flag", False):
            return
        address = "ipc://" + app.ip + "-pipe"

        def connected():  # type: ignore[no-untyped-def]
            context = zmq.Context()  # a new one after a fork
            pipe = context.socket(zmq.PUSH)
            pipe.linger = 3000
            pipe.connect(address)
            return context, pipe

        def rebind():  # type: ignore[no-untyped-def]
            pipe = thread._pipe_in.socket
            pipe.bind(address)
            thread._setup_pipe_out = connected
            pipe.unbind("tcp://127.0.0.1:" + str(thread._pipe_port))

        thread.schedule(rebind)  # to the thread whose socket it is

    if program:
        be_adapter()
        return
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return
    if hasattr(getattr(kernel, "iopub_thread", None), "_setup_pipe_out"):
        move_pipe(kernel)
    adapter = sys.modules.get("debugpy.adapter")
    if "debugpy.server.api" in sys.modules and adapter is not None:
        guard(sys.modules["debugpy.common.sockets"])
        adapter.__file__ = path  # its folder is the program that debugpy.listen starts


try:
    _portal_loopback(__file__, "--for-server" in __import__("sys").argv)
finally:
    del _portal_loopback
