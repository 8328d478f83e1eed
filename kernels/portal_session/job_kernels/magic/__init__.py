"""Magic ``%%gpu``: a notebook's cell runs in a warm kernel with GPUs, which has a job of its own.

The notebook's kernel may run in another Python than the session's server, without this package. So
`startup` loads the modules from their files, and they import no more than the standard library,
IPython, jupyter_client and pyzmq, which every such kernel has. `variables` and `remote` are sent to
the kernel with the GPUs as text.
"""
