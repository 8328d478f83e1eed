"""Connection of relay and starter: keys, messages that arrive once, and the kernel's sockets."""
