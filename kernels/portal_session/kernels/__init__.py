"""A session's kernels: where they run, with which command and shell."""
