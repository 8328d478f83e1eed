"""Kernels of a session: where they run, with which command and shell."""
