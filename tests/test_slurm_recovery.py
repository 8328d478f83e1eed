"""After an outage the snapshot is fresh again at once, also in what is rarely asked for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from portal.slurm import Cluster, SlurmRunner

RECORDED = Path(__file__).parent / "slurm_outputs" / "22.05"


def stand_in(place: Path) -> dict[str, str]:
    """squeue and scontrol that say what Slurm 22.05 said, or nothing while ``away`` exists."""
    scontrol = place / "scontrol"
    scontrol.write_text(
        f"#!/bin/sh\ntest -e {place}/away && {{ echo 'Unable to contact slurm controller' >&2; "
        f"exit 1; }}\nfor what; do :; done\ncat {RECORDED}/$what.txt\n"
    )
    squeue = place / "squeue"
    squeue.write_text("#!/bin/sh\n")
    for script in (scontrol, squeue):
        script.chmod(0o755)
    return {"scontrol": str(scontrol), "squeue": str(squeue)}


async def test_an_outage_that_partitions_met_is_over_with_it(tmp_path: Path) -> None:
    cluster = Cluster(
        runner=SlurmRunner(commands=stand_in(tmp_path)),
        jobs_ttl=0,
        nodes_ttl=0.2,
        partitions_ttl=0.1,
        patience=60,
        rpcs_per_second=100.0,
        burst=100,
    )
    try:
        assert (await cluster.snapshot()).error == ""
        await asyncio.sleep(0.3)
        (tmp_path / "away").touch()
        assert "contact" in (await cluster.snapshot()).error
        (tmp_path / "away").unlink()
        cluster.partitions_ttl = 60
        # A caller is not kept waiting for an answer after an outage: the next one has it.
        async with asyncio.timeout(30):
            while (await cluster.snapshot()).error:
                await asyncio.sleep(0.3)
    finally:
        cluster.close()
