"""Bash kernel: bash_kernel, without the port of loopback that ipykernel opens for forked Pythons.

Run as ``python -I -m portal_session.kernels.bash -f FILE``. Its bash runs behind a pseudoterminal,
so that the port would serve nothing. (Those of Python kernels: `loopback`.)
"""

from __future__ import annotations

from typing import Any


def launch(**settings: Any) -> None:
    """Run bash_kernel until it ends. ``settings``: of ipykernel's IPKernelApp."""
    from bash_kernel.kernel import BashKernel
    from ipykernel import iostream
    from ipykernel.kernelapp import IPKernelApp

    iostream.IOPubThread._setup_pipe_in = _no_pipe
    IPKernelApp.launch_instance(kernel_class=BashKernel, **settings)


def _no_pipe(thread: Any) -> None:
    thread._pipe_flag = False  # as ipykernel has it where it cannot bind one


if __name__ == "__main__":
    launch()
