"""Values that a hostile client could send as ``user_options``."""

from __future__ import annotations

from typing import Any

from portal.launch.request import option_keys

# Hostile values for each field: none may reach Slurm.
HOSTILE: list[tuple[str, Any]] = [
    *[(key, "x\n#SBATCH --uid=0") for key in option_keys()],
    *[(key, "$(touch /tmp/owned)") for key in option_keys()],
    *[(key, "`id`") for key in option_keys()],
    *[(key, "-x --wrap=id") for key in option_keys()],
    *[(key, "a;b") for key in option_keys()],
    *[(key, {"a": 1}) for key in option_keys()],
    *[(key, ["v"]) for key in option_keys()],
    *[(key, "x\x00y") for key in option_keys()],
    *[(key, True) for key in option_keys()],
    ("gpus", -1),
    ("gpus", 1.5),
    ("gpus", "2"),
    ("gpus", 10**9),
    ("cpus", 0),
    ("nodes", 0),
    ("memory", "4G\n"),
    ("memory", "0G"),
    ("memory", "4"),
    ("time", "2:00"),
    ("time", "infinite"),
    ("time", "0:00:00"),
    ("time", "000-00:00:00"),
    ("time", "0:00:59"),
    ("time", "1:00:00 --begin=now"),
    ("partition", "gpu "),
    ("partition", "--help"),
    ("prologue", "rm -rf ~"),
    ("exec_prefix", "sh -c"),
    ("epilogue", "x"),
    ("req_options", "--uid=0"),
    ("__class__", "x"),
    ("environment", "../../etc/passwd"),
]
