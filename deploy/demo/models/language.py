"""SmolLM2-135M-Instruct behind OpenAI's addresses, on a Unix socket: llama.cpp's own server.

Called with the file of the weights and the socket.
"""

from __future__ import annotations

import os
import signal
import sys

import xllamacpp

if __name__ == "__main__":
    weights, socket = sys.argv[1:]
    settings = xllamacpp.CommonParams()
    settings.model.path = weights
    settings.model_alias = {"smollm2-135m-instruct"}
    settings.n_ctx, settings.n_parallel = 4096, 2
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    settings.hostnames = [f"{socket}.sock"]  # another name would be taken for a host's
    server = xllamacpp.Server(settings)
    os.rename(f"{socket}.sock", socket)  # noqa: PTH104
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
