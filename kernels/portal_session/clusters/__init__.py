"""Clusters of workers for a notebook: the scheduler runs in the notebook's kernel, the workers in
jobs that the portal keeps running.

`dask` is what a notebook uses, by ``from portal_cluster import dask``. The session's server asks
the portal for the workers (`clusters`), connects the browser to the scheduler's pages (`proxy`) and
ends what a kernel has left. `starter` is the program of a worker's job.
"""
