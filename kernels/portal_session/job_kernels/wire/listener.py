"""Socket on which a relay waits for its kernel's job, on a port that the site's firewall allows."""

from __future__ import annotations

import errno
import random
import socket

PORTS = "PORTAL_KERNEL_PORTS"  # the site's range, c.JobKernels.ports
_BACKLOG = 1024  # connections that wait, strangers' too


def listening(address: str, family: socket.AddressFamily, ports: str) -> socket.socket:
    """Return a socket that listens on one of ``ports``, the site's range ("40000-40999"); "": on
    any. Raises OSError if none is free, ValueError for an invalid range."""
    if not ports:
        return socket.create_server((address, 0), family=family, backlog=_BACKLOG)
    first, _, last = ports.partition("-")
    numbers = list(range(int(first), int(last) + 1))
    random.shuffle(numbers)  # relays that start at once would try the same ones
    for number in numbers:
        try:
            return socket.create_server((address, number), family=family, backlog=_BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(
        f"None of the ports {ports} of this node is free for the kernel. Shut down another kernel, "
        "or ask an admin of the portal."
    )
