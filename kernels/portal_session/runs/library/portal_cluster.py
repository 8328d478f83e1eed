"""Clusters of workers for a notebook: ``from portal_cluster import dask; cluster = dask(8)``, or
``ray`` for ``dask``.

Each worker is a job in the notebook's environment, which the portal starts again when it ends. This
module is found as `portal_metrics` is, and loads the session's package from its files: this Python
may have another version of it, or none.
"""

import importlib
import importlib.util
import sys
from pathlib import Path

_PACKAGE = "_portal_session"  # as the magic %%gpu names it
_ROOT = Path(__file__).parents[2]


def dask(workers=0, keep=False, **resources):  # type: ignore[no-untyped-def]
    """Return a Dask cluster with ``workers`` jobs: dask(8, cpus=2, memory="4G", time="1:00:00").

    Its ``client()``, ``scale(n)``, ``adapt(minimum, maximum)`` and ``close()`` are Dask's. It ends
    with this kernel. With ``keep=True``, or keep="1-00:00:00", it goes on until its ``shutdown()``;
    dask("5e2f3c") is that cluster again, by the name or its beginning. Raises an error with a
    sentence for what the portal refuses.
    """
    return _module("clusters.dask.new").dask(workers, keep, **resources)


def ray(workers=0, **resources):  # type: ignore[no-untyped-def]
    """Return a Ray cluster with ``workers`` jobs: ray(4, cpus=2, memory="4G", time="1:00:00").

    Its ``connect()`` returns the module ``ray``, connected to it; ``scale(n)`` and ``close()`` are
    as Dask's. It ends with this kernel. Raises an error with a sentence for what the portal
    refuses.
    """
    return _module("clusters.ray.new").ray(workers, **resources)


def clusters():  # type: ignore[no-untyped-def]
    """Return your kept clusters, oldest first. Raises an error with a sentence."""
    return _module("clusters.dask.kept_list").clusters()


def _module(name):  # type: ignore[no-untyped-def]
    if _PACKAGE not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            _PACKAGE, str(_ROOT / "__init__.py"), submodule_search_locations=[str(_ROOT)]
        )
        sys.modules[_PACKAGE] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return importlib.import_module(f"{_PACKAGE}.{name}")
