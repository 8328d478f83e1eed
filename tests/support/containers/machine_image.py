"""Container with this machine's own packages: the same Python and libraries as outside, so that a
difference is the container's own."""

from __future__ import annotations

import os
from pathlib import Path

from portal.demo.environments.apptainer import apptainer_environment, ensure_apptainer
from portal.demo.home import Home


def machine_image(image: Path) -> dict[str, str]:
    """Make the folder ``image`` into one that Apptainer starts; return the variables for that.
    Raises ConfigurationError if Apptainer cannot be had."""
    apptainer = ensure_apptainer(Home.find().cache, print)
    bound = ("/usr", "/etc/alternatives")  # the latter names the library of linear algebra
    for name in (*bound, "/dev", "/proc", "/sys", "/tmp", "/root", "/home", "/var/tmp"):
        (image / name[1:]).mkdir(parents=True, exist_ok=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (image / name).symlink_to(f"usr/{name}")
    for name in ("passwd", "group", "resolv.conf", "hosts", "localtime"):
        (image / "etc" / name).touch()
    path = f"{apptainer.parent}:{os.environ['PATH']}"
    return {**apptainer_environment(), "APPTAINER_BIND": ",".join(bound), "PATH": path}
