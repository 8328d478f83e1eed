"""Settings of Jupyter's programs in terminals and kernels, whose Python may lack this package:
their kernels listen on Unix sockets (`kernels.local_kernels`)."""

import importlib
import importlib.util
import os
import sys

if sys.version_info >= (3, 9):  # noqa: UP036 - any Python's Jupyter reads this
    _root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
    _package = "_portal_session"  # a name of its own: this Python may have another version
    if _package not in sys.modules:
        _spec = importlib.util.spec_from_file_location(
            _package, os.path.join(_root, "__init__.py"), submodule_search_locations=[_root]
        )
        _module = sys.modules[_package] = importlib.util.module_from_spec(_spec)
        _spec.loader.exec_module(_module)
    importlib.import_module(_package + ".kernels.local_kernels").follow()
