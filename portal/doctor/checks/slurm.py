"""Checks of Slurm: its availability, its accounting, and the rights of the Hub's account."""

from __future__ import annotations

import re

from portal.errors import PortalError
from portal.models.cluster.gpu_share import share_of
from portal.slurm.watch.private_data import PrivateData

from ..finding import Result, check, failure, ok, skipped, warning, worst
from ..site import Site

_OLDEST, _NEWEST = (22, 5), (26, 5)  # versions whose recorded output the tests read


async def settings(site: Site) -> dict[str, str]:
    """Return slurm.conf as slurmctld has it (scontrol(1), show config). Raises
    SlurmUnavailable."""
    output = await site.runner.run(["scontrol", "show", "config"])
    pairs = (line.partition("=") for line in output.stdout.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


@check("slurm", "Slurm answers")
async def answers(site: Site) -> Result:
    try:
        config = await settings(site)
        snapshot = await site.cluster.snapshot()
    except PortalError as error:
        return failure(
            error.message,
            "Run `scontrol ping` and `sinfo` as the Hub's account. The commands, slurm.conf and "
            "munge's key must be on this machine (SlurmRunner.bin_dir, SlurmRunner.slurm_conf).",
        )
    version = config.get("SLURM_VERSION", "")
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    results = [ok(f"Slurm {version}, cluster '{config.get('ClusterName', '')}'")]
    if not _OLDEST <= numbers <= _NEWEST:
        results.append(
            warning(
                f"Slurm {version} has not been tested with the portal",
                "Tested versions: 22.05 to 26.05.",
            )
        )
    usable = [node for node in snapshot.nodes.values() if node.usable]
    if not snapshot.partitions:
        results.append(failure("Slurm has no partition", "Ask the administrators of Slurm."))
    elif not usable:
        results.append(
            warning("no node takes jobs", "`sinfo -R` shows why each node is down or drained.")
        )
    else:
        results.append(
            ok(
                f"{len(usable)} of {len(snapshot.nodes)} nodes take jobs, "
                f"{len(snapshot.partitions)} partitions"
            )
        )
    results += [
        warning(
            f"node {node.name} is drained with '{node.reason}'",
            "slurmctld was killed, and started a job again that the node had already. End what "
            "is left of it there, then: scontrol update "
            f"nodename={node.name} state=resume",
        )
        for node in snapshot.nodes.values()
        if node.duplicate_job
    ]
    return worst(results)


@check("slurm-accounting", "Slurm has accounts, limits and a history of jobs")
async def accounting(site: Site) -> Result:
    config = await settings(site)
    if not config.get("AccountingStorageType", "").endswith("/slurmdbd"):
        seconds = config.get("MinJobAge", "?")
        return warning(
            f"no slurmdbd: accounts, QOS and peak memory are unknown, and the reasons why jobs "
            f"ended are lost after {seconds}",
            "Set up slurmdbd (AccountingStorageType=accounting_storage/slurmdbd).",
        )
    results = [ok("slurmdbd stores them")]
    output = await site.runner.run(
        ["sacctmgr", "--noheader", "--parsable2", "show", "cluster", "format=cluster"], check=False
    )
    if output.returncode:
        results.append(
            failure(
                f"slurmdbd does not answer: {output.stderr.strip()[:200]}",
                "Run `sacctmgr show cluster` as the Hub's account.",
            )
        )
    if config.get("JobAcctGatherType", "").endswith("/none"):
        results.append(
            warning(
                "the peak memory of a job is not measured",
                "Set JobAcctGatherType=jobacct_gather/cgroup (or /linux) in slurm.conf.",
            )
        )
    return worst(results)


@check("slurm-rights", "The Hub's account has only the rights that it needs in Slurm")
async def rights(site: Site) -> Result:
    config = await settings(site)
    if config.get("SlurmUser", "").split("(")[0] == site.account:
        return warning(
            f"'{site.account}' is SlurmUser, which has all rights in Slurm",
            "Run the Hub as another account.",
        )
    if not config.get("AccountingStorageType", "").endswith("/slurmdbd"):
        return skipped("without slurmdbd, Slurm has no admin rights to check")
    if site.is_root:
        return skipped(
            "this command runs as root, so the rights of the Hub's account were not checked",
            "Run this command as the Hub's account: sudo -u portal portal doctor",
        )
    output = await site.runner.run(
        ["sacctmgr", "--noheader", "--parsable2", "--readonly", "show", "user", "where",
         f"name={site.account}", "format=user,adminlevel"]
    )  # fmt: skip
    level = output.stdout.strip().partition("|")[2].split("|")[0] or "None"
    private = config.get("PrivateData", "none")
    if level == "Operator":
        return ok(
            f"'{site.account}' is Operator; draining nodes in the portal needs Administrator and "
            "is refused"
        )
    if level == "Administrator":
        return warning(
            f"'{site.account}' is Administrator: the portal's admins can drain nodes, but the "
            "account can also change all accounts and limits",
            f"If admins do not drain nodes in the portal: sacctmgr modify user {site.account} set "
            "adminlevel=Operator",
        )
    advice = (
        f"sacctmgr modify user {site.account} set adminlevel=Operator (or add it first: "
        "docs/how-to/existing-cluster.md)"
    )
    if "jobs" in private:
        return failure(
            f"PrivateData={private} hides other users' jobs from '{site.account}', which has no "
            "admin rights, so their sessions would appear to have ended",
            advice,
        )
    hidden = await PrivateData(site.runner, lambda: 0).hidden()
    if hidden & {"jobs", "users"}:
        return failure(
            f"PrivateData={','.join(sorted(hidden))} of slurmdbd.conf hides associations and the "
            f"reasons why jobs ended from '{site.account}', which has no admin rights",
            advice,
        )
    return warning(f"'{site.account}' is not an Operator, so it cannot create reservations", advice)


@check("slurm-gpus", "Slurm manages GPUs by type and tracks their use")
async def gpus(site: Site) -> Result:
    snapshot = await site.cluster.snapshot()
    counts: dict[str, int] = {}
    for node in snapshot.nodes.values():
        for pool in node.gpus:
            counts[pool.type] = counts.get(pool.type, 0) + pool.count
    if not counts:
        return skipped("no node has GPUs (GRES)")
    config = await settings(site)
    results = [ok(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))]
    if "gpu" in counts:
        results.append(
            warning(
                "some GPUs have no type, so users cannot choose between models",
                "Set the type in gres.conf and slurm.conf: Gres=gpu:v100:4.",
            )
        )
    tracked = config.get("AccountingStorageTRES", "").lower().split(",")
    typed = [f"gres/gpu:{kind}" for kind in sorted(counts) if kind != "gpu"]
    untracked = [name for name in typed if name.lower() not in tracked]
    advice = f"Set AccountingStorageTRES={','.join(['gres/gpu', *typed])} in slurm.conf."
    if "gres/gpu" not in tracked:
        results.append(
            warning(
                "Slurm accounting does not track GPUs, so limits on them have no effect and use is "
                "not recorded",
                advice,
            )
        )
    shared = sorted({pool.type for node in snapshot.nodes.values() for pool in node.shares})
    kinds = {f"gres/{share.gres}" for name in shared if (share := share_of(name))}
    if uncounted := sorted(kinds - set(tracked)):
        results.append(
            warning(
                f"{', '.join(uncounted)}: not tracked, so limits on them have no effect, and Slurm "
                "22.05 does not say how many are free",
                f"Add {','.join(uncounted)} to AccountingStorageTRES in slurm.conf.",
            )
        )
    if "gres/gpu" in tracked and untracked:
        results.append(
            warning(
                f"{', '.join(untracked)}: not tracked by type, so GPUs cannot be reserved by "
                "type, and limits by type have no effect",
                advice,
            )
        )
    return worst(results)
