"""Main module of a script in a run: the frozen source, in the place of its author's file.

``python3 -m portal_main`` executes it as ``__main__``. Processes that multiprocessing spawns import
the main module by its name (multiprocessing, "The spawn and forkserver start methods"), and execute
the same frozen source, also if the author's file was changed since. ``__file__``, ``sys.argv``,
``sys.path`` and the working directory are as in a terminal. It is started in another directory:
until the frozen modules are installed, Python would import what others have put beside the source.
May be read by any Python 3.
"""


def _portal_execute(names):  # type: ignore[no-untyped-def]
    """Execute the frozen source in the module whose variables are ``names``."""
    import contextlib
    import importlib.util
    import linecache
    import os
    import sys
    import traceback

    guard = None
    folder = os.environ.get("PORTAL_FROZEN")
    if folder:  # a container need not see the folder of this module
        sys.path.insert(0, folder)
        import portal_frozen
        import portal_mpi

        sys.path.remove(folder)
        portal_frozen.install()
        if names["__name__"] == "__main__":
            portal_mpi.install()
            guard = portal_mpi
    path = os.environ["PORTAL_SOURCE"]
    with open(os.environ["PORTAL_FROZEN_SOURCE"], "rb") as file:  # noqa: PTH123
        content = file.read()
    try:  # tracebacks and inspect show what is executed
        text = importlib.util.decode_source(content)
        linecache.cache[path] = (len(text), None, text.splitlines(True), path)
    except (SyntaxError, UnicodeDecodeError):
        pass  # compile says so

    def show_error(kind, error, trace):  # type: ignore[no-untyped-def]
        """Print an error as Python does, from the source on."""
        while trace is not None and trace.tb_frame.f_code.co_filename != path:
            trace = trace.tb_next
        traceback.print_exception(kind, error, trace)
        noted = os.environ.get("PORTAL_ERROR_AT")
        if noted:  # of several ranks: the time of the file says which one failed first
            with contextlib.suppress(OSError):
                open(noted, "x").close()  # noqa: PTH123

    stack = os.environ.get("PORTAL_STACK")
    if stack and names["__name__"] == "__main__":  # where a rank waits (runs/ranks/stall.py)
        import _thread
        import faulthandler
        import signal

        try:
            file = open(stack, "w")  # noqa: PTH123, SIM115 - faulthandler keeps it
            asked, main = signal.SIGRTMIN + 9, _thread.get_ident()
            for number in (asked, signal.SIGRTMIN + 11):
                faulthandler.register(number, file=file, all_threads=False)

            def answer():  # type: ignore[no-untyped-def]
                """Write where the script is, whenever it is asked: in a thread, since a signal that
                reaches the script's own would end a sleeping call of a library."""
                while True:
                    signal.sigwait({asked})
                    frame, lines = sys._current_frames().get(main), []
                    while frame is not None:
                        code = frame.f_code
                        name, at = code.co_filename, frame.f_lineno or 0
                        lines.append(f'  File "{name}", line {at} in {code.co_name}\n')
                        frame = frame.f_back
                    with contextlib.suppress(OSError):
                        os.write(file.fileno(), "".join(lines).encode(errors="replace"))

            signal.pthread_sigmask(signal.SIG_BLOCK, {asked})
            _thread.start_new_thread(answer, ())
            counted = os.open(stack + ".count", os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
            signals = [0]

            def count(number, frame):  # type: ignore[no-untyped-def]
                """Say that Python goes on: it counts signals between two instructions."""
                signals[0] += 1
                with contextlib.suppress(OSError):
                    os.pwrite(counted, b"%d" % signals[0], 0)

            signal.signal(signal.SIGRTMIN + 10, count)
            signal.siginterrupt(signal.SIGRTMIN + 10, False)
        except (OSError, ValueError, AttributeError):
            pass
    if names["__name__"] == "__main__":
        sys.argv[0] = path
        sys.excepthook = show_error
        if sys.path and sys.path[0] in ("", os.getcwd()):  # noqa: PTH109
            del sys.path[0]
        place = os.path.dirname(path)  # noqa: PTH120
        # Python looks beside the file that a link leads to.
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))  # noqa: PTH120
        try:
            os.chdir(place)
        except OSError:  # a container need not see it
            os.chdir(os.path.expanduser("~"))  # noqa: PTH111
    names.update(__file__=path, __cached__=None, __doc__=None)
    del names["_portal_execute"]
    try:
        exec(compile(content, path, "exec", dont_inherit=True), names)  # noqa: S102
    except BaseException as error:
        if guard is not None:
            guard.note(error)
        raise


_portal_execute(globals())
