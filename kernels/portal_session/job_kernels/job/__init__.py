"""Kernel in its job: its process, its sockets, its connection to the relay."""
