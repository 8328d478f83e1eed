"""Runs in the small Slurm, submitted as the portal submits them; their points report to a played
service."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

from portal_session.runs.plan import Plan
from run_site import RunSite
from small import SmallSlurm

from portal.launch.container import sbatch_options, script_environment, session_script
from portal.models.catalog.environment import Environment
from portal.models.session.resources import Resources
from portal.models.session.run import AskedRun
from portal.slurm import Cluster, SlurmRunner
from portal.work.run.kind import Run


class Begun(NamedTuple):
    """Run whose array job Slurm has."""

    plan: Plan
    job: str

    def log(self, attempt: int = 1, point: int = 0) -> Path:
        name = f"{point:04d}-{attempt}" if attempt > 1 else f"{point:04d}"
        return self.plan.folder / name / "output.log"


class Place:
    """The small Slurm, and runs in it, whose points report to a played service each."""

    def __init__(self, slurm: SmallSlurm, root: Path) -> None:
        self.slurm, self.root = slurm, root
        runner = SlurmRunner(slurm_conf=slurm.env["SLURM_CONF"])
        self.cluster = Cluster(runner=runner, patience=60, rpcs_per_second=100.0, burst=100)

    def begin(
        self,
        site: RunSite,
        plan: Plan,
        *,
        resumes: int = 0,
        partition: str = "cpu",
        time: str = "0:10:00",
        ranks: int = 0,
        program: str = sys.executable,
        container: bool = False,
        **more: Any,
    ) -> Begun:
        """Submit a run as the portal does. ``more``: further resources; ``program``: the Python of
        the environment, of a ``container`` what starts it there."""
        asked = AskedRun(
            id=plan.id, name=plan.name, source=str(plan.source), folder=str(plan.folder),
            points=plan.points, resumes=resumes, ranks=ranks,
        )  # fmt: skip
        resources = Resources(
            **{"cpus": 1, "memory": "500M", "time": time, "partition": partition, **more}
        )
        kind = Run(run=asked).within(resources.time)
        if container:
            environment = Environment(name="sif", title="S", kind="container", image="/i.sif")
        else:
            environment = Environment(name="venv", title="V", kind="venv", path=sys.prefix)
        options = sbatch_options(
            resources, name="portal-venv", output=f"{site.home}/{plan.name}.log",
            directory=str(site.home),
        )  # fmt: skip
        of_slurm = {"PATH", *(name for name in site.environ if name.startswith("SLURM"))}
        own = {name: value for name, value in site.environ.items() if name not in of_slurm}
        env = script_environment(environment, {**own, **kind.variables()})
        env |= {**kind.script_variables("", ""), "PORTAL_UMASK": "0022"}
        env["HOME"] = str(site.home)
        argv = ["sbatch", "--parsable", *options, *kind.sbatch_options()]
        job = [str(session_script()), program, "-m", kind.module]
        said = self.slurm.run(*argv, *job, env=env)
        return Begun(plan, said.strip())
