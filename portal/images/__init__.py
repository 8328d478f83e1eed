"""Container images: fetched, given the session's server, verified and tested in Slurm jobs.

``job.py`` and what it calls run in the job; the service needs ``settings.py`` to start one and
``log_protocol.py`` to read its log. The catalog submits the jobs.
"""
