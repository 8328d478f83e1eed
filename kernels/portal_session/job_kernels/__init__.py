"""Kernels that are Slurm jobs of their own: a session on CPUs gets a kernel on GPUs.

``python -m portal_session.job_kernels`` is the *relay*: to Jupyter, the kernel's process, which
binds the kernel's sockets in the session. ``job_kernels.starter`` runs in the job and starts the
real kernel there. One connection, from the starter to the relay, carries all messages.
"""
