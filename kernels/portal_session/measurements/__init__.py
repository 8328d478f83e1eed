"""What is measured in a session: memory, GPUs, programs."""
