"""Files of the demo's Slurm that differ by its version."""

from __future__ import annotations

import pytest

from portal.demo.daemons import slurm_place


@pytest.mark.parametrize(
    ("said", "version", "plugin"),
    [
        ("slurm-wlm 21.08.5\n", (21, 8), ""),
        ("slurm-wlm 22.05.8\n", (22, 5), "cgroup/v1"),
        ("slurm-wlm 24.11.5\n", (24, 11), "disabled"),
        ("slurm 26.05.5\n", (26, 5), "disabled"),
        ("slurm 23.02.0-0rc1\n", (23, 2), "cgroup/v1"),
        ("slurm-wlm 23.11.4\n", (23, 11), "cgroup/v1"),
        ("", (), ""),
        ("command not found", (), ""),
    ],
)
def test_version(said: str, version: tuple[int, ...], plugin: str) -> None:
    assert slurm_place.version_in(said) == version
    # Slurm 22.05 and 23.11 (Ubuntu 24.04) do not start with a cgroup.conf that says
    # CgroupPlugin=disabled, later ones only with it, where a job has no rights over cgroups.
    assert slurm_place.cgroup_plugin(version) == plugin
