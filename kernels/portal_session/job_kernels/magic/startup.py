"""Startup file of the Python kernels of a session: it registers the magic ``%%gpu``, and closes
the kernel's ports to other accounts (`kernels.loopback`).

IPython runs the file that PYTHONSTARTUP names, in the user's namespace (IPython, "Startup files");
`environment.add_startup` names this file. It may be read by any version of Python, and
leaves no name and no variable behind.
"""


def _portal_register(path):  # type: ignore[no-untyped-def]
    """Register the magic in a kernel of IPython. ``path``: of this file."""
    import os
    import sys

    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None or sys.version_info < (3, 9):
        return
    root = os.path.abspath(path)  # noqa: PTH100 - no pathlib in Python 2
    for _ in ("startup.py", "magic", "job_kernels"):
        root = os.path.dirname(root)  # noqa: PTH120

    def gpu(line, cell=None):  # type: ignore[no-untyped-def]
        """Run a cell on a GPU: %%gpu [TYPE] [--gpus N] [--time MIN] [--in a,b] [--out c,d].

        The cell runs in a kernel of the same environment, in a Slurm job of its own. --in names
        variables that are sent there, --out those that come back. After --idle SECONDS (60) without
        a cell, the GPU is given back. %gpu stop gives it back now; %gpu status tells its state.
        """
        import importlib.util

        package = "_portal_session"  # a name of its own: the user's Python may have another version
        if package not in sys.modules:
            spec = importlib.util.spec_from_file_location(
                package, os.path.join(root, "__init__.py"), submodule_search_locations=[root]
            )
            module = importlib.util.module_from_spec(spec)
            sys.modules[package] = module
            spec.loader.exec_module(module)
        magic = importlib.import_module(package + ".job_kernels.magic.gpu").magic_of(shell)
        return magic.line(line) if cell is None else magic.cell(line, cell)

    shell.register_magic_function(gpu, "line_cell", "gpu")


def _portal_close(path):  # type: ignore[no-untyped-def]
    """Close the ports of the kernel. ``path``: of this file."""
    import os

    folder = os.path.abspath(path)  # noqa: PTH100
    for _ in ("startup.py", "magic", "job_kernels"):
        folder = os.path.dirname(folder)  # noqa: PTH120
    program = os.path.join(folder, "kernels", "loopback", "__main__.py")
    with open(program) as file:  # noqa: PTH123
        text = file.read()
    exec(compile(text, program, "exec"), {"__file__": program})  # noqa: S102


def _portal_own(names):  # type: ignore[no-untyped-def]
    """Run the user's own startup file, as IPython would without this one."""
    import os

    own = os.environ.pop("PORTAL_PYTHONSTARTUP", "")
    if not own:
        os.environ.pop("PYTHONSTARTUP", None)
        return
    os.environ["PYTHONSTARTUP"] = names["__file__"] = own
    with open(own) as file:  # noqa: PTH123
        text = file.read()
    exec(compile(text, own, "exec"), names)  # noqa: S102


try:
    _portal_close(__file__)
    _portal_register(__file__)
    _portal_own(globals())
finally:
    del _portal_close, _portal_register, _portal_own
