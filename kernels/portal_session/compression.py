"""Former step of the installation of an environment: its static files were compressed ahead.

The server compresses what it sends (`static_files`). Definition files of sites run this module
still: for this version, it does nothing.
"""

if __name__ == "__main__":
    print("Static files need not be compressed ahead any more: remove this step.")
