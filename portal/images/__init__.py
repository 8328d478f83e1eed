"""Container images: fetched, given the session's server, verified, tested. In jobs of Slurm.

What runs in the job (``job.py`` and what it calls) and what the service needs to start one and to
read what it said (``settings.py``, ``log_protocol.py``). The catalog submits the jobs.
"""
