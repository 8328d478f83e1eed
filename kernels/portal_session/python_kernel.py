"""Starts IPython's kernel in a Python that does not have it: ``python FILE FOLDER -f CONNECTION``.

``FILE`` is this one, run by its path, since that Python knows nothing of this package; ``FOLDER``
holds ipykernel and what it needs. It comes last on ``sys.path``: what the Python has of its own
wins, and other programs of that Python (pip, a training run) see nothing of the folder.

For every Python from 2.7 on, so nothing newer stands here.
"""

import sys


def main():
    folder = sys.argv.pop(1)
    # Python puts this file's folder first: its modules would stand before everybody's.
    del sys.path[0]
    sys.path.append(folder)
    try:
        from ipykernel import kernelapp
    except ImportError as error:
        sys.exit("The kernel of this environment's Python cannot start: %s." % error)  # noqa: UP031
    kernelapp.launch_new_instance()


if __name__ == "__main__":
    main()
