"""Submission of the stub as plain jobs, as root in the demo's namespace: the cost of Slurm itself.

python plain.py STUB URL PARTITION NAME… : one ``sbatch`` per name, as that person, as many at once
as the portal's spawner (portal/slurm/commands/run.py). Prints the time of its start (Unix seconds)
and the number of refusals.
"""

from __future__ import annotations

import json
import pwd
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

AT_ONCE = 8


def main(stub: str, url: str, partition: str, *names: str) -> None:
    """Submit a job per name."""
    people = [pwd.getpwnam(name) for name in names]
    port = url.rpartition(":")[2]

    def submit(person: pwd.struct_passwd) -> bool:
        env = {
            "PATH": "/usr/bin:/bin",
            "HOME": person.pw_dir,
            "JUPYTERHUB_API_URL": f"{url}/posted/{person.pw_name}",
            "JUPYTERHUB_API_TOKEN": "none",
        }
        options = ["--output=/dev/null", f"--partition={partition}", "--mem=100", "--time=30"]
        done = subprocess.run(
            ["sbatch", "--parsable", *options, stub, "port", port],
            env=env,
            cwd="/",
            user=person.pw_uid,
            group=person.pw_gid,
            extra_groups=[],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        return done.returncode == 0

    began = time.time()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        accepted = list(pool.map(submit, people))
    print(json.dumps({"began": began, "refused": accepted.count(False)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
