"""Backpressure of a Python kernel: what it prints waits for its reader, and is not dropped.

The socket of a kernel's broadcast drops messages while 1,000 of them wait for a reader
(zmq_socket(3), ZMQ_PUB): a reader that is busy for a moment would lose lines. ZMQ_XPUB_NODROP makes
the kernel wait instead. For kernels with one reader, which always reads.
"""

from __future__ import annotations

# An expression, which leaves no name behind. The socket belongs to ipykernel's thread of output.
KEEP_ALL = (
    "(lambda out: out.schedule(lambda: out.socket.setsockopt(__import__('zmq').XPUB_NODROP, 1)))"
    "(get_ipython().kernel.iopub_socket.io_thread)"
)
